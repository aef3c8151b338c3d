"""Broker and topic configuration: Kafka's names, types, ranges and (Kafka 4) defaults.

Settings that Kafka does not have are marked "pylog's own" in their description. A topic's setting
is looked up in the topic, then in the broker's setting of the other name (`segment.bytes` ->
`log.segment.bytes`), then the default. Checks that need the cluster (`min.insync.replicas` against
the replication factor) are the controller's.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Self

from pylog import kafka_settings
from pylog.config import INT_MAX, LONG_MAX, ConfigKey, ConfigTable
from pylog.errors import InvalidConfig
from pylog_broker.log_dirs import check_log_dirs
from pylog_broker.log_settings import FORMATS as LOG_FORMATS
from pylog_broker.log_settings import parse_levels
from pylog_broker.net.overrides import parse_overrides
from pylog_broker.throttled_replicas import check_throttled_replicas

_HOUR_MS: Final = 3_600_000
_DAY_MS: Final = 24 * _HOUR_MS
_MIB: Final = 1024 * 1024

SEGMENT_BYTES_MIN: Final = 1024
"""Kafka 4 asks for 1 MiB (KIP-1030), older ones for 14 bytes. Small segments are how a test or a
demonstration sees rolls and retention, so pylog stays between.
"""

_INTERNAL_FACTOR: Final = (
    "The topic {0} has this many replicas, and is made when as many brokers are registered. Where "
    "the setting is not given, a cluster of fewer configured brokers has one on each."
)
_INTERNAL_MIN_ISR: Final = (
    "min.insync.replicas of {0}, when it is made. Where it is not set: 1 with fewer than three "
    "replicas."
)

TOPIC_CONFIG: Final = ConfigTable(
    [
        ConfigKey("cleanup.policy", list, ["delete"],
                  "The treatment of old segments.", choices=("delete", "compact")),
        ConfigKey("compression.type", str, "producer",
                  "The codec on disk; `producer` keeps the one that the producer chose.",
                  choices=("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")),
        ConfigKey("compression.gzip.level", int, -1,
                  "How hard gzip tries where compression.type asks for it: 1 to 9; -1: 6.",
                  low=-1, high=9),
        ConfigKey("compression.lz4.level", int, 9,
                  "The same of lz4. The default is its fast compressor, all others the dense one.",
                  low=1, high=17),
        ConfigKey("compression.zstd.level", int, 3,
                  "The same of zstd: negative is faster, 22 is the smallest.",
                  low=-131_072, high=22),
        ConfigKey("delete.retention.ms", int, _DAY_MS,
                  "How long a compacted topic keeps tombstones.", low=0),
        ConfigKey("errors.deadletterqueue.group.enable", bool, False,
                  "Whether share groups may have the topic as their dead-letter topic. Kafka 4.4's "
                  "(KIP-1191)."),
        ConfigKey("file.delete.delay.ms", int, 60_000,
                  "How long a removed file stays on disk under another name.", low=0),
        ConfigKey("flush.messages", int, LONG_MAX,
                  "So many records in a row are not acknowledged without an fsync. It runs beside "
                  "other partitions' work. The default leaves it to replication.", low=1),
        ConfigKey("flush.ms", int, LONG_MAX,
                  "fsync records at most so long after they came.", low=0),
        ConfigKey("follower.replication.throttled.replicas", list, [],
                  "Replicas that keep to follower.replication.throttled.rate of their brokers "
                  "while they are out of sync: partition:broker, or * for all."),
        ConfigKey("index.interval.bytes", int, 4096,
                  "A batch enters the indexes about once in this many bytes.", low=0, high=INT_MAX),
        ConfigKey("leader.replication.throttled.replicas", list, [],
                  "Replicas that, where they lead, keep to leader.replication.throttled.rate of "
                  "their brokers for followers that are out of sync: partition:broker, or * for "
                  "all."),
        ConfigKey("max.compaction.lag.ms", int, LONG_MAX,
                  "A record is compacted at the latest after this time.", low=1),
        ConfigKey("max.message.bytes", int, 1_048_588,
                  "The largest batch, as it is stored.", low=0, high=INT_MAX),
        ConfigKey("message.timestamp.after.max.ms", int, _HOUR_MS,
                  "How far a record's timestamp may lie in the future (KIP-937).", low=0),
        ConfigKey("message.timestamp.before.max.ms", int, LONG_MAX,
                  "How far a record's timestamp may lie in the past (KIP-937).", low=0),
        ConfigKey("message.timestamp.type", str, "CreateTime",
                  "Whose time a record has: the producer's or the broker's.",
                  choices=("CreateTime", "LogAppendTime")),
        ConfigKey("min.cleanable.dirty.ratio", float, 0.5,
                  "The part of a log that must be uncompacted before the cleaner works on it.",
                  low=0.0, high=1.0),
        ConfigKey("min.compaction.lag.ms", int, 0,
                  "A record is not compacted before this time.", low=0),
        ConfigKey("min.insync.replicas", int, 1,
                  "acks=all needs at least this many in-sync replicas.", low=1, high=INT_MAX),
        ConfigKey("preallocate", bool, False,
                  "A new segment's file has segment.bytes from the start, zeros behind its batches "
                  "until it is full or the broker stops. They take no room on the disk."),
        ConfigKey("retention.bytes", int, -1,
                  "Old segments of a partition above this size are deleted; -1: no limit.",
                  low=-1),
        ConfigKey("retention.ms", int, 7 * _DAY_MS,
                  "Segments older than this are deleted; -1: never.", low=-1),
        ConfigKey("segment.bytes", int, 1024 * _MIB,
                  "The largest segment file. Kafka 4's lowest is 1 MiB.",
                  low=SEGMENT_BYTES_MIN, high=INT_MAX),
        ConfigKey("segment.index.bytes", int, 10 * _MIB,
                  "The largest index file; a full one rolls the segment.", low=12, high=INT_MAX),
        ConfigKey("segment.jitter.ms", int, 0,
                  "A random time up to this is taken off segment.ms, so that not all roll at once.",
                  low=0),
        ConfigKey("segment.ms", int, 7 * _DAY_MS,
                  "A segment rolls after this time even when it is not full.", low=1),
        ConfigKey("unclean.leader.election.enable", bool, False,
                  "Whether a replica that is out of sync may lead, which loses records."),
    ],
    what="topic setting",
    kafka=kafka_settings.TOPIC,
)  # fmt: skip

BROKER_NAMES: Final[Mapping[str, str]] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.type": "compression.type",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.zstd.level": "compression.zstd.level",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "preallocate": "log.preallocate",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""A topic's setting -> the broker's setting that is its default; one has none."""

