"""Apache Kafka's settings that do nothing here: the one table for clients, the
Spark format and the command line.

Each name that Kafka 4.2 has has one of three verdicts. It works: then it stands in a `ConfigTable`.
It is taken without effect, with a line in the log: then it would change nothing that a user could
count on, so a properties file that is brought along may say it. Or it is refused, with the reason:
ignoring it would change results, durability or security. No such name is ever "unknown".

Move a row to a `ConfigTable` when its setting comes to be. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple


class Verdict(Enum):
    """The treatment of a setting of Kafka's that does not work."""

    WITHOUT_EFFECT = "taken without effect"
    REFUSED = "refused"


class Ruling(NamedTuple):
    """A verdict and its reason, which says what to do instead where there is something."""

    verdict: Verdict
    reason: str


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """The settings of one kind of object that do not work, by their dotted names.

    `families`: names that begin so are refused, unless they stand in one of the others.
    """

    without_effect: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    families: Mapping[str, str] = field(default_factory=dict)

    def ruling(self, name: str) -> Ruling | None:
        """The ruling on it; None for a name that says nothing here."""
        if name in self.without_effect:
            return Ruling(Verdict.WITHOUT_EFFECT, self.without_effect[name])
        if name in self.refused:
            return Ruling(Verdict.REFUSED, self.refused[name])
        for prefix, reason in self.families.items():
            if name.startswith(prefix):
                return Ruling(Verdict.REFUSED, reason)
        return None

    def rows(self) -> list[tuple[str, Ruling]]:
        """Everything by name, families as `prefix*`."""
        found = [
            (name, Ruling(Verdict.WITHOUT_EFFECT, why)) for name, why in self.without_effect.items()
        ]
        found += [(name, Ruling(Verdict.REFUSED, why)) for name, why in self.refused.items()]
        found += [(f"{name}*", Ruling(Verdict.REFUSED, why)) for name, why in self.families.items()]
        return sorted(found)


_GROUPS: Final = "consumer groups are not offered yet"
_TRANSACTIONS: Final = "transactions are not offered yet; leave it out"
_SECURITY: Final = "TLS and authentication are not offered yet; leave it out"
_QUOTAS: Final = "quotas are not offered yet; leave it out"
_SHARE_CONSUMER: Final = "it is for ShareConsumer; leave it out"
_NO_SHARE: Final = "share groups have no such thing; leave it out"
_TIERS: Final = "tiered storage is not offered; leave it out"
_QUORUM: Final = "there is one controller, on the driver"
_PROVIDERS: Final = "values are taken as they are written; put in what the provider would give"
_MOVES: Final = "replicas are not moved between the log directories of a broker"

_LOOP: Final = "a broker is one event loop; more cores are used by more brokers"
_BUFFERS: Final = "the operating system sizes the buffers of sockets"
_PURGATORY: Final = "a finished request leaves no trace behind that would have to be purged"
_METRICS: Final = "metrics() tells the metrics, which nothing else reports or samples"
_BROKER_METRICS: Final = "metrics.listen serves all metrics to Prometheus, which samples them"
_BOOTSTRAP: Final = "bootstrap.servers are asked again whenever no known broker answers"
_CONNECT: Final = (
    "an address that does not answer is given up after 2 to 3 s, the next one tried after 0.3 s"
)
_ONE_APPEND: Final = "what a coordinator decides in one turn of its broker is one append"
_AT_COORDINATOR: Final = "a batch waits at the coordinator until its producer's last one has ended"
_STABLE: Final = "every broker keeps offsets of open transactions apart"
_FORMAT: Final = "there is one message format, v2"
_FORWARDED: Final = "brokers do not forward requests to the controller"
_SNAPSHOTS: Final = (
    "a broker decides on its own when it writes a snapshot of the metadata, and what goes then"
)

# ---- clients ------------------------------------------------------------------------------------

