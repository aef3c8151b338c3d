"""librdkafka's settings: which are pylog's under the same or another name, which do nothing here,
and which ask for what pylog does not have.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pylog.compat.confluent_kafka.error import KafkaError, local

logger = logging.getLogger(__name__)

KAFKA_PORT: Final = 9092
PRODUCER, CONSUMER, ADMIN = "producer", "consumer", "admin"

_ALIASES: Final[Mapping[str, str]] = {
    "metadata.broker.list": "bootstrap.servers",
    "request.required.acks": "acks",
    "queue.buffering.max.ms": "linger.ms",
    "message.send.max.retries": "retries",
    "compression.codec": "compression.type",
    "message.timeout.ms": "delivery.timeout.ms",
    "max.in.flight": "max.in.flight.requests.per.connection",
    "fetch.wait.max.ms": "fetch.max.wait.ms",
    "fetch.message.max.bytes": "max.partition.fetch.bytes",
    "topic.metadata.refresh.interval.ms": "metadata.max.age.ms",
    "message.max.bytes": "max.request.size",
    "auto.commit.enable": "enable.auto.commit",
}
_COMMON: Final = frozenset(
    {
        "bootstrap.servers",
        "client.id",
        "connections.max.idle.ms",
        "metadata.max.age.ms",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "socket.connection.setup.timeout.ms",
    }
)
_OF_PRODUCER: Final = frozenset(
    {
        "acks",
        "batch.size",
        "compression.type",
        "delivery.timeout.ms",
        "enable.idempotence",
        "linger.ms",
        "max.in.flight.requests.per.connection",
        "max.request.size",
        "retries",
        "transaction.timeout.ms",
        "transactional.id",
    }
)
_OF_CONSUMER: Final = frozenset(
    {
        "auto.commit.interval.ms",
        "auto.offset.reset",
        "check.crcs",
        "client.rack",
        "enable.auto.commit",
        "fetch.max.bytes",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "isolation.level",
        "max.partition.fetch.bytes",
        "max.poll.interval.ms",
        "max.poll.records",
        "partition.assignment.strategy",
        "session.timeout.ms",
        "share.acknowledgement.mode",
    }
)
_OWN: Final = frozenset(
    {
        "allow.auto.create.topics",
        "default.topic.config",
        "delivery.report.only.error",
        "enable.auto.offset.store",
        "enable.partition.eof",
        "error_cb",
        "logger",
        "on_commit",
        "on_delivery",
        "partitioner",
        "queue.buffering.max.kbytes",
        "queue.buffering.max.messages",
        "request.timeout.ms",
        "security.protocol",
        "socket.timeout.ms",
        "statistics.interval.ms",
        "stats_cb",
        "throttle_cb",
    }
)
_WITHOUT_EFFECT: Final = frozenset(
    {
        "api.version.fallback.ms",
        "api.version.request",
        "api.version.request.timeout.ms",
        "batch.num.messages",
        "broker.address.family",
        "broker.address.ttl",
        "broker.version.fallback",
        "client.dns.lookup",
        "client.software.name",
        "client.software.version",
        "compression.level",
        "consume.callback.max.messages",
        "coordinator.query.interval.ms",
        "debug",
        "enable.gapless.guarantee",
        "enable.metrics.push",
        "enable.random.seed",
        "enable.sparse.connections",
        "enabled_events",
        "fetch.error.backoff.ms",
        "fetch.queue.backoff.ms",
        "group.protocol.type",
        "internal.termination.signal",
        "log.connection.close",
        "log.queue",
        "log.thread.name",
        "log_level",
        "message.copy.max.bytes",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metadata.request.timeout.ms",
        "offset.store.method",
        "offset.store.sync.interval.ms",
        "produce.offset.report",
        "queue.buffering.backpressure.threshold",
        "queued.max.messages.kbytes",
        "queued.min.messages",
        "queuing.strategy",
        "receive.message.max.bytes",
        "reconnect.backoff.jitter.ms",
        "socket.blocking.max.ms",
        "socket.keepalive.enable",
        "socket.max.fails",
        "socket.nagle.disable",
        "socket.receive.buffer.bytes",
        "socket.send.buffer.bytes",
        "sticky.partitioning.linger.ms",
        "topic.metadata.propagation.max.ms",
        "topic.metadata.refresh.fast.cnt",
        "topic.metadata.refresh.fast.interval.ms",
        "topic.metadata.refresh.sparse",
    }
)
"""They tune librdkafka's own sockets, queues and logs, and change no result."""

