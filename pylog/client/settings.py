"""Every setting of the clients: Apache Kafka's names and defaults, with underscores as keywords.

`pylog.kafka_settings` lists Kafka's other settings, with their treatment.
"""

from __future__ import annotations

from typing import Final

from pylog import errors, kafka_settings
from pylog.config import INT_MAX, LONG_MAX, REQUIRED, ConfigKey, ConfigTable

_COMMON: Final = (
    ConfigKey(
        "bootstrap.servers", list, REQUIRED, "Addresses host:port of brokers or the gateway."
    ),
    ConfigKey("client.id", str, "", "A name for this client in logs of the brokers.", high=255),
    ConfigKey(
        "client.routing",
        str,
        "direct",
        "Whether brokers are reached at their own addresses (direct), or all of them through the "
        "gateway, which bootstrap.servers must then name (gateway). pylog's own.",
        choices=("direct", "gateway"),
    ),
    ConfigKey(
        "client.transport",
        str,
        "auto",
        "The transport of records and calls: framed TCP connections to each broker that offers "
        "them and can be reached there, else gRPC (auto); always gRPC (grpc), as with "
        "client.routing=gateway and for what the controller's gateway answers. pylog's own.",
        choices=("auto", "grpc"),
    ),
    ConfigKey(
        "request.timeout.ms", int, 30_000, "How long to wait for one answer.", low=1, high=INT_MAX
    ),
    ConfigKey(
        "default.api.timeout.ms",
        int,
        60_000,
        "How long a call that takes no timeout of its own may last.",
        low=0,
        high=INT_MAX,
    ),
    ConfigKey(
        "retry.backoff.ms",
        int,
        100,
        "The first wait before a retry; doubles each time.",
        low=0,
        high=LONG_MAX,
    ),
    ConfigKey(
        "retry.backoff.max.ms",
        int,
        1_000,
        "The longest wait between retries.",
        low=0,
        high=LONG_MAX,
    ),
    ConfigKey(
        "metadata.max.age.ms",
        int,
        300_000,
        "Metadata is refreshed after this time even without an error.",
        low=1,
        high=LONG_MAX,
    ),
    ConfigKey(
        "reconnect.backoff.ms",
        int,
        50,
        "The first wait before a connection that broke, or could not be made, is made again, for "
        "each broker. It doubles with each failure in a row, within 20 %.",
        low=1,
        high=LONG_MAX,
    ),
    ConfigKey(
        "reconnect.backoff.max.ms",
        int,
        1_000,
        "The longest wait between attempts to connect to a broker.",
        low=1,
        high=LONG_MAX,
    ),
    ConfigKey(
        "socket.connection.setup.timeout.ms",
        int,
        10_000,
        "How long one attempt to connect may take. For a framed port it doubles with each failure "
        "in a row, within 20 %, and is 2 s at most: then gRPC is used.",
        low=1,
        high=LONG_MAX,
    ),
    ConfigKey(
        "socket.connection.setup.timeout.max.ms",
        int,
        30_000,
        "The longest that an attempt to connect gets after failures.",
        low=1,
        high=LONG_MAX,
    ),
    ConfigKey(
        "connections.max.idle.ms",
        int,
        540_000,
        "A connection on which nothing passes for so long, and for which nothing is due, is "
        "closed; the next record or fetch makes another. -1: never.",
        low=-1,
        high=LONG_MAX,
    ),
    ConfigKey(
        "bootstrap.timeout.ms",
        int,
        8_000,
        "How long to try the addresses of bootstrap.servers before any of them has answered; then "
        "the call that waits fails, and the next one tries anew. pylog's own.",
        low=0,
        high=LONG_MAX,
    ),
)