_CLIENTS_WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "client.dns.lookup": "each address of a name is tried in turn",
    "enable.metrics.push": _METRICS,
    "metadata.recovery.rebootstrap.trigger.ms": _BOOTSTRAP,
    "metadata.recovery.strategy": _BOOTSTRAP,
    "metric.reporters": _METRICS,
    "metrics.num.samples": _METRICS,
    "metrics.recording.level": _METRICS,
    "metrics.sample.window.ms": _METRICS,
    "receive.buffer.bytes": _BUFFERS,
    "send.buffer.bytes": _BUFFERS,
}
_CLIENTS_REFUSED: Final[Mapping[str, str]] = {
    "config.providers": _PROVIDERS,
    "security.protocol": _SECURITY,
    "security.providers": _SECURITY,
}
_CLIENT_FAMILIES: Final[Mapping[str, str]] = {
    "config.providers.": _PROVIDERS,
    "sasl.": _SECURITY,
    "ssl.": _SECURITY,
}

PRODUCER: Final = KafkaSettings(
    {
        **_CLIENTS_WITHOUT_EFFECT,
        "metadata.max.idle.ms": "what is known of a topic is kept, and asked for anew in its time",
    },
    _CLIENTS_REFUSED,
    _CLIENT_FAMILIES,
)

CONSUMER: Final = KafkaSettings(
    {
        **_CLIENTS_WITHOUT_EFFECT,
        "allow.auto.create.topics": "topics are made by AdminClient.create_topics only",
        "internal.throw.on.fetch.stable.offset.unsupported": _STABLE,
    },
    {
        **_CLIENTS_REFUSED,
        "share.acknowledgement.mode": _SHARE_CONSUMER,
        "share.acquire.mode": _SHARE_CONSUMER,
    },
    _CLIENT_FAMILIES,
)

SHARE_CONSUMER: Final = KafkaSettings(
    {
        **_CLIENTS_WITHOUT_EFFECT,
        "allow.auto.create.topics": "topics are made by AdminClient.create_topics only",
        "exclude.internal.topics": "topics are named, not matched",
        "internal.leave.group.on.close": "a share consumer that is closed always leaves",
        "internal.throw.on.fetch.stable.offset.unsupported": _STABLE,
        "max.partition.fetch.bytes": "a share fetch is limited by records and fetch.max.bytes",
    },
    {
        **_CLIENTS_REFUSED,
        "auto.commit.interval.ms": _NO_SHARE,
        "auto.offset.reset": "it is the group's: set share.auto.offset.reset there",
        "enable.auto.commit": _NO_SHARE,
        "group.instance.id": _NO_SHARE,
        "group.protocol": _NO_SHARE,
        "group.remote.assignor": _NO_SHARE,
        "heartbeat.interval.ms": "it is the group's: set share.heartbeat.interval.ms there",
        "interceptor.classes": _NO_SHARE,
        "isolation.level": "it is the group's: set share.isolation.level there",
        "partition.assignment.strategy": _NO_SHARE,
        "session.timeout.ms": "it is the group's: set share.session.timeout.ms there",
    },
    _CLIENT_FAMILIES,
)

ADMIN: Final = KafkaSettings(
    {
        **_CLIENTS_WITHOUT_EFFECT,
        "retries": "a call is tried again until default.api.timeout.ms is over",
    },
    {
        **_CLIENTS_REFUSED,
        "bootstrap.controllers": "the gateway is where the controller is: set bootstrap.servers",
    },
    _CLIENT_FAMILIES,
)

# ---- brokers ------------------------------------------------------------------------------------

