// What Apache Kafka's own clients find at a broker; run by `kafka_broker.py`.
//
//   java -cp '<kafka>/*' AskKafka.java HOST:PORT create   name partitions key=value,...   (repeated)
//   java -cp '<kafka>/*' AskKafka.java HOST:PORT read     timestamp,timestamp,...
//   java -cp '<kafka>/*' AskKafka.java HOST:PORT append   topic...
//
// `read` prints a line of fields with tabs for all it sees, bytes in hexadecimal, null as "-":
//   record    topic partition committed|all offset timestamp type key value name=value,...
//   bounds    topic partition start end last-stable
//   time      topic partition wanted offset timestamp       (offset -1: none)
//   newest    topic partition offset timestamp
//   producer  topic partition id epoch last-sequence last-timestamp coordinator-epoch transaction-start

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ListOffsetsOptions;
import org.apache.kafka.clients.admin.ListOffsetsResult;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.IsolationLevel;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public class AskKafka {
    static final StringBuilder out = new StringBuilder();
    static String bootstrap;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            if (args[1].equals("create")) create(admin, args);
            else if (args[1].equals("append")) append(args);
            else read(admin, args[2].split(","));
        }
        System.out.print(out);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    static void create(Admin admin, String[] args) throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        for (int i = 2; i < args.length; i += 3) {
            Map<String, String> config = new HashMap<>();
            for (String pair : args[i + 2].split(",")) {
                if (!pair.isEmpty()) config.put(pair.split("=", 2)[0], pair.split("=", 2)[1]);
            }
            topics.add(new NewTopic(args[i], Integer.parseInt(args[i + 1]), (short) 1).configs(config));
        }
        admin.createTopics(topics).all().get();
    }

    static void append(String[] args) throws Exception {
        try (var producer = new KafkaProducer<>(
                Map.<String, Object>of("bootstrap.servers", bootstrap), new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int i = 2; i < args.length; i++) {
                for (int p = 0; p < producer.partitionsFor(args[i]).size(); p++) {
                    var record = new ProducerRecord<>(args[i], p, "after".getBytes(), "pylog".getBytes());
                    line("appended", args[i], p, producer.send(record).get().offset());
                }
            }
        }
    }

    static void read(Admin admin, String[] times) throws Exception {
        TreeSet<TopicPartition> all = new TreeSet<>((a, b) ->
            a.topic().equals(b.topic()) ? a.partition() - b.partition() : a.topic().compareTo(b.topic()));
        admin.describeTopics(admin.listTopics().names().get()).allTopicNames().get().forEach((name, topic) ->
            topic.partitions().forEach(p -> all.add(new TopicPartition(name, p.partition()))));
        var starts = offsets(admin, all, OffsetSpec.earliest(), IsolationLevel.READ_UNCOMMITTED);
        var ends = offsets(admin, all, OffsetSpec.latest(), IsolationLevel.READ_UNCOMMITTED);
        var stable = offsets(admin, all, OffsetSpec.latest(), IsolationLevel.READ_COMMITTED);
        var newest = offsets(admin, all, OffsetSpec.maxTimestamp(), IsolationLevel.READ_UNCOMMITTED);
        for (TopicPartition tp : all) {
            line("bounds", tp.topic(), tp.partition(), starts.get(tp).offset(), ends.get(tp).offset(), stable.get(tp).offset());
            line("newest", tp.topic(), tp.partition(), newest.get(tp).offset(), newest.get(tp).timestamp());
        }
        for (String time : times) {
            var found = offsets(admin, all, OffsetSpec.forTimestamp(Long.parseLong(time)), IsolationLevel.READ_UNCOMMITTED);
            for (TopicPartition tp : all) {
                line("time", tp.topic(), tp.partition(), time, found.get(tp).offset(), found.get(tp).timestamp());
            }
        }
        admin.describeProducers(all).all().get().forEach((tp, state) -> state.activeProducers().forEach(p ->
            line("producer", tp.topic(), tp.partition(), p.producerId(), p.producerEpoch(), p.lastSequence(), p.lastTimestamp(),
                p.coordinatorEpoch().orElse(-1), p.currentTransactionStartOffset().orElse(-1))));
        for (TopicPartition tp : all) {
            records(tp, "all", starts.get(tp).offset(), ends.get(tp).offset());
            records(tp, "committed", starts.get(tp).offset(), stable.get(tp).offset());
        }
    }

    static Map<TopicPartition, ListOffsetsResult.ListOffsetsResultInfo> offsets(
            Admin admin, Iterable<TopicPartition> all, OffsetSpec spec, IsolationLevel isolation) throws Exception {
        Map<TopicPartition, OffsetSpec> wanted = new HashMap<>();
        all.forEach(tp -> wanted.put(tp, spec));
        return admin.listOffsets(wanted, new ListOffsetsOptions(isolation)).all().get();
    }

    static void records(TopicPartition tp, String which, long start, long end) {
        Map<String, Object> config = Map.of("bootstrap.servers", bootstrap, "enable.auto.commit", "false",
            "auto.offset.reset", "none", "check.crcs", "true",
            "isolation.level", which.equals("all") ? "read_uncommitted" : "read_committed");
        long deadline = System.currentTimeMillis() + 20_000;
        try (var consumer = new KafkaConsumer<>(config, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(List.of(tp));
            consumer.seek(tp, start);
            while (consumer.position(tp) < end && System.currentTimeMillis() < deadline) {
                for (ConsumerRecord<byte[], byte[]> r : consumer.poll(Duration.ofMillis(200))) {
                    List<String> headers = new ArrayList<>();
                    for (Header h : r.headers()) headers.add(hex(h.key().getBytes()) + "=" + hex(h.value()));
                    line("record", tp.topic(), tp.partition(), which, r.offset(), r.timestamp(), r.timestampType(),
                        hex(r.key()), hex(r.value()), String.join(",", headers));
                }
            }
            line("position", tp.topic(), tp.partition(), which, consumer.position(tp));
        }
    }

    static String hex(byte[] data) {
        return data == null ? "-" : HexFormat.of().formatHex(data);
    }

    static void line(Object... fields) {
        List<String> texts = new ArrayList<>();
        for (Object field : fields) texts.add(field.toString());
        out.append(String.join("\t", texts)).append('\n');
    }
}