PRODUCER_ID_EXPIRATION_MS_MIN: Final = 240_000
"""Twice the default `delivery.timeout.ms` of producers. A batch may be sent again for so long as
that, and may be on its way for as long once more."""

CLEANER_THREADS_MAX: Final = 64
"""More than disks can make use of."""

RACK_AWARE_SELECTORS: Final = (
    "RackAwareReplicaSelector",
    "org.apache.kafka.common.replica.RackAwareReplicaSelector",
)
_LEADER_SELECTORS: Final = ("LeaderSelector", "org.apache.kafka.common.replica.LeaderSelector")
"""Kafka's own classes; nobody else's can be loaded."""

_OWN_BROKER_KEYS: Final = (
    ConfigKey("auto.leader.rebalance.enable", bool, True,
              "Whether preferred leaders get their partitions back."),
    ConfigKey("broker.claim.wait.ms", int, 10_000,
              "How long the controller waits for known broker directories before it grants a new "
              "id or an empty replica. pylog's own.", low=0, high=INT_MAX),
    ConfigKey("broker.heartbeat.interval.ms", int, 2_000,
              "How often a broker renews its lease.", low=1, high=INT_MAX),
    ConfigKey("broker.rack", str, None,
              "Where the broker stands; replicas are spread over racks."),
    ConfigKey("broker.session.grace.ms", int, 300,
              "How long the controller waits for the same incarnation after its stream broke. "
              "pylog's own.", low=0, high=INT_MAX),
    ConfigKey("broker.session.timeout.ms", int, 6_000,
              "The lease: a silent broker is fenced after this time.", low=100, high=INT_MAX),
    ConfigKey("connections.max.idle.ms", int, 600_000,
              "A connection on which nothing passes for so long, and for which nothing is due, is "
              "closed; -1: never. A fetch that waits is due.", low=-1),
    ConfigKey("default.replication.factor", int, 1,
              "Replicas of a topic that does not say.", low=1, high=32_767),
    ConfigKey("errors.deadletterqueue.auto.create.topics.enable", bool, False,
              "Whether a missing dead-letter topic of a share group is created when a record is to "
              "go there. Kafka 4.4's (KIP-1191)."),
    ConfigKey("errors.deadletterqueue.topic.name.prefix", str, "dlq.",
              "How the names of dead-letter topics of share groups begin; empty: as they like. "
              "Kafka 4.4's (KIP-1191)."),
    ConfigKey("fetch.max.bytes", int, 55 * _MIB,
              "The largest answer to one fetch.", low=1024, high=INT_MAX),
    ConfigKey("group.consumer.heartbeat.interval.ms", int, 5_000,
              "How often members of a group of the consumer protocol send a heartbeat.",
              low=1, high=INT_MAX),
    ConfigKey("group.consumer.max.heartbeat.interval.ms", int, 15_000,
              "The longest such interval.", low=1, high=INT_MAX),
    ConfigKey("group.consumer.max.session.timeout.ms", int, 60_000,
              "The longest session of such members.", low=1, high=INT_MAX),
    ConfigKey("group.consumer.max.size", int, INT_MAX,
              "Members of one group of the consumer protocol.", low=1, high=INT_MAX),
    ConfigKey("group.consumer.migration.policy", str, "bidirectional",
              "In which direction a group with members may change its protocol: `upgrade` is from "
              "classic to consumer.",
              choices=("bidirectional", "upgrade", "downgrade", "disabled")),
    ConfigKey("group.consumer.min.heartbeat.interval.ms", int, 5_000,
              "The shortest interval of heartbeats of the consumer protocol.",
              low=1, high=INT_MAX),
    ConfigKey("group.consumer.min.session.timeout.ms", int, 45_000,
              "The shortest session of its members.", low=1, high=INT_MAX),
    ConfigKey("group.consumer.session.timeout.ms", int, 45_000,
              "A member of a group of the consumer protocol that is silent for so long has gone.",
              low=1, high=INT_MAX),
    ConfigKey("group.initial.rebalance.delay.ms", int, 3_000,
              "How long the first members of an empty group of the classic protocol wait for "
              "others. A LocalCluster has 0.", low=0, high=INT_MAX),
    ConfigKey("group.max.session.timeout.ms", int, 1_800_000,
              "The longest session that a member of the classic protocol may ask for.",
              low=1, high=INT_MAX),
    ConfigKey("group.max.size", int, INT_MAX,
              "Members of one group of the classic protocol.", low=1, high=INT_MAX),
    ConfigKey("group.min.session.timeout.ms", int, 6_000,
              "The shortest session that a member of the classic protocol may ask for.",
              low=1, high=INT_MAX),
    ConfigKey("group.share.delivery.count.limit", int, 5,
              "How often a record is delivered to members of a share group at most.",
              low=2, high=10),
    ConfigKey("group.share.heartbeat.interval.ms", int, 5_000,
              "How often members of a share group send a heartbeat.", low=1, high=INT_MAX),
    ConfigKey("group.share.max.heartbeat.interval.ms", int, 15_000,
              "The longest such interval.", low=1, high=INT_MAX),
    ConfigKey("group.share.max.record.lock.duration.ms", int, 60_000,
              "The longest lock of a record.", low=30_000, high=3_600_000),
    ConfigKey("group.share.max.session.timeout.ms", int, 60_000,
              "The longest session of a member of a share group.", low=1, high=INT_MAX),
    ConfigKey("group.share.max.share.sessions", int, 2_000,
              "Share sessions of one broker: each member of a share group has one with each broker "
              "that it fetches from.", low=1, high=INT_MAX),
    ConfigKey("group.share.max.size", int, 200,
              "Members of one share group.", low=1, high=1_000),
    ConfigKey("group.share.min.heartbeat.interval.ms", int, 5_000,
              "The shortest interval of heartbeats of a share group.", low=1, high=INT_MAX),
    ConfigKey("group.share.min.record.lock.duration.ms", int, 15_000,
              "The shortest lock of a record.", low=1_000, high=30_000),
    ConfigKey("group.share.min.session.timeout.ms", int, 45_000,
              "The shortest session of a member of a share group.", low=1, high=INT_MAX),
    ConfigKey("group.share.partition.max.record.locks", int, 2_000,
              "Records of one partition that a share group has locked at a time.",
              low=100, high=10_000),
    ConfigKey("group.share.record.lock.duration.ms", int, 30_000,
              "How long a record is locked for the member of a share group that got it.",
              low=1_000, high=3_600_000),
    ConfigKey("group.share.session.timeout.ms", int, 45_000,
              "A member of a share group that is silent for so long has gone.",
              low=1, high=INT_MAX),
    ConfigKey("group.streams.heartbeat.interval.ms", int, 5_000,
              "How often members of a streams group send a heartbeat.", low=1, high=INT_MAX),
    ConfigKey("group.streams.initial.rebalance.delay.ms", int, 3_000,
              "How long the first members of an empty streams group wait for others. A "
              "LocalCluster has 0.", low=0, high=INT_MAX),
    ConfigKey("group.streams.max.heartbeat.interval.ms", int, 15_000,
              "The longest interval of their heartbeats.", low=1, high=INT_MAX),
    ConfigKey("group.streams.max.session.timeout.ms", int, 60_000,
              "The longest session of such members.", low=1, high=INT_MAX),
    ConfigKey("group.streams.max.size", int, INT_MAX,
              "Members of one streams group.", low=1, high=INT_MAX),
    ConfigKey("group.streams.max.standby.replicas", int, 2,
              "The most standby tasks of each task that a group may ask for.",
              low=0, high=INT_MAX),
    ConfigKey("group.streams.min.heartbeat.interval.ms", int, 5_000,
              "The shortest interval of heartbeats of a streams group.", low=1, high=INT_MAX),
    ConfigKey("group.streams.min.session.timeout.ms", int, 45_000,
              "The shortest session of its members.", low=1, high=INT_MAX),
    ConfigKey("group.streams.num.standby.replicas", int, 0,
              "Standby tasks of each task with state.", low=0, high=INT_MAX),
    ConfigKey("group.streams.session.timeout.ms", int, 45_000,
              "A member of a streams group that is silent for so long has gone.",
              low=1, high=INT_MAX),
    ConfigKey("follower.replication.throttled.rate", int, LONG_MAX,
              "Bytes a second that a broker copies of the replicas which their topics' "
              "follower.replication.throttled.replicas name, while they are out of sync.", low=0),
    ConfigKey("leader.imbalance.check.interval.seconds", int, 300,
              "How often the balance of leaders is looked at.", low=1, high=INT_MAX),
    ConfigKey("leader.imbalance.per.broker.percentage", int, 10,
              "So much imbalance is left alone.", low=0, high=100),
    ConfigKey("leader.replication.throttled.rate", int, LONG_MAX,
              "Bytes a second that followers which are out of sync copy from a broker, of the "
              "replicas which their topics' leader.replication.throttled.replicas name.", low=0),
    ConfigKey("local.read.max.descriptors", int, 256,
              "Segment files that readers on the broker's machine hold open (pylog.local.reads); "
              "beyond, and with 0 always, they read over the network. A file that is held stays on "
              "the disk when its segment is deleted. pylog's own.", low=0, high=65_536),
    ConfigKey("local.read.max.ms", int, 60_000,
              "How long such a reader keeps files before it must ask for them again. pylog's own.",
              low=1_000, high=INT_MAX),
    ConfigKey("log.cleaner.backoff.ms", int, 15_000,
              "How long the cleaner waits when no log needs it.", low=0, high=INT_MAX),
    ConfigKey("log.cleaner.dedupe.buffer.size", int, 128 * _MIB,
              "Memory for keys, shared by the passes that run at a time; 24 bytes a key.",
              low=_MIB, high=LONG_MAX),
    ConfigKey("log.cleaner.enable", bool, True,
              "Whether topics with cleanup.policy=compact are compacted."),
    ConfigKey("log.cleaner.io.max.bytes.per.second", float, sys.float_info.max,
              "The bytes that all passes of the cleaner together read and write in a second.",
              low=1),
    ConfigKey("log.cleaner.threads", int, 1,
              "Passes of the cleaner that run at a time, over all log directories; each has at "
              "least one.", low=1, high=CLEANER_THREADS_MAX),
    ConfigKey("log.dirs", list, [],
              "Directories of logs, one per disk; each broker has `broker-<id>/` of its own below "
              "every one. A relative one lies in the broker's directory. Empty: that directory."),
    ConfigKey("log.initial.task.delay.ms", int, 30_000,
              "How long after a broker's start retention is first looked at (KIP-1105).",
              low=0, high=INT_MAX),
    ConfigKey("log.retention.check.interval.ms", int, 300_000,
              "How often retention is looked at.", low=1, high=INT_MAX),
    ConfigKey("log.tail.cache.max.bytes", int, 256 * _MIB,
              "Newest batches of all partitions that are kept in memory. pylog's own.", low=0),
    ConfigKey("log.tail.cache.partition.max.bytes", int, 4 * _MIB,
              "Newest batches of one partition that are kept in memory. pylog's own.", low=0),
    ConfigKey("max.connection.creation.rate", int, INT_MAX,
              "Connections that a process takes in a second, over its listeners for clients but "
              "gRPC's own; those above it wait in the kernel (KIP-612).", low=0, high=INT_MAX),
    ConfigKey("max.connections", int, INT_MAX,
              "Connections that each listener for clients has at a time: framed streams and gRPC "
              "of a broker, the gateway. Never more than what a process may have open leaves "
              "beside its logs, nor than 10000. A further one is closed, where Kafka lets it wait; "
              "one that has not said what it wants gives way to it.", low=0, high=INT_MAX),
    ConfigKey("max.connections.per.ip", int, INT_MAX,
              "Connections from one address that a process has at a time, over its listeners but "
              "gRPC's own, which cannot count them; proven brokers do not count.",
              low=0, high=INT_MAX),
    ConfigKey("max.connections.per.ip.overrides", list, [],
              "Other limits for single addresses: `127.0.0.1:200,10.0.0.7:50`."),
    ConfigKey("max.producer.ids", int, 200_000,
              "Producer ids that all partitions of a broker together know, at about 200 bytes each "
              "(330 with five batches). Beyond it a partition that knows 100 refuses new ones, "
              "until idle ones are forgotten; known ones go on. pylog's own.",
              low=1, high=INT_MAX),
    ConfigKey("max.producer.ids.per.client.id", int, 5_000,
              "New producer ids that a broker gives clients of one client.id within "
              "producer.id.quota.window.seconds; more are refused for a while (after KIP-936). "
              "Clients without one are limited by address only. pylog's own.",
              low=1, high=INT_MAX),
    ConfigKey("max.producer.ids.per.ip", int, 10_000,
              "The same for one address (an IPv6 network of 64 bits). Clients that come through "
              "the gateway share its address. pylog's own.", low=1, high=INT_MAX),
    ConfigKey("max.producer.ids.per.partition", int, 20_000,
              "Producer ids that one partition knows. Beyond it, batches of new ones are refused "
              "until idle ones are forgotten; known ones go on. pylog's own.",
              low=1, high=100_000),
    ConfigKey("message.decompressed.max.bytes", int, 32 * _MIB,
              "The bytes that one compressed batch may unpack to; for a moment twice as much is in "
              "memory. pylog's own.", low=1024, high=INT_MAX),
    ConfigKey("logging.format", str, "text",
              "The form of log lines: `text` for people, `logfmt` (key=value) or `json` for "
              "machines, with broker, cluster and epochs. pylog's own.", choices=LOG_FORMATS),
    ConfigKey("logging.level", str, "INFO",
              "DEBUG, INFO, WARNING, ERROR or CRITICAL; and for single loggers "
              "`INFO,pylog.grpc=DEBUG`. pylog's own."),
    ConfigKey("metrics.listen", str, "",
              "host:port of Prometheus metrics and health checks (/metrics, /healthz, /readyz): "
              "that of the driver; broker n adds n to the port. Port 0 takes free ones. Empty: "
              "off. In Spark set spark.pylog.metrics.listen. pylog's own."),
    ConfigKey("num.partitions", int, 1,
              "Partitions of a topic that does not say.", low=1, high=INT_MAX),
    ConfigKey("offset.metadata.max.bytes", int, 4_096,
              "Of the text that stands beside a committed offset.", low=0, high=INT_MAX),
    ConfigKey("offsets.commit.timeout.ms", int, 5_000,
              "How long a commit, or another change of a group, may wait for other replicas.",
              low=1, high=INT_MAX),
    ConfigKey("offsets.retention.check.interval.ms", int, 600_000,
              "How often old committed offsets are looked for.", low=1, high=INT_MAX),
    ConfigKey("offsets.retention.minutes", int, 7 * 24 * 60,
              "A committed offset goes so long after its group has lost its last member or left "
              "the topic; one of a group without members so long after its commit.",
              low=1, high=INT_MAX),
    ConfigKey("offsets.topic.num.partitions", int, 50,
              "Partitions of __consumer_offsets, when it is made.", low=1, high=10_000),
    ConfigKey("offsets.topic.replication.factor", int, 3,
              _INTERNAL_FACTOR.format("__consumer_offsets"), low=1, high=32_767),
    ConfigKey("offsets.topic.segment.bytes", int, 100 * _MIB,
              "segment.bytes of __consumer_offsets, when it is made.",
              low=SEGMENT_BYTES_MIN, high=INT_MAX),
    ConfigKey("producer.id.block.size", int, 1_000,
              "Producer ids that a broker fetches from the controller at once.",
              low=1, high=INT_MAX),
    ConfigKey("producer.id.expiration.ms", int, _DAY_MS,
              "An idle producer's state is forgotten after this time. A producer whose "
              "delivery.timeout.ms is above half of it gets no id: its retry could come when the "
              "partition has forgotten what it stored. At least twice the default of that.",
              low=PRODUCER_ID_EXPIRATION_MS_MIN, high=INT_MAX),
    ConfigKey("producer.id.quota.window.seconds", int, 3_600,
              "The time over which max.producer.ids.per.ip and max.producer.ids.per.client.id "
              "count. pylog's own.", low=1, high=86_400),
    ConfigKey("queued.max.request.bytes", int, 256 * _MIB,
              "Bytes of requests in work on one broker, over all connections: what has come of "
              "those that are not whole, batches whose acknowledgement is due, and calls over "
              "framed connections that are not answered. Above it no more are read, and a "
              "connection that leaves its request unfinished is closed. Kafka's default, no "
              "limit, would break the rule that everything is bounded.",
              low=_MIB),
    ConfigKey("queued.max.response.bytes", int, 256 * _MIB,
              "Bytes of fetched records that clients of one broker have not taken, over all "
              "connections. Above it fetches wait, and a connection that takes nothing is closed. "
              "pylog's own.", low=_MIB),
    ConfigKey("read.lease.max.bytes", int, 10_240 * _MIB,
              "Bytes of a partition that read leases keep beyond what retention asks for, or from "
              "a pass of the cleaner that is due. Above it the oldest end. They also end when a "
              "disk has no room. pylog's own.", low=0),
    ConfigKey("read.lease.timeout.ms", int, 300_000,
              "How long a read lease lasts without a renewal, at most. 0: none are given. pylog's "
              "own.", low=0, high=_DAY_MS),
    ConfigKey("replica.fetch.backoff.ms", int, 1_000,
              "How long a follower waits after a failed fetch.", low=0, high=INT_MAX),
    ConfigKey("replica.fetch.max.bytes", int, _MIB,
              "Bytes of one partition in one fetch of a follower.", low=0, high=INT_MAX),
    ConfigKey("replica.fetch.min.bytes", int, 1,
              "A follower's fetch waits for this many bytes.", low=0, high=INT_MAX),
    ConfigKey("replica.fetch.response.max.bytes", int, 10 * _MIB,
              "Bytes of one answer to a follower.", low=0, high=INT_MAX),
    ConfigKey("replica.fetch.wait.max.ms", int, 500,
              "How long a follower's fetch waits for bytes.", low=0, high=INT_MAX),
    ConfigKey("replica.high.watermark.checkpoint.interval.ms", int, 5_000,
              "How often high watermarks are written.", low=1, high=INT_MAX),
    ConfigKey("replica.lag.time.max.ms", int, 30_000,
              "A follower that was not caught up for so long leaves the ISR.",
              low=1, high=INT_MAX),
    ConfigKey("replica.selector.class", str, "LeaderSelector",
              "The replica that consumers read: the leader or, with RackAwareReplicaSelector on "
              "all brokers, a follower in the rack that they name in client.rack (KIP-392).",
              choices=(*_LEADER_SELECTORS, *RACK_AWARE_SELECTORS)),
    ConfigKey("share.coordinator.cold.partition.snapshot.interval.ms", int, 300_000,
              "How often partitions of share groups whose state is seldom written get a snapshot.",
              low=1, high=INT_MAX),
    ConfigKey("share.coordinator.snapshot.update.records.per.snapshot", int, 500,
              "Updates of a share group's state of a partition after which a snapshot is written.",
              low=0, high=500),
    ConfigKey("share.coordinator.state.topic.min.isr", int, 2,
              _INTERNAL_MIN_ISR.format("__share_group_state"), low=1, high=INT_MAX),
    ConfigKey("share.coordinator.state.topic.num.partitions", int, 50,
              "Partitions of __share_group_state, when it is made.", low=1, high=10_000),
    ConfigKey("share.coordinator.state.topic.prune.interval.ms", int, 300_000,
              "How often what snapshots have made redundant is deleted from __share_group_state.",
              low=1, high=INT_MAX),
    ConfigKey("share.coordinator.state.topic.replication.factor", int, 3,
              _INTERNAL_FACTOR.format("__share_group_state"), low=1, high=32_767),
    ConfigKey("share.coordinator.state.topic.segment.bytes", int, 100 * _MIB,
              "segment.bytes of __share_group_state, when it is made.",
              low=SEGMENT_BYTES_MIN, high=INT_MAX),
    ConfigKey("share.coordinator.write.timeout.ms", int, 5_000,
              "How long a write of the state of share groups may wait for other replicas.",
              low=1, high=INT_MAX),
    ConfigKey("sink.attempt.lease.ms", int, 60_000,
              "How long an attempt of a query's task to write its rows lives without being "
              "renewed. Readers of committed records wait for it meanwhile. pylog's own.",
              low=1_000, high=INT_MAX),
    ConfigKey("sink.attempts.max", int, 10_000,
              "Open attempts of one sink of a query. pylog's own.", low=1, high=10_000),
    ConfigKey("sinks.max", int, 10_000,
              "Sinks of queries that one partition of __transaction_state remembers. pylog's own.",
              low=1, high=1_000_000),
    ConfigKey("socket.request.max.bytes", int, 100 * _MIB,
              "The largest request.", low=1024, high=INT_MAX),
    ConfigKey("transaction.max.timeout.ms", int, 15 * 60_000,
              "The longest time-out that a transactional producer may ask for.",
              low=1, high=INT_MAX - 1),
    ConfigKey("transaction.partition.verification.enable", bool, True,
              "Whether a partition's leader asks the coordinator about the first batch of a "
              "transaction of version 1 (KIP-890). Under version 2 it always does."),
    ConfigKey("transaction.remove.expired.transaction.cleanup.interval.ms", int, _HOUR_MS,
              "How often transactional ids are looked through for those to be forgotten.",
              low=1, high=INT_MAX),
    ConfigKey("transaction.state.log.min.isr", int, 2,
              _INTERNAL_MIN_ISR.format("__transaction_state"), low=1, high=INT_MAX),
    ConfigKey("transaction.state.log.num.partitions", int, 50,
              "Partitions of __transaction_state, when it is made.", low=1, high=10_000),
    ConfigKey("transaction.state.log.replication.factor", int, 3,
              _INTERNAL_FACTOR.format("__transaction_state"), low=1, high=32_767),
    ConfigKey("transaction.state.log.segment.bytes", int, 100 * _MIB,
              "segment.bytes of __transaction_state, when it is made.",
              low=SEGMENT_BYTES_MIN, high=INT_MAX),
    ConfigKey("transaction.two.phase.commit.enable", bool, False,
              "Whether producers may prepare transactions that stay open until somebody ends them "
              "(KIP-939)."),
    ConfigKey("transactional.id.expiration.ms", int, 7 * _DAY_MS,
              "How long a transactional id is remembered that nobody uses.", low=1, high=INT_MAX),
)  # fmt: skip