_BROKER_WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "add.partitions.to.txn.retry.backoff.max.ms": _AT_COORDINATOR,
    "add.partitions.to.txn.retry.backoff.ms": _AT_COORDINATOR,
    "auto.include.jmx.reporter": _BROKER_METRICS,
    "background.threads": _LOOP,
    "controlled.shutdown.enable": "a stop in order always moves the leaders first",
    "controller.performance.always.log.threshold.ms": _BROKER_METRICS,
    "controller.performance.sample.period.ms": _BROKER_METRICS,
    "controller.socket.timeout.ms":
        "broker.session.timeout.ms bounds what is asked of the controller",
    "delete.records.purgatory.purge.interval.requests": _PURGATORY,
    "fetch.purgatory.purge.interval.requests": _PURGATORY,
    "group.consumer.regex.refresh.interval.ms":
        "expressions are matched anew whenever topics come or go",
    "group.coordinator.append.linger.ms": _ONE_APPEND,
    "group.coordinator.threads": _LOOP,
    "group.share.enable": "share groups are always offered",
    "group.share.initialize.retry.interval.ms":
        "state that could not be made is asked for again with the next heartbeat",
    "initial.broker.registration.timeout.ms": "a broker tries to register until it is stopped",
    "kafka.metrics.polling.interval.secs": _BROKER_METRICS,
    "kafka.metrics.reporters": _BROKER_METRICS,
    "log.cleaner.io.buffer.load.factor":
        "log.cleaner.dedupe.buffer.size alone bounds the cleaner's memory",
    "log.cleaner.io.buffer.size":
        "log.cleaner.dedupe.buffer.size alone bounds the cleaner's memory",
    "log.flush.offset.checkpoint.interval.ms":
        "recovery points are written together with the high watermarks: set "
        "replica.high.watermark.checkpoint.interval.ms",
    "log.flush.scheduler.interval.ms":
        "each second it is looked what log.flush.interval.ms asks for",
    "log.flush.start.offset.checkpoint.interval.ms": "a log start that moves is written at once",
    "log.message.downconversion.enable": _FORMAT,
    "max.incremental.fetch.session.cache.slots":
        "only followers have fetch sessions, and each has one",
    "metadata.log.max.record.bytes.between.snapshots": _SNAPSHOTS,
    "metadata.log.max.snapshot.interval.ms": _SNAPSHOTS,
    "metadata.log.segment.bytes": _SNAPSHOTS,
    "metadata.log.segment.ms": _SNAPSHOTS,
    "metadata.max.idle.interval.ms": _SNAPSHOTS,
    "metadata.max.retention.bytes": _SNAPSHOTS,
    "metadata.max.retention.ms": _SNAPSHOTS,
    "metric.reporters": _BROKER_METRICS,
    "metrics.num.samples": _BROKER_METRICS,
    "metrics.recording.level": _BROKER_METRICS,
    "metrics.sample.window.ms": _BROKER_METRICS,
    "num.io.threads": _LOOP,
    "num.network.threads": _LOOP,
    "num.recovery.threads.per.data.dir": _LOOP,
    "num.replica.alter.log.dirs.threads": _MOVES,
    "num.replica.fetchers": _LOOP,
    "offsets.load.buffer.size": "a coordinator reads its log in slices of its own size",
    "offsets.topic.compression.codec": "what a coordinator writes is not compressed",
    "producer.id.expiration.check.interval.ms": "idle producers are looked for every ten minutes",
    "producer.purgatory.purge.interval.requests": _PURGATORY,
    "queued.max.requests": "queued.max.request.bytes bounds what is in work, by bytes",
    "replica.socket.receive.buffer.bytes": _BUFFERS,
    "replica.socket.timeout.ms":
        "a leader that does not answer a fetch is asked again over a new connection",
    "request.timeout.ms": _FORWARDED,
    "server.max.startup.time.ms": "a start ends when the logs are read, however long that takes",
    "share.coordinator.append.linger.ms": _ONE_APPEND,
    "share.coordinator.load.buffer.size": "a coordinator reads its log in slices of its own size",
    "share.coordinator.state.topic.compression.codec":
        "what a coordinator writes is not compressed",
    "share.coordinator.threads": _LOOP,
    "share.fetch.purgatory.purge.interval.requests": _PURGATORY,
    "socket.connection.setup.timeout.max.ms": _CONNECT,
    "socket.connection.setup.timeout.ms": _CONNECT,
    "socket.listen.backlog.size": "a broker takes each connection as it comes",
    "socket.receive.buffer.bytes": _BUFFERS,
    "socket.send.buffer.bytes": _BUFFERS,
    "telemetry.max.bytes": "clients push no metrics to brokers: metrics() of a client tells them",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms":
        "each open transaction has a timer of its own",
    "transaction.state.log.load.buffer.size":
        "a coordinator reads its log in slices of its own size",
}  # fmt: skip