_SECURITY: Final = ("sasl.", "ssl.", "ssl_", "https.", "oauth", "enable.ssl", "enable.sasl")
_REFUSED: Final[Mapping[str, str]] = {
    "builtin.features": "it tells what librdkafka was built with; leave it out",
    "offset.store.path": "offsets are stored by the group's coordinator only; leave it out",
    "plugin.library.paths": "plugins of librdkafka are machine code for it; leave it out",
    "test.mock.broker.rtt": "use pylog.LocalCluster for tests",
    "test.mock.num.brokers": "use pylog.LocalCluster for tests",
    "topic.blacklist": "subscribe to a pattern that leaves these topics out",
}
_FLAGS: Final = frozenset({"check.crcs", "enable.auto.commit", "enable.idempotence"})
_TEXTS: Final = frozenset(
    {
        "client.id",
        "client.rack",
        "group.id",
        "group.instance.id",
        "group.remote.assignor",
        "transactional.id",
    }
)
_TRUE_OR_FALSE: Final = {"true": True, "t": True, "1": True, "false": False, "f": False, "0": False}
_METADATA_SELDOM_MS: Final = 2**31 - 1
"""librdkafka's `topic.metadata.refresh.interval.ms=-1`: only when something fails."""
_RESETS: Final = {
    "smallest": "earliest",
    "earliest": "earliest",
    "beginning": "earliest",
    "largest": "latest",
    "latest": "latest",
    "end": "latest",
    "error": "none",
}
_GROUP_CLASSIC: Final = (
    "heartbeat.interval.ms",
    "partition.assignment.strategy",
    "session.timeout.ms",
)


@dataclass(slots=True)
class Settings:
    """`passed` is for pylog's client; `own` is what the adapter itself goes by."""

    passed: dict[str, Any] = field(default_factory=dict)
    own: dict[str, Any] = field(default_factory=dict)

    def callback(self, name: str) -> Callable[..., Any] | None:
        """A callable setting; TypeError for one that is none."""
        given = self.own.get(name)
        if given is not None and not callable(given):
            raise TypeError(f"{name}={given!r}: expected a callable")
        return given

    def number(self, name: str, default: int) -> int:
        """A whole number of the adapter's own."""
        given = self.own.get(name, default)
        try:
            return int(given)
        except (TypeError, ValueError):
            raise _invalid(name, given) from None

    def flag(self, name: str, default: bool) -> bool:
        """A switch of the adapter's own."""
        return _flag(name, self.own.get(name, default))


def _invalid(name: str, given: Any) -> Exception:
    return local(
        KafkaError._INVALID_ARG,
        f'Invalid value "{given}" for configuration property "{name}"',
    )


def _flag(name: str, given: Any) -> bool:
    """A switch; KafkaException for what librdkafka takes for none."""
    found = _TRUE_OR_FALSE.get(str(given).lower())
    if found is None:
        raise _invalid(name, given)
    return found


def _plain(name: str, given: Any) -> Any:
    """A value for pylog's client: librdkafka reads a text for each, and parts of milliseconds."""
    if name in _FLAGS:
        return _flag(name, given)
    if name in _TEXTS:
        return str(given)
    if name == "linger.ms" and isinstance(given, str) and "." in given:
        with suppress(ValueError):
            return int(float(given))
    return int(given) if isinstance(given, float) else given