def _as_broker_key(key: ConfigKey) -> ConfigKey:
    doc = f"Default of the topic setting {key.name}. {key.doc}"
    return replace(key, name=BROKER_NAMES[key.name], doc=doc)


BROKER_CONFIG: Final = ConfigTable(
    sorted(
        (
            *_OWN_BROKER_KEYS,
            *(_as_broker_key(key) for key in TOPIC_CONFIG if key.name in BROKER_NAMES),
        ),
        key=lambda key: key.name,
    ),
    what="broker setting",
    kafka=kafka_settings.BROKER,
)

DYNAMIC_BROKER_NAMES: Final = frozenset(
    {
        *BROKER_NAMES.values(),
        "errors.deadletterqueue.auto.create.topics.enable",
        "errors.deadletterqueue.topic.name.prefix",
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.threads",
        "logging.level",
        "max.connection.creation.rate",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "max.producer.ids",
        "max.producer.ids.per.client.id",
        "max.producer.ids.per.ip",
        "max.producer.ids.per.partition",
        "producer.id.expiration.ms",
        "producer.id.quota.window.seconds",
        "read.lease.max.bytes",
        "read.lease.timeout.ms",
    }
)
"""Broker settings that `configs alter` changes on a running cluster, as in Kafka: the defaults of
topic settings, what the storage reads at each use, and how much is logged. The others are read at a
process's start.
"""