PRODUCER_SETTINGS: Final = ConfigTable(
    (
        *_COMMON,
        ConfigKey(
            "acks",
            str,
            "all",
            "Whose write is awaited: nobody's (0), the leader's (1), all in-sync replicas' (all).",
            choices=("all", "-1", "0", "1"),
        ),
        ConfigKey(
            "enable.idempotence",
            bool,
            None,
            "No duplicates by retries. Default: true with acks=all, else false.",
        ),
        ConfigKey(
            "batch.size",
            int,
            16_384,
            "Bytes of one partition's batch; a batch of this size is sent.",
            low=0,
            high=INT_MAX,
        ),
        ConfigKey(
            "batch.max.size",
            int,
            None,
            "The size that a full batch may grow to while its broker has all requests it may have, "
            "after the first 2 MiB of a steady stream (as in KIP-782). Default: 16 times "
            "batch.size. The value of batch.size turns it off.",
            low=0,
            high=INT_MAX,
        ),
        ConfigKey(
            "linger.ms",
            int,
            5,
            "How long an unfilled batch waits for more records.",
            low=0,
            high=LONG_MAX,
        ),
        ConfigKey(
            "buffer.memory",
            int,
            33_554_432,
            "Bytes of records that wait to be acknowledged, together.",
            low=1,
            high=LONG_MAX,
        ),
        ConfigKey(
            "max.block.ms",
            int,
            60_000,
            "How long send() waits for metadata, and for room in buffer.memory.",
            low=0,
            high=LONG_MAX,
        ),
        ConfigKey(
            "max.request.size",
            int,
            1_048_576,
            "The largest record, and the largest request of several batches.",
            low=0,
            high=INT_MAX,
        ),
        ConfigKey(
            "max.in.flight.requests.per.connection",
            int,
            5,
            "Unanswered produce requests per broker. At most 5 with idempotence.",
            low=1,
            high=INT_MAX,
        ),
        ConfigKey(
            "delivery.timeout.ms",
            int,
            120_000,
            "From send() to success or failure, all retries included.",
            low=1,
            high=INT_MAX,
        ),
        ConfigKey(
            "transactional.id",
            str,
            None,
            "The name of a producer of transactions: a newer one under the same name fences this "
            "one, and ends what it left open. One for each instance that runs at a time.",
        ),
        ConfigKey(
            "transaction.timeout.ms",
            int,
            60_000,
            "A transaction that is open for longer is aborted by its coordinator. At most the "
            "brokers' transaction.max.timeout.ms.",
            low=1,
            high=INT_MAX,
        ),
        ConfigKey(
            "transaction.two.phase.commit.enable",
            bool,
            False,
            "Whether transactions can be prepared for somebody else's decision (KIP-939): they do "
            "not time out.",
        ),
        ConfigKey(
            "retries",
            int,
            INT_MAX,
            "Retries of a batch; delivery_timeout_ms is the better bound.",
            low=0,
            high=INT_MAX,
        ),
        ConfigKey(
            "compression.type",
            str,
            "none",
            "The codec of batches.",
            choices=("none", "gzip", "snappy", "lz4", "zstd"),
        ),
        ConfigKey(
            "compression.gzip.level",
            int,
            -1,
            "How hard gzip tries: 1 (fast) to 9 (small); -1: zlib's default, 6.",
            low=-1,
            high=9,
        ),
        ConfigKey(
            "compression.lz4.level",
            int,
            9,
            "How hard lz4 tries, 1 to 17. The default is the fast compressor, every other level "
            "the dense one.",
            low=1,
            high=17,
        ),
        ConfigKey(
            "compression.zstd.level",
            int,
            3,
            "How hard zstd tries: negative is faster, 22 is the smallest.",
            low=-131_072,
            high=22,
        ),
        ConfigKey(
            "partitioner",
            object,
            None,
            "'round_robin', or (topic, key, value, partitions) -> partition, or an object with "
            "such a method `partition`, told the available ones as well; or its import path. "
            "Default: murmur2 of the key, sticky without one.",
        ),
        ConfigKey("partitioner.class", object, None, "Kafka's name of the same."),
        ConfigKey(
            "partitioner.adaptive.partitioning.enable",
            bool,
            True,
            "Keyless records go less often to partitions for which more batches wait (KIP-794).",
        ),
        ConfigKey(
            "partitioner.availability.timeout.ms",
            int,
            0,
            "Keyless records avoid brokers that could not take a batch for so long; 0: never.",
            low=0,
            high=LONG_MAX,
        ),
        ConfigKey(
            "partitioner.ignore.keys",
            bool,
            False,
            "Records with a key are placed like those without.",
        ),
        ConfigKey(
            "interceptor.classes",
            object,
            None,
            "Objects, classes or import paths with on_send(record) -> record and "
            "on_acknowledgement(metadata, error), in their order.",
        ),
        ConfigKey(
            "serializer", object, None, "(topic, data) or (data) -> bytes or None, for both."
        ),
        ConfigKey("key.serializer", object, None, "The same, for keys only."),
        ConfigKey("value.serializer", object, None, "The same, for values only."),
    ),
    separator="_",
    what="producer setting",
    kafka=kafka_settings.PRODUCER,
)

