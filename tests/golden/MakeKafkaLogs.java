// The records of `make_kafka_logs.py`, written with Apache Kafka's own Java client.
//
// Run by that script: java -cp '<kafka>/*' MakeKafkaLogs.java HOST:PORT first|second|third
// "first" makes the topics and most records; "second" goes on after a restart of the broker, "third"
// after another one, before the broker is killed.

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class MakeKafkaLogs {
    static final long TIME = 1_700_000_000_000L;
    static String bootstrap;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        if (args[1].equals("first")) {
            createTopics();
            plain("plain", 0, 40);
            codecs();
            idempotent();
            transactional();
            compacted();
            deleted();
            appendTime();
        } else if (args[1].equals("second")) {
            plain("plain", 40, 60);
            try (KafkaProducer<byte[], byte[]> p = producer("later", Map.of())) {
                send(p, "idempotent", 5, 4, "later");
            }
            roll();
        } else {
            plain("unclean", 0, 40);
        }
        Runtime.getRuntime().halt(0);  // whoever was not closed leaves its transaction open
    }

    static void createTopics() throws Exception {
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            Map<String, Map<String, String>> topics = new HashMap<>();
            Map<String, String> small = Map.of("internal.segment.bytes", "6000", "index.interval.bytes", "700");
            for (String name : List.of("plain", "idempotent", "transactional", "deleted")) {
                topics.put(name, small);
            }
            for (String codec : List.of("gzip", "snappy", "lz4", "zstd")) {
                topics.put(codec, Map.of("index.interval.bytes", "1500"));
            }
            // The indexes of an active segment have their full size on disk until it is closed.
            topics.put("unclean", Map.of(
                "internal.segment.bytes", "6000", "index.interval.bytes", "700", "segment.index.bytes", "240"));
            topics.put("recompressed", Map.of("compression.type", "zstd"));
            topics.put("append-time", Map.of("message.timestamp.type", "LogAppendTime"));
            topics.put("compacted", Map.of(
                "cleanup.policy", "compact", "internal.segment.bytes", "3000", "index.interval.bytes", "700",
                "min.cleanable.dirty.ratio", "0.01", "delete.retention.ms", "86400000000"));
            List<NewTopic> all = topics.entrySet().stream()
                .map(t -> new NewTopic(t.getKey(), 1, (short) 1).configs(t.getValue())).toList();
            admin.createTopics(all).all().get();
        }
    }

    static KafkaProducer<byte[], byte[]> producer(String name, Map<String, String> more) {
        Properties p = new Properties();
        p.put("bootstrap.servers", bootstrap);
        p.put("client.id", name);
        p.put("linger.ms", "60000");
        p.put("batch.size", "100000");
        p.putAll(more);
        return new KafkaProducer<>(p, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static byte[] bytes(String text) {
        return text == null ? null : text.getBytes(StandardCharsets.UTF_8);
    }

    static void one(KafkaProducer<byte[], byte[]> p, String topic, long time, String key, String value) {
        p.send(new ProducerRecord<>(topic, 0, time, bytes(key), bytes(value)));
    }

    static void send(KafkaProducer<byte[], byte[]> p, String topic, int batches, int records, String word) {
        for (int b = 0; b < batches; b++) {
            for (int r = 0; r < records; r++) {
                one(p, topic, TIME + 1000L * b + r, "key-" + r, word + " " + b + "." + r);
            }
            p.flush();
        }
    }

    // Without producer ids: nulls, empty ones, headers, timestamps out of order.
    static void plain(String topic, int from, int to) throws Exception {
        try (KafkaProducer<byte[], byte[]> p = producer("plain", Map.of("enable.idempotence", "false"))) {
            for (int b = from; b < to; b++) {
                long time = TIME + 60_000L * (b % 10 == 7 ? b - 5 : b);
                one(p, topic, time, null, "no key " + b);
                one(p, topic, time + 5, "", "empty key");
                one(p, topic, time - 20, "tombstone", null);
                one(p, topic, time + 1, "empty value", "");
                one(p, topic, time - 1, null, null);
                RecordHeaders headers = new RecordHeaders();
                headers.add("batch", bytes("" + b)).add("batch", bytes("again")).add("null", null);
                headers.add(new RecordHeader("gr\u00fc\u00dfe", new byte[0]));
                p.send(new ProducerRecord<>(topic, 0, time + 2, bytes("with headers"),
                    bytes("x".repeat(b * 7 % 200)), headers));
                p.flush();
            }
        }
    }

    static void codecs() throws Exception {
        for (String codec : List.of("gzip", "snappy", "lz4", "zstd", "recompressed")) {
            String type = codec.equals("recompressed") ? "gzip" : codec;
            try (KafkaProducer<byte[], byte[]> p = producer(codec, Map.of("compression.type", type))) {
                for (int b = 0; b < 4; b++) {
                    for (int r = 0; r < 25; r++) {
                        one(p, codec, TIME + r * 37 % 25, "k" + r % 7, "value " + b + " " + "abc".repeat(r % 30));
                    }
                    p.flush();
                }
                one(p, codec, TIME + 500, "one", "a single record");
                p.flush();
                for (int r = 0; r < 50; r++) {  // more than a block of every codec
                    one(p, codec, TIME + 600, null, "large " + r + " " + "0123456789".repeat(100 + r));
                }
                p.flush();
            }
        }
    }

    static void idempotent() throws Exception {
        try (KafkaProducer<byte[], byte[]> a = producer("a", Map.of());
             KafkaProducer<byte[], byte[]> b = producer("b", Map.of())) {
            for (int turn = 0; turn < 9; turn++) {
                send(a, "idempotent", 3, 2, "a" + turn);
                send(b, "idempotent", 2, 5, "b" + turn);
            }
        }
    }

    static void transactional() throws Exception {
        try (KafkaProducer<byte[], byte[]> a = producer("a", Map.of("transactional.id", "tx-a"));
             KafkaProducer<byte[], byte[]> b = producer("b", Map.of("transactional.id", "tx-b"))) {
            a.initTransactions();
            b.initTransactions();
            for (int turn = 0; turn < 12; turn++) {
                a.beginTransaction();
                b.beginTransaction();
                send(a, "transactional", 2, 3, "a" + turn);
                send(b, "transactional", 1, 4, "b" + turn);
                send(a, "transactional", 1, 1, "a" + turn);
                if (turn % 3 == 1) a.abortTransaction(); else a.commitTransaction();
                if (turn % 4 == 2) b.commitTransaction(); else b.abortTransaction();
            }
            a.beginTransaction();
            for (int r = 0; r < 5; r++) {
                one(a, "compacted", TIME + r, "tx" + r, "committed");
            }
            a.commitTransaction();
            a.beginTransaction();
            one(a, "compacted", TIME, "tx0", "aborted");
            a.abortTransaction();
        }
        // Left open when the broker stops: the last stable offset stays below the end.
        KafkaProducer<byte[], byte[]> open =
            producer("open", Map.of("transactional.id", "tx-open", "transaction.timeout.ms", "900000"));
        open.initTransactions();
        open.beginTransaction();
        send(open, "transactional", 1, 2, "open");
    }

    static void compacted() throws Exception {
        try (KafkaProducer<byte[], byte[]> p = producer("c", Map.of("compression.type", "lz4"));
             KafkaProducer<byte[], byte[]> q = producer("d", Map.of())) {
            // All that this producer writes is written anew below: its last batch stays, without records,
            // as long as it counts as active. Hence the time of today.
            try (KafkaProducer<byte[], byte[]> e = producer("e", Map.of())) {
                for (int r = 0; r < 4; r++) {
                    one(e, "compacted", System.currentTimeMillis(), "key-" + r, "overwritten");
                }
            }
            for (int b = 0; b < 40; b++) {
                KafkaProducer<byte[], byte[]> one = b % 2 == 0 ? p : q;
                for (int r = 0; r < 6; r++) {
                    one(one, "compacted", TIME + 1000L * b + r, "key-" + (b * 5 + r) % 83, "value " + b + "." + r);
                }
                if (b % 7 == 3) {
                    one(one, "compacted", TIME + 1000L * b + 50, "gone-" + b, null);
                }
                one.flush();
            }
        }
    }

    static void deleted() throws Exception {
        try (KafkaProducer<byte[], byte[]> p = producer("e", Map.of())) {
            send(p, "deleted", 60, 4, "deleted");
        }
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            TopicPartition partition = new TopicPartition("deleted", 0);
            admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(160))).all().get();
        }
    }

    static void appendTime() throws Exception {
        try (KafkaProducer<byte[], byte[]> p = producer("f", Map.of("compression.type", "snappy"))) {
            send(p, "append-time", 3, 4, "stamped");
        }
        try (KafkaProducer<byte[], byte[]> p = producer("f", Map.of())) {
            send(p, "append-time", 3, 4, "stamped");
        }
    }

    // A last batch with large records rolls the segment before it, so that all the rest is cleaned.
    static void roll() throws Exception {
        try (KafkaProducer<byte[], byte[]> p = producer("g", Map.of())) {
            Future<RecordMetadata> sent = p.send(
                new ProducerRecord<>("compacted", 0, TIME, bytes("last"), bytes("x".repeat(2500))));
            p.flush();
            sent.get();
        }
    }
}