CLUSTER_WIDE_NAMES: Final = frozenset({"min.insync.replicas", "unclean.leader.election.enable"})
"""Not for a single broker: the controller judges by them as well as each leader (KIP-966). A broker
goes by the metadata alone, whatever it was started with.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """A topic's settings, resolved. Field names are Kafka's with underscores."""

    cleanup_policy: tuple[str, ...] = ("delete",)
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = _DAY_MS
    errors_deadletterqueue_group_enable: bool = False
    file_delete_delay_ms: int = 60_000
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    follower_replication_throttled_replicas: tuple[str, ...] = ()
    index_interval_bytes: int = 4096
    leader_replication_throttled_replicas: tuple[str, ...] = ()
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = 1_048_588
    message_timestamp_after_max_ms: int = _HOUR_MS
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    min_insync_replicas: int = 1
    preallocate: bool = False
    retention_bytes: int = -1
    retention_ms: int = 7 * _DAY_MS
    segment_bytes: int = 1024 * _MIB
    segment_index_bytes: int = 10 * _MIB
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * _DAY_MS
    unclean_leader_election_enable: bool = False

    @classmethod
    def from_mapping(cls, overrides: Mapping[str, str], defaults: Self | None = None) -> Self:
        """The settings given by Kafka's names, over `defaults` (a broker's, or Kafka's own).

        InvalidConfig names key, value and range, or the nearest name of an unknown key.
        """
        config = replace(defaults or cls(), **_as_fields(TOPIC_CONFIG.parse_given(overrides)))
        config.check()
        return config

    @classmethod
    def resolve(cls, overrides: Mapping[str, str], defaults: Self) -> Self:
        """The settings out of the metadata over `defaults`.

        They were checked when they were written, so nothing here may fail: a setting that this
        version does not take (a newer one wrote it) is left at its default.
        """
        return replace(defaults, **_as_fields(_readable(TOPIC_CONFIG, overrides)))

    def check(self) -> None:
        """InvalidConfig when two settings contradict each other."""
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise InvalidConfig(
                f"min.compaction.lag.ms={self.min_compaction_lag_ms} is above "
                f"max.compaction.lag.ms={self.max_compaction_lag_ms}"
            )
        if self.compression_gzip_level == 0:
            raise InvalidConfig("compression.gzip.level=0: it must be from 1 to 9, or -1")
        if not self.cleanup_policy:
            raise InvalidConfig("cleanup.policy='': it must name delete, compact or both")
        for side in ("leader", "follower"):
            setting = f"{side}.replication.throttled.replicas"
            check_throttled_replicas(getattr(self, _field(setting)), setting)

    @property
    def compacted(self) -> bool:
        """Whether the newest record of each key is kept."""
        return "compact" in self.cleanup_policy

    def to_mapping(self) -> dict[str, str]:
        """Every setting by Kafka's name, as text."""
        texts = {key.name: as_text(getattr(self, _field(key.name))) for key in TOPIC_CONFIG}
        return {name: text for name, text in texts.items() if text is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """A broker's settings. `topic` holds those that are defaults of topic settings."""

    auto_leader_rebalance_enable: bool = True
    broker_claim_wait_ms: int = 10_000
    broker_heartbeat_interval_ms: int = 2_000
    broker_rack: str | None = None
    broker_session_grace_ms: int = 300
    broker_session_timeout_ms: int = 6_000
    connections_max_idle_ms: int = 600_000
    default_replication_factor: int = 1
    errors_deadletterqueue_auto_create_topics_enable: bool = False
    errors_deadletterqueue_topic_name_prefix: str = "dlq."
    fetch_max_bytes: int = 55 * _MIB
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_max_size: int = INT_MAX
    group_consumer_migration_policy: str = "bidirectional"
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_session_timeout_ms: int = 45_000
    group_initial_rebalance_delay_ms: int = 3_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = INT_MAX
    group_min_session_timeout_ms: int = 6_000
    group_share_delivery_count_limit: int = 5
    group_share_heartbeat_interval_ms: int = 5_000
    group_share_max_heartbeat_interval_ms: int = 15_000
    group_share_max_record_lock_duration_ms: int = 60_000
    group_share_max_session_timeout_ms: int = 60_000
    group_share_max_share_sessions: int = 2_000
    group_share_max_size: int = 200
    group_share_min_heartbeat_interval_ms: int = 5_000
    group_share_min_record_lock_duration_ms: int = 15_000
    group_share_min_session_timeout_ms: int = 45_000
    group_share_partition_max_record_locks: int = 2_000
    group_share_record_lock_duration_ms: int = 30_000
    group_share_session_timeout_ms: int = 45_000
    group_streams_heartbeat_interval_ms: int = 5_000
    group_streams_initial_rebalance_delay_ms: int = 3_000
    group_streams_max_heartbeat_interval_ms: int = 15_000
    group_streams_max_session_timeout_ms: int = 60_000
    group_streams_max_size: int = INT_MAX
    group_streams_max_standby_replicas: int = 2
    group_streams_min_heartbeat_interval_ms: int = 5_000
    group_streams_min_session_timeout_ms: int = 45_000
    group_streams_num_standby_replicas: int = 0
    group_streams_session_timeout_ms: int = 45_000
    follower_replication_throttled_rate: int = LONG_MAX
    leader_imbalance_check_interval_seconds: int = 300
    leader_imbalance_per_broker_percentage: int = 10
    leader_replication_throttled_rate: int = LONG_MAX
    log_cleaner_backoff_ms: int = 15_000
    log_cleaner_dedupe_buffer_size: int = 128 * _MIB
    log_cleaner_enable: bool = True
    log_cleaner_io_max_bytes_per_second: float = sys.float_info.max
    log_cleaner_threads: int = 1
    local_read_max_descriptors: int = 256
    local_read_max_ms: int = 60_000
    log_dirs: tuple[str, ...] = ()
    log_initial_task_delay_ms: int = 30_000
    log_retention_check_interval_ms: int = 300_000
    log_tail_cache_max_bytes: int = 256 * _MIB
    log_tail_cache_partition_max_bytes: int = 4 * _MIB
    max_connection_creation_rate: int = INT_MAX
    max_connections: int = INT_MAX
    max_connections_per_ip: int = INT_MAX
    max_connections_per_ip_overrides: tuple[str, ...] = ()
    max_producer_ids: int = 200_000
    max_producer_ids_per_client_id: int = 5_000
    max_producer_ids_per_ip: int = 10_000
    max_producer_ids_per_partition: int = 20_000
    message_decompressed_max_bytes: int = 32 * _MIB
    logging_format: str = "text"
    logging_level: str = "INFO"
    metrics_listen: str = ""
    num_partitions: int = 1
    offset_metadata_max_bytes: int = 4_096
    offsets_commit_timeout_ms: int = 5_000
    offsets_retention_check_interval_ms: int = 600_000
    offsets_retention_minutes: int = 7 * 24 * 60
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    offsets_topic_segment_bytes: int = 100 * _MIB
    producer_id_block_size: int = 1_000
    producer_id_expiration_ms: int = _DAY_MS
    producer_id_quota_window_seconds: int = 3_600
    queued_max_request_bytes: int = 256 * _MIB
    queued_max_response_bytes: int = 256 * _MIB
    read_lease_max_bytes: int = 10_240 * _MIB
    read_lease_timeout_ms: int = 300_000
    replica_fetch_backoff_ms: int = 1_000
    replica_fetch_max_bytes: int = _MIB
    replica_fetch_min_bytes: int = 1
    replica_fetch_response_max_bytes: int = 10 * _MIB
    replica_fetch_wait_max_ms: int = 500
    replica_high_watermark_checkpoint_interval_ms: int = 5_000
    replica_lag_time_max_ms: int = 30_000
    replica_selector_class: str = "LeaderSelector"
    share_coordinator_cold_partition_snapshot_interval_ms: int = 300_000
    share_coordinator_snapshot_update_records_per_snapshot: int = 500
    share_coordinator_state_topic_min_isr: int = 2
    share_coordinator_state_topic_num_partitions: int = 50
    share_coordinator_state_topic_prune_interval_ms: int = 300_000
    share_coordinator_state_topic_replication_factor: int = 3
    share_coordinator_state_topic_segment_bytes: int = 100 * _MIB
    share_coordinator_write_timeout_ms: int = 5_000
    sink_attempt_lease_ms: int = 60_000
    sink_attempts_max: int = 10_000
    sinks_max: int = 10_000
    socket_request_max_bytes: int = 100 * _MIB
    transaction_max_timeout_ms: int = 15 * 60_000
    transaction_partition_verification_enable: bool = True
    transaction_remove_expired_transaction_cleanup_interval_ms: int = _HOUR_MS
    transaction_state_log_min_isr: int = 2
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_replication_factor: int = 3
    transaction_state_log_segment_bytes: int = 100 * _MIB
    transaction_two_phase_commit_enable: bool = False
    transactional_id_expiration_ms: int = 7 * _DAY_MS
    topic: TopicConfig = TopicConfig()

    @classmethod
    def from_mapping(cls, given: Mapping[str, str]) -> Self:
        """The settings given by Kafka's names (`log.segment.bytes`), the rest at their defaults.

        InvalidConfig names key, value and range, or the nearest name of an unknown key.
        """
        values = BROKER_CONFIG.parse_given(given)
        topic = replace(TopicConfig(), **_as_fields(_pop_for_topics(values)))
        config = replace(cls(), topic=topic, **_as_fields(values))
        config.check()
        return config

    def under(self, *dynamic: Mapping[str, str]) -> Self:
        """These settings under values out of the metadata, the weakest first.

        As with `TopicConfig.resolve`, nothing here fails, and what is read at a start only stays.
        Cluster-wide settings are Kafka's defaults where the metadata have none.
        """
        values: dict[str, Any] = {name: BROKER_CONFIG[name].default for name in CLUSTER_WIDE_NAMES}
        for layer in dynamic:
            live = {name: layer[name] for name in layer if name in DYNAMIC_BROKER_NAMES}
            values |= _readable(BROKER_CONFIG, live)
        topic = replace(self.topic, **_as_fields(_pop_for_topics(values)))
        return replace(self, topic=topic, **_as_fields(values))

    def check(self) -> None:
        """InvalidConfig when two settings contradict each other."""
        self.topic.check()
        parse_levels(self.logging_level)
        check_log_dirs(self.log_dirs)
        parse_overrides(self.max_connections_per_ip_overrides)
        if self.broker_heartbeat_interval_ms >= self.broker_session_timeout_ms:
            raise InvalidConfig(
                f"broker.heartbeat.interval.ms={self.broker_heartbeat_interval_ms} must be below "
                f"broker.session.timeout.ms={self.broker_session_timeout_ms}, or the lease runs "
                "out between two heartbeats"
            )
        if self.replica_fetch_wait_max_ms > self.replica_lag_time_max_ms:
            raise InvalidConfig(
                f"replica.fetch.wait.max.ms={self.replica_fetch_wait_max_ms} is above "
                f"replica.lag.time.max.ms={self.replica_lag_time_max_ms}: followers of quiet "
                "topics would fall out of the ISR"
            )
        self._check_groups()

    def _check_groups(self) -> None:
        self._check_order("group.min.session.timeout.ms", "group.max.session.timeout.ms")
        for kind in ("consumer", "share", "streams"):
            for what in ("heartbeat.interval.ms", "session.timeout.ms"):
                self._check_between(kind, what)
            interval = f"group.{kind}.heartbeat.interval.ms"
            session = f"group.{kind}.session.timeout.ms"
            interval_ms, session_ms = self._value(interval), self._value(session)
            if interval_ms >= session_ms:
                raise InvalidConfig(
                    f"{interval}={interval_ms} must be below {session}={session_ms}, or members "
                    "are dropped between two heartbeats"
                )
        self._check_between("share", "record.lock.duration.ms")
        self._check_order(
            "group.streams.num.standby.replicas", "group.streams.max.standby.replicas"
        )

    def _check_between(self, kind: str, what: str) -> None:
        least, most = f"group.{kind}.min.{what}", f"group.{kind}.max.{what}"
        self._check_order(least, most)
        self._check_order(least, f"group.{kind}.{what}")
        self._check_order(f"group.{kind}.{what}", most)

    def _value(self, name: str) -> int:
        value: int = getattr(self, _field(name))
        return value

    def _check_order(self, lower: str, upper: str) -> None:
        low, high = self._value(lower), self._value(upper)
        if low > high:
            raise InvalidConfig(f"{lower}={low} is above {upper}={high}")

    def to_mapping(self) -> dict[str, str | None]:
        """Every setting by Kafka's name, as text (None where nothing is set)."""
        own = {key.name: as_text(getattr(self, _field(key.name))) for key in _OWN_BROKER_KEYS}
        of_topics = self.topic.to_mapping()
        topic = {broker_name: of_topics[name] for name, broker_name in BROKER_NAMES.items()}
        return dict(sorted((own | topic).items()))


def without_secrets(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Broker settings as they may be shown to administrators, sorted by name."""
    return tuple(
        (name, str(value))
        for name, value in sorted(given.items())
        if name in BROKER_CONFIG and not BROKER_CONFIG[name].sensitive
    )


def _readable(table: ConfigTable, given: Mapping[str, str]) -> dict[str, Any]:
    values = {}
    for name, text in given.items():
        with contextlib.suppress(InvalidConfig):
            values[name] = table[name].parse(text)
    return values


def _pop_for_topics(values: dict[str, Any]) -> dict[str, Any]:
    """Takes the defaults of topic settings out of a broker's, by the topic's names."""
    return {
        name: values.pop(broker_name)
        for name, broker_name in BROKER_NAMES.items()
        if broker_name in values
    }


def _field(name: str) -> str:
    return name.replace(".", "_")


def _as_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        _field(name): tuple(value) if isinstance(value, list) else value
        for name, value in values.items()
    }


def without_cluster_wide(given: Mapping[str, str]) -> dict[str, str]:
    """The settings of a broker's start that count."""
    return {name: given[name] for name in given if name not in CLUSTER_WIDE_NAMES}


def as_text(value: object) -> str | None:
    """A value as property files spell it; None where nothing is set."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(value) if isinstance(value, tuple | list) else str(value)


assert {_field(key.name) for key in TOPIC_CONFIG} == {f.name for f in fields(TopicConfig)}
assert {_field(key.name) for key in _OWN_BROKER_KEYS} | {"topic"} == {
    f.name for f in fields(BrokerConfig)
}
