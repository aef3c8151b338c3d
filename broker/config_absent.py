"""Settings of Apache Kafka that pylog does not have, and what to do instead.

A user who brings a properties file along shall not be told "unknown setting" about a name that he
knows well. Setting one is refused all the same: nothing is silently ignored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

_LOOP: Final = "a broker is one event loop; more cores are used by more brokers"
_BUFFERS: Final = "the operating system sizes the buffers of sockets"
_GROUPS: Final = "consumer groups are not offered yet"
_TRANSACTIONS: Final = "transactions are not offered yet"
_SECURITY: Final = "TLS, authentication and quotas are not offered yet"
_TIERS: Final = "tiered storage is not offered"
_FORMAT: Final = "there is one message format, v2"
_QUORUM: Final = "there is one controller, on the driver"
_MOVES: Final = "replicas are not moved yet, so there is nothing to throttle"
_PURGATORY: Final = "a finished request leaves no trace behind that would have to be purged"

BROKER_ABSENT: Final[Mapping[str, str]] = {
    "auto.create.topics.enable": "topics are made by `pylog topics create` only",
    "background.threads": _LOOP,
    "broker.id": "the controller grants ids, and a broker's directory remembers its own",
    "controller.listener.names": _QUORUM,
    "controlled.shutdown.enable": "a stop in order always moves the leaders first",
    "delete.topic.enable": "topics can always be deleted",
    "fetch.purgatory.purge.interval.requests": _PURGATORY,
    "inter.broker.listener.name": "brokers talk over spark.pylog.replication.listen",
    "listeners": "set spark.pylog.broker.listen (`python -m pylog_broker.node --listen`)",
    "advertised.listeners": "set spark.pylog.advertised.host",
    "log.dir": "set spark.pylog.data.dir (`pylog local --data-dir`), or log.dirs",
    "log.flush.offset.checkpoint.interval.ms":
        "recovery points are written together with the high watermarks: set "
        "replica.high.watermark.checkpoint.interval.ms",
    "log.message.downconversion.enable": _FORMAT,
    "log.message.format.version": _FORMAT,
    "log.retention.hours": "set log.retention.ms",
    "log.retention.minutes": "set log.retention.ms",
    "log.roll.hours": "set log.roll.ms",
    "log.roll.jitter.hours": "set log.roll.jitter.ms",
    "node.id": "the controller grants ids, and a broker's directory remembers its own",
    "num.io.threads": _LOOP,
    "num.network.threads": _LOOP,
    "num.recovery.threads.per.data.dir": _LOOP,
    "num.replica.fetchers": _LOOP,
    "process.roles": _QUORUM,
    "producer.purgatory.purge.interval.requests": _PURGATORY,
    "queued.max.requests": "set queued.max.request.bytes: requests in work are bounded by bytes",
    "replica.socket.receive.buffer.bytes": _BUFFERS,
    "socket.receive.buffer.bytes": _BUFFERS,
    "socket.send.buffer.bytes": _BUFFERS,
    "zookeeper.connect": _QUORUM,
}  # fmt: skip

TOPIC_ABSENT: Final[Mapping[str, str]] = {
    "follower.replication.throttled.replicas": _MOVES,
    "leader.replication.throttled.replicas": _MOVES,
    "local.retention.bytes": _TIERS,
    "local.retention.ms": _TIERS,
    "producer_byte_rate": _SECURITY,
    "consumer_byte_rate": _SECURITY,
    "request_percentage": _SECURITY,
    "controller_mutation_rate": _SECURITY,
    "connection_creation_rate": _SECURITY,
    "replica.alter.log.dirs.io.max.bytes.per.second": _MOVES,
    "message.downconversion.enable": _FORMAT,
    "message.format.version": _FORMAT,
    "remote.storage.enable": _TIERS,
}

_FAMILIES: Final[Mapping[str, str]] = {
    "controller.quorum.": _QUORUM,
    "follower.replication.throttled.": _MOVES,
    "group.": _GROUPS,
    "leader.replication.throttled.": _MOVES,
    "listener.name.": _SECURITY,
    "offsets.": _GROUPS,
    "quota.": _SECURITY,
    "remote.log.": _TIERS,
    "sasl.": _SECURITY,
    "share.": _GROUPS,
    "ssl.": _SECURITY,
    "transaction.": _TRANSACTIONS,
    "transactional.": _TRANSACTIONS,
}


class Absent(Mapping[str, str]):
    """Why a name is not there; names of a family (`ssl.*`) share their reason."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def __getitem__(self, name: str) -> str:
        if name in self._names:
            return self._names[name]
        for prefix, reason in _FAMILIES.items():
            if name.startswith(prefix):
                return reason
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)