_BROKER_REFUSED: Final[Mapping[str, str]] = {
    "advertised.listeners": "set spark.pylog.advertised.host",
    "alter.config.policy.class.name":
        "policies are Java classes; who may change settings is not decided yet",
    "authorizer.class.name": _SECURITY,
    "auto.create.topics.enable": "topics are made by `pylog topics create` only",
    "broker.id": "the controller grants ids, and a broker's directory remembers its own",
    "client.quota.callback.class": _QUOTAS,
    "config.providers": _PROVIDERS,
    "connection.failed.authentication.delay.ms": _SECURITY,
    "connection_creation_rate": _QUOTAS,
    "connections.max.reauth.ms": _SECURITY,
    "consumer_byte_rate": _QUOTAS,
    "controller.listener.names": _QUORUM,
    "controller_mutation_rate": _QUOTAS,
    "create.topic.policy.class.name":
        "policies are Java classes; who may make topics is not decided yet",
    "delete.topic.enable": "topics can always be deleted",
    "early.start.listeners": "a broker listens when its logs are open",
    "group.consumer.assignors":
        "a broker has uniform and range; members choose by group.remote.assignor",
    "group.coordinator.rebalance.protocols": "the classic and the consumer protocol are spoken",
    "group.share.assignors": "a broker has the one of Kafka, simple",
    "group.share.persister.class.name":
        "the state of share groups is kept in __share_group_state",
    "inter.broker.listener.name": "brokers talk over spark.pylog.replication.listen",
    "listener.security.protocol.map": _SECURITY,
    "listeners": "set spark.pylog.broker.listen (`python -m pylog_broker.node --listen`)",
    "log.dir": "set spark.pylog.data.dir (`pylog local --data-dir`), or log.dirs",
    "log.dir.failure.timeout.ms": "a broker whose last log directory fails ends at once",
    "log.message.format.version": _FORMAT,
    "log.retention.hours": "set log.retention.ms",
    "log.retention.minutes": "set log.retention.ms",
    "log.roll.hours": "set log.roll.ms",
    "log.roll.jitter.hours": "set log.roll.jitter.ms",
    "max.request.partition.size.limit": "a request may name up to 20,000 partitions",
    "metadata.log.dir": "the metadata lie in the driver's directory: set spark.pylog.data.dir",
    "node.id": "the controller grants ids, and a broker's directory remembers its own",
    "principal.builder.class": _SECURITY,
    "process.roles": _QUORUM,
    "producer_byte_rate": _QUOTAS,
    "replica.alter.log.dirs.io.max.bytes.per.second": _MOVES,
    "request_percentage": _QUOTAS,
    "security.inter.broker.protocol": _SECURITY,
    "security.providers": _SECURITY,
    "SCRAM-SHA-256": _SECURITY,
    "SCRAM-SHA-512": _SECURITY,
    "unclean.leader.election.interval.ms":
        "unclean elections happen when a leader is lost, or are asked for",
    "unstable.api.versions.enable": "no version that is not final is spoken",
    "unstable.feature.versions.enable": "no version that is not final is spoken",
    "zookeeper.connect": _QUORUM,
}  # fmt: skip

_BROKER_FAMILIES: Final[Mapping[str, str]] = {
    "alter.log.dirs.replication.": _MOVES,
    "config.providers.": _PROVIDERS,
    "controller.quorum.": _QUORUM,
    "controller.quota.": _QUOTAS,
    "delegation.token.": _SECURITY,
    "internal.": "it is for Kafka's own tests",
    "listener.name.": _SECURITY,
    "log.local.": _TIERS,
    "quota.": _QUOTAS,
    "remote.": _TIERS,
    "replication.quota.": "a throttle holds for each second",
    "sasl.": _SECURITY,
    "ssl.": _SECURITY,
    "zookeeper.": _QUORUM,
}

BROKER: Final = KafkaSettings(_BROKER_WITHOUT_EFFECT, _BROKER_REFUSED, _BROKER_FAMILIES)

TOPIC: Final = KafkaSettings(
    refused={
        "connection_creation_rate": _QUOTAS,
        "consumer_byte_rate": _QUOTAS,
        "controller_mutation_rate": _QUOTAS,
        "internal.segment.bytes": "set segment.bytes",
        "local.retention.bytes": _TIERS,
        "local.retention.ms": _TIERS,
        "message.downconversion.enable": _FORMAT,
        "message.format.version": _FORMAT,
        "producer_byte_rate": _QUOTAS,
        "replica.alter.log.dirs.io.max.bytes.per.second": _MOVES,
        "request_percentage": _QUOTAS,
    },
    families={"remote.": _TIERS},
)