def merged(config: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
    """One dictionary of a positional one and keywords, which win and may have underscores."""
    if len(config) > 1 or (config and not isinstance(config[0], dict)):
        raise TypeError("expected configuration dict")
    given: dict[str, Any] = {str(name): value for name, value in dict(*config).items()}
    for name, value in named.items():
        given[name if name in _OWN | _WITHOUT_EFFECT else name.replace("_", ".")] = value
    topic_settings = given.pop("default.topic.config", None)
    if topic_settings:
        given = {**topic_settings, **given}
    return given


def parse(given: Mapping[str, Any], kind: str) -> Settings:
    """The settings of a client; KafkaException for one that is unknown, or that asks for what pylog
    does not have.
    """
    settings = Settings()
    idle = []
    for name, value in given.items():
        meant = _ALIASES.get(name, name)
        if value is None or (meant in _TEXTS and value == ""):
            continue
        if meant in _OWN:
            settings.own[meant] = value
        elif meant in _COMMON | _OF_PRODUCER | _OF_CONSUMER:
            if meant in _taken(kind):
                settings.passed[meant] = _plain(meant, value)
            else:
                idle.append(name)
        elif meant in _WITHOUT_EFFECT:
            idle.append(name)
        else:
            _check_known(name)
            _note_security(settings, name)
    if idle:
        logger.info("settings of librdkafka that do nothing here: %s", ", ".join(idle))
    _check_security(settings)
    if "bootstrap.servers" in settings.passed:
        settings.passed["bootstrap.servers"] = with_ports(settings.passed["bootstrap.servers"])
    _be_never_or_at_once(settings.passed)
    return settings


def _be_never_or_at_once(passed: dict[str, Any]) -> None:
    """Values for which pylog has the next one that it takes."""
    if str(passed.get("metadata.max.age.ms")) in ("-1", "0"):
        passed["metadata.max.age.ms"] = _METADATA_SELDOM_MS
    for name in ("reconnect.backoff.ms", "reconnect.backoff.max.ms"):
        if str(passed.get(name)) == "0":
            passed[name] = 1


def _taken(kind: str) -> frozenset[str]:
    return _COMMON | {PRODUCER: _OF_PRODUCER, CONSUMER: _OF_CONSUMER}.get(kind, frozenset())


def _check_known(name: str) -> None:
    if name in _REFUSED:
        raise local(KafkaError._INVALID_ARG, f"{name} is not taken: {_REFUSED[name]}")
    if not name.startswith(_SECURITY):
        raise local(KafkaError._INVALID_ARG, f'No such configuration property: "{name}"')


def _note_security(settings: Settings, name: str) -> None:
    settings.own.setdefault("security.given", []).append(name)


def _check_security(settings: Settings) -> None:
    protocol = str(settings.own.get("security.protocol", "plaintext")).lower()
    if protocol != "plaintext":
        raise local(
            KafkaError._UNSUPPORTED_FEATURE,
            f"security.protocol={protocol}: pylog has no TLS and no authentication yet; leave it "
            f"out, with the settings ssl.* and sasl.*, or write plaintext",
        )


def with_ports(servers: Any) -> list[str]:
    """Addresses with Kafka's port where they name none."""
    listed = servers.split(",") if isinstance(servers, str) else list(servers)
    found = []
    for server in (str(each).strip() for each in listed):
        host = server.rpartition("://")[2]
        if host:
            bare = ":" not in host or (host.startswith("[") and host.endswith("]"))
            found.append(f"{host}:{KAFKA_PORT}" if bare else host)
    return found


def producer_settings(settings: Settings) -> dict[str, Any]:
    """For pylog's producer, by keyword."""
    values = {"delivery.timeout.ms": 300_000, **settings.passed}
    if int(values["delivery.timeout.ms"]) == 0:  # librdkafka: no limit
        values["delivery.timeout.ms"] = 2**31 - 1
    if values.get("transactional.id") is None:
        values.pop("transaction.timeout.ms", None)
    if values.get("compression.type") == "inherit":
        values.pop("compression.type")
    values["acks"] = str(values.get("acks", "all"))
    return _keywords(values)


def consumer_settings(settings: Settings) -> dict[str, Any]:
    """For pylog's consumer, by keyword: the classic protocol unless another one is asked for."""
    values: dict[str, Any] = {"isolation.level": "read_committed", **settings.passed}
    for name in ("max.poll.records", "share.acknowledgement.mode"):
        values.pop(name, None)
    reset = str(values.get("auto.offset.reset", "largest")).lower()
    if reset not in _RESETS:
        raise _invalid("auto.offset.reset", reset)
    values["auto.offset.reset"] = _RESETS[reset]
    values["group.protocol"] = str(values.get("group.protocol", "classic")).lower()
    if values["group.protocol"] == "classic":
        values.pop("group.remote.assignor", None)
        values.setdefault("partition.assignment.strategy", "range,roundrobin")
        if isinstance(values["partition.assignment.strategy"], str):
            named = values["partition.assignment.strategy"].split(",")
            values["partition.assignment.strategy"] = [name.strip() for name in named]
    else:
        for name in _GROUP_CLASSIC:
            values.pop(name, None)
    return _keywords(values)


def admin_settings(settings: Settings) -> dict[str, Any]:
    """For pylog's admin client, by keyword."""
    return _keywords({name: v for name, v in settings.passed.items() if name in _COMMON})


def _keywords(values: Mapping[str, Any]) -> dict[str, Any]:
    if "bootstrap.servers" not in values:
        # librdkafka goes on without any, and never connects.
        values = {**values, "bootstrap.servers": [f"localhost:{KAFKA_PORT}"]}
    values = {"client.id": "rdkafka", **values}
    return {name.replace(".", "_"): value for name, value in values.items()}
