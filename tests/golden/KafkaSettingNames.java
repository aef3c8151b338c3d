import java.io.File;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.Enumeration;
import java.util.TreeSet;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.apache.kafka.common.config.ConfigDef;

/**
 * Writes the names of Kafka's settings into kafka_settings/, one a line:
 *
 *   java -cp "<kafka>/libs/*" KafkaSettingNames.java kafka_settings
 *
 * A broker's are those of every class that defines some for brokers.
 */
public class KafkaSettingNames {
    private static final String PREFIX = "org/apache/kafka/";

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
        for (String part : System.getProperty("java.class.path").split(File.pathSeparator)) {
            if (!new File(part).getName().startsWith("kafka-")) {
                continue;
            }
            try (JarFile jar = new JarFile(part)) {
                for (Enumeration<JarEntry> all = jar.entries(); all.hasMoreElements(); ) {
                    String name = all.nextElement().getName();
                    if (name.startsWith(PREFIX) && name.matches(".*Configs?\\.class")
                            && !name.contains("/clients/") && !name.endsWith("/GroupConfig.class")
                            && !name.contains("TopicBasedRemoteLogMetadata")) {
                        addAll(found, Class.forName(name.replace(".class", "").replace('/', '.')));
                    }
                }
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
