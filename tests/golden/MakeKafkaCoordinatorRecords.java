import com.fasterxml.jackson.databind.JsonNode;
import java.lang.reflect.Method;
import java.lang.reflect.ParameterizedType;
import java.lang.reflect.Type;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;

/**
 * Prints records of Kafka's coordinators, one JSON object a line: type, key and value as Kafka's own
 * converters show them, and the bytes as Kafka writes them. Every version of every type is written
 * three times: as it is new, with everything null that may be, and with everything filled.
 */
public class MakeKafkaCoordinatorRecords {
    private static final String[] TYPES = {
        "org.apache.kafka.coordinator.group.generated.CoordinatorRecordType",
        "org.apache.kafka.coordinator.share.generated.CoordinatorRecordType",
        "org.apache.kafka.coordinator.transaction.generated.CoordinatorRecordType",
    };
    private static int counter = 0;

    public static void main(String[] arguments) throws Exception {
        for (String name : TYPES) {
            for (Object type : Class.forName(name).getEnumConstants()) {
                short low = (short) get(type, "lowestSupportedVersion");
                short high = (short) get(type, "highestSupportedVersion");
                for (short version = low; version <= high; version++) {
                    for (String how : List.of("new", "null", "filled")) {
                        print(type, version, how);
                    }
                }
            }
        }
    }

    private static Object get(Object object, String name) throws Exception {
        return object.getClass().getMethod(name).invoke(object);
    }

    private static void print(Object type, short version, String how) throws Exception {
        Message key = (Message) get(type, "newRecordKey");
        Message value = (Message) get(type, "newRecordValue");
        if (!how.equals("new")) {
            fill(key, false, null, version);
            fill(value, how.equals("null"), value, version);
        }
        String text = "{\"record\":\"" + value.getClass().getSimpleName().replaceFirst("Value$", "")
            + "\",\"type\":" + get(type, "id") + ",\"version\":" + version
            + ",\"key\":" + json(key, (short) 0) + ",\"value\":" + json(value, version)
            + ",\"key_bytes\":\"" + hex(MessageUtil.toCoordinatorTypePrefixedByteBuffer((ApiMessage) key))
            + "\",\"value_bytes\":\"" + hex(MessageUtil.toVersionPrefixedByteBuffer(version, value))
            + "\"}";
        System.out.println(text);
    }

    private static JsonNode json(Message message, short version) throws Exception {
        Class<?> converter = Class.forName(message.getClass().getName() + "JsonConverter");
        return (JsonNode) converter
            .getMethod("write", message.getClass(), short.class)
            .invoke(null, message, version);
    }

    /** `whole`: what is encoded to see whether a null is allowed; null: do not try. */
    private static void fill(Message message, boolean nulls, Message whole, short version)
        throws Exception {
        Method[] methods = message.getClass().getMethods();
        Arrays.sort(methods, Comparator.comparing(Method::getName));
        for (Method method : methods) {
            if (!method.getName().startsWith("set") || method.getParameterCount() != 1) {
                continue;
            }
            Class<?> type = method.getParameterTypes()[0];
            Object before = get(message, decapitalized(method.getName().substring(3)));
            if (nulls && !type.isPrimitive()) {
                method.invoke(message, (Object) null);
                try {
                    MessageUtil.toVersionPrefixedByteBuffer(version, whole);
                    continue;
                } catch (RuntimeException refused) {
                    method.invoke(message, before);
                }
            }
            method.invoke(message, made(method.getGenericParameterTypes()[0], type, method.getName()));
            if (whole != null) {
                try {
                    MessageUtil.toVersionPrefixedByteBuffer(version, whole);
                } catch (RuntimeException refused) { // the version does not have the field
                    method.invoke(message, before);
                }
            }
        }
    }

    private static String decapitalized(String name) {
        return name.substring(0, 1).toLowerCase() + name.substring(1);
    }

    private static Object made(Type generic, Class<?> type, String name) throws Exception {
        counter++;
        if (type == String.class) return name.substring(3) + "-é" + counter;
        if (type == int.class) return 1000 + counter % 60000;
        if (type == long.class) return 10_000_000_000L + counter;
        if (type == short.class) return (short) (100 + counter % 30000);
        if (type == byte.class) return (byte) (counter % 100);
        if (type == boolean.class) return true;
        if (type == Uuid.class) return new Uuid(counter, 7L * counter);
        if (type == byte[].class) return new byte[] {(byte) counter, -1, 0};
        if (type == ByteBuffer.class) return ByteBuffer.wrap(new byte[] {(byte) counter, -2});
        if (type == List.class) {
            Type element = ((ParameterizedType) generic).getActualTypeArguments()[0];
            List<Object> all = new ArrayList<>();
            for (int i = 0; i < 2; i++) {
                Class<?> of = (Class<?>) element;
                all.add(
                    of == Integer.class ? (Object) (counter * 3 + i)
                    : of == Short.class ? (Object) (short) (counter * 3 + i)
                    : made(element, of, name));
            }
            return all;
        }
        Message message = (Message) type.getConstructor().newInstance();
        fill(message, false, null, (short) 0);
        return message;
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