CONSUMER_SETTINGS: Final = ConfigTable(
    (
        *_COMMON,
        ConfigKey(
            "group.id",
            str,
            None,
            "The consumer group: its members share the partitions of what they subscribe to, and "
            "its committed offsets are where they begin.",
            error=errors.InvalidGroupId,
        ),
        ConfigKey(
            "group.instance.id",
            str,
            None,
            "The name of a static member, unique in its group: it is expected back after it was "
            "stopped, and its partitions wait for it.",
        ),
        ConfigKey(
            "group.protocol",
            str,
            None,
            "consumer (KIP-848): the coordinator shares out, and members that keep their "
            "partitions go on reading. classic: one of the members shares out. Default: consumer, "
            "unlike Kafka's; or classic where a setting is given that it alone has.",
            choices=("consumer", "classic", "CONSUMER", "CLASSIC"),
        ),
        ConfigKey(
            "group.remote.assignor",
            str,
            None,
            "The coordinator's assignor, uniform or range. Default: the coordinator's.",
        ),
        ConfigKey(
            "partition.assignment.strategy",
            object,
            None,
            "Of the classic protocol: assignors, in the order in which they are liked: range, "
            "roundrobin, sticky, cooperative-sticky, or own ones. Default: range, "
            "cooperative-sticky.",
        ),
        ConfigKey(
            "session.timeout.ms",
            int,
            45_000,
            "Of the classic protocol: a member that is not heard of for so long is out.",
            low=1,
            high=INT_MAX,
        ),
        ConfigKey(
            "heartbeat.interval.ms",
            int,
            3_000,
            "Of the classic protocol: how often a member says that it lives.",
            low=1,
            high=INT_MAX,
        ),
        ConfigKey(
            "max.poll.interval.ms",
            int,
            300_000,
            "A member whose user does not poll for so long gives its partitions to others.",
            low=1,
            high=INT_MAX,
        ),
        ConfigKey(
            "enable.auto.commit",
            bool,
            None,
            "Whether polls commit what was read before. Default: true with a group.id.",
        ),
        ConfigKey(
            "auto.commit.interval.ms",
            int,
            5_000,
            "How often they do.",
            low=0,
            high=INT_MAX,
        ),
        ConfigKey(
            "internal.leave.group.on.close",
            bool,
            True,
            "Whether a consumer that is closed leaves its group, rather than being missed.",
        ),
        ConfigKey(
            "auto.offset.reset",
            str,
            "latest",
            "Where to start without a position, and after the position fell off the log: latest, "
            "earliest, by_duration: and a duration such as PT1H (that long ago), none.",
        ),
        ConfigKey(
            "fetch.min.bytes",
            int,
            1,
            "A fetch is answered once this much is there.",
            low=0,
            high=INT_MAX,
        ),
        ConfigKey(
            "fetch.max.wait.ms",
            int,
            500,
            "... or after this time.",
            low=0,
            high=INT_MAX,
        ),
        ConfigKey(
            "fetch.max.bytes",
            int,
            52_428_800,
            "The largest answer; also what is prefetched at most. The first batch always comes.",
            low=0,
            high=INT_MAX,
        ),
        ConfigKey(
            "max.partition.fetch.bytes",
            int,
            1_048_576,
            "The largest part of one partition. The first batch always comes.",
            low=0,
            high=INT_MAX,
        ),
        ConfigKey(
            "max.poll.records",
            int,
            500,
            "Records that one poll() returns at most.",
            low=1,
            high=INT_MAX,
        ),
        ConfigKey(
            "isolation.level",
            str,
            "read_uncommitted",
            "Whether records of open and aborted transactions are seen.",
            choices=("read_uncommitted", "read_committed"),
        ),
        ConfigKey("check.crcs", bool, True, "Verify the CRC of each fetched batch."),
        ConfigKey(
            "client.rack",
            str,
            "",
            "Where this client runs: with replica.selector.class on the brokers it reads followers "
            "there (KIP-392). Empty: leaders only.",
        ),
        ConfigKey(
            "exclude.internal.topics",
            bool,
            True,
            "Whether a subscription by pattern leaves out internal topics.",
        ),
        ConfigKey(
            "interceptor.classes",
            object,
            None,
            "Objects, classes or import paths with on_consume(records) -> records, in their order.",
        ),
        ConfigKey("deserializer", object, None, "(topic, data) or (data) -> object, for both."),
        ConfigKey("key.deserializer", object, None, "The same, for keys only."),
        ConfigKey("value.deserializer", object, None, "The same, for values only."),
    ),
    separator="_",
    what="consumer setting",
    kafka=kafka_settings.CONSUMER,
)

