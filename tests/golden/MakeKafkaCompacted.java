// The records of `make_kafka_compacted.py`, written with Apache Kafka's own Java client.
//
// Run by that script: java -cp '<kafka>/*' MakeKafkaCompacted.java HOST:PORT first|second
// Each part ends with a batch that rolls the segment, so that a pass of the cleaner has all before it.

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class MakeKafkaCompacted {
    static final List<String> CODECS = List.of("none", "gzip", "snappy", "lz4", "zstd");
    static final long NOW = System.currentTimeMillis();
    static String bootstrap;
    static String part;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        part = args[1];
        if (part.equals("first")) {
            createTopics();
        }
        for (String codec : CODECS) {
            mixed("codec-" + codec, codec, true);
        }
        mixed("stamped", "none", true);
        mixed("stamped", "lz4", true);
        mixed("forgotten", "none", false);
        transactional("transactions");
        transactional("ended");
        overwritten();
        roll();
        Runtime.getRuntime().halt(0);
    }

    static void createTopics() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            Map<String, String> usual = Map.of(
                "cleanup.policy", "compact", "internal.segment.bytes", "4000", "index.interval.bytes", "700",
                "min.cleanable.dirty.ratio", "0.01", "delete.retention.ms", "86400000000");
            List<NewTopic> topics = new ArrayList<>();
            for (String name : names()) {
                Map<String, String> config = new HashMap<>(usual);
                if (name.equals("stamped")) config.put("message.timestamp.type", "LogAppendTime");
                if (name.equals("ended") || name.equals("forgotten")) config.put("delete.retention.ms", "1");
                topics.add(new NewTopic(name, 1, (short) 1).configs(config));
            }
            admin.createTopics(topics).all().get();
        }
    }

    static List<String> names() {
        List<String> names = new ArrayList<>(List.of("stamped", "forgotten", "transactions", "ended", "overwritten"));
        for (String codec : CODECS) names.add("codec-" + codec);
        return names;
    }

    static KafkaProducer<byte[], byte[]> producer(Map<String, String> more) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("linger.ms", "60000");
        p.put("batch.size", "100000");
        p.putAll(more);
        return new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    static void one(KafkaProducer<byte[], byte[]> p, String topic, long time, String key, String value) {
        RecordHeaders headers = new RecordHeaders();
        if (key.hashCode() % 5 == 0) headers.add("head", bytes(value)).add("part", bytes(part));
        p.send(new ProducerRecord<>(topic, 0, time, bytes(key), bytes(value), headers));
    }

    // Batches that lose no, some or all records; tombstones; times out of order.
    static void mixed(String topic, String codec, boolean idempotent) {
        try (KafkaProducer<byte[], byte[]> p = producer(Map.of(
                "compression.type", codec, "enable.idempotence", "" + idempotent))) {
            for (int b = 0; b < 24; b++) {
                long time = NOW + (b % 6 == 5 ? -50_000 : 1000L * b);
                for (int r = 0; r < 1 + b * 5 % 13; r++) {
                    String key = b % 8 == 7 ? "kept-" + part + b + r : "key-" + (b * 7 + r * 3) % 31;
                    String value = (b + r) % 9 == 4 ? null : "value " + part + b + "." + r + "abc".repeat(r * 5);
                    one(p, topic, time + (r % 4) * 300 - r, key, value);
                }
                p.flush();
            }
        }
    }

    static void transactional(String topic) {
        try (KafkaProducer<byte[], byte[]> a = producer(Map.of("transactional.id", topic + "-a"));
             KafkaProducer<byte[], byte[]> b = producer(Map.of("transactional.id", topic + "-b"))) {
            a.initTransactions();
            b.initTransactions();
            for (int turn = 0; turn < 14; turn++) {
                a.beginTransaction();
                b.beginTransaction();
                for (int r = 0; r < 4; r++) one(a, topic, NOW + turn, "a" + (turn + r) % 6, "a" + turn + "x".repeat(60));
                a.flush();
                for (int r = 0; r < 3; r++) one(b, topic, NOW + turn, "b" + r % 2, r == 2 ? null : "b" + turn);
                b.flush();
                one(a, topic, NOW + turn, "a-last", "a" + turn);
                if (turn % 3 == 1) a.abortTransaction(); else a.commitTransaction();
                if (turn % 4 == 2) b.commitTransaction(); else b.abortTransaction();
            }
        }
    }

    // Whole segments of which nothing stays.
    static void overwritten() {
        try (KafkaProducer<byte[], byte[]> p = producer(Map.of("enable.idempotence", "false"))) {
            for (int b = 0; b < 12; b++) {
                for (int r = 0; r < 10; r++) one(p, "overwritten", NOW + b, "k" + r, b + "y".repeat(120));
                p.flush();
            }
        }
    }

    static void roll() {
        try (KafkaProducer<byte[], byte[]> p = producer(Map.of("enable.idempotence", "false"))) {
            for (String name : names()) one(p, name, NOW, "last", "z".repeat(3900));
            p.flush();
        }
    }
}
