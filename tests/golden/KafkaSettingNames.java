import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.TreeSet;
import org.apache.kafka.common.config.ConfigDef;

/**
 * Writes the names of Kafka's settings into kafka_settings/, one a line:
 *
 *   java -cp "<kafka>/libs/*" KafkaSettingNames.java kafka_settings
 *
 * A broker's are those of its own definition, which gathers those of every part of it, and the
 * quotas that are set for brokers, users, clients and addresses while it runs.
 */
public class KafkaSettingNames {
    public static void main(String[] args) throws Exception {
        Path to = Path.of(args[0]);
        write(to, "producer", org.apache.kafka.clients.producer.ProducerConfig.configNames());
        write(to, "consumer", org.apache.kafka.clients.consumer.ConsumerConfig.configNames());
        write(to, "admin", org.apache.kafka.clients.admin.AdminClientConfig.configNames());
        Class<?> topics = Class.forName("org.apache.kafka.storage.internals.log.LogConfig");
        @SuppressWarnings("unchecked")
        Collection<String> names = (Collection<String>) topics.getMethod("configNames").invoke(null);
        write(to, "topic", names);
        write(to, "broker", brokers());
    }

    private static Collection<String> brokers() throws Exception {
        TreeSet<String> found = new TreeSet<>();
        addAll(found, Class.forName("org.apache.kafka.server.config.AbstractKafkaConfig"));
        Class<?> quotas = Class.forName("org.apache.kafka.server.config.QuotaConfig");
        for (Method method : quotas.getMethods()) {
            if (Modifier.isStatic(method.getModifiers()) && method.getParameterCount() == 0
                    && method.getReturnType() == ConfigDef.class) {
                found.addAll(((ConfigDef) method.invoke(null)).names());
            }
        }
        return found;
    }

    private static void addAll(Collection<String> found, Class<?> type) throws Exception {
        for (Field field : type.getDeclaredFields()) {
            if (Modifier.isStatic(field.getModifiers()) && field.getType() == ConfigDef.class) {
                field.setAccessible(true);
                found.addAll(((ConfigDef) field.get(null)).names());
            }
        }
    }

    private static void write(Path to, String what, Collection<String> names) throws Exception {
        Files.writeString(to.resolve(what + ".txt"), String.join("\n", new TreeSet<>(names)) + "\n");
    }
}