SHARE_CONSUMER_SETTINGS: Final = ConfigTable(
    (
        *_COMMON,
        ConfigKey(
            "group.id",
            str,
            REQUIRED,
            "The share group: its members read the partitions of their topics together, and each "
            "record goes to one of them at a time.",
            error=errors.InvalidGroupId,
        ),
        ConfigKey(
            "share.acknowledgement.mode",
            str,
            "implicit",
            "Whether a poll accepts the records of the last one (implicit), or the program says of "
            "each record what becomes of it (explicit).",
            choices=("implicit", "explicit"),
        ),
        ConfigKey(
            "share.acquire.mode",
            str,
            "batch_optimized",
            "Whether a poll returns whole record batches, and so maybe more than max.poll.records "
            "(batch_optimized), or never more than that (record_limit).",
            choices=("batch_optimized", "record_limit"),
        ),
        ConfigKey(
            "max.poll.records",
            int,
            500,
            "Records that are acquired at a time, and that one poll() returns.",
            low=1,
            high=INT_MAX,
        ),
        ConfigKey(
            "max.poll.interval.ms",
            int,
            300_000,
            "A member whose user does not poll for so long leaves the group until the next poll.",
            low=1,
            high=INT_MAX,
        ),
        ConfigKey(
            "fetch.min.bytes",
            int,
            1,
            "A fetch is answered once this much is there.",
            low=0,
            high=INT_MAX,
        ),
        ConfigKey("fetch.max.wait.ms", int, 500, "... or after this time.", low=0, high=INT_MAX),
        ConfigKey(
            "fetch.max.bytes",
            int,
            52_428_800,
            "The largest answer. The first batch always comes.",
            low=0,
            high=INT_MAX,
        ),
        ConfigKey("check.crcs", bool, True, "Verify the CRC of each fetched batch."),
        ConfigKey("client.rack", str, "", "The rack in which this client runs, for the brokers."),
        ConfigKey("deserializer", object, None, "(topic, data) or (data) -> object, for both."),
        ConfigKey("key.deserializer", object, None, "The same, for keys only."),
        ConfigKey("value.deserializer", object, None, "The same, for values only."),
    ),
    separator="_",
    what="share consumer setting",
    kafka=kafka_settings.SHARE_CONSUMER,
)

ADMIN_SETTINGS: Final = ConfigTable(
    _COMMON, separator="_", what="admin client setting", kafka=kafka_settings.ADMIN
)
