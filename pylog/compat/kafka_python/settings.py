"""kafka-python's settings: which are pylog's under the same name, which do nothing here, and which
ask for what pylog does not have.
"""

from __future__ import annotations

import logging
import math
import selectors
from collections.abc import Mapping
from typing import Any, Final

from pylog.client.settings import ADMIN_SETTINGS, CONSUMER_SETTINGS, PRODUCER_SETTINGS
from pylog.compat.kafka_python.coordinator.assignors.range import RangePartitionAssignor
from pylog.compat.kafka_python.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from pylog.compat.kafka_python.errors import KafkaConfigurationError
from pylog.compat.kafka_python.partitioner import DefaultPartitioner
from pylog.compat.kafka_python.version import __version__
from pylog.config import INT_MAX, ConfigTable

logger = logging.getLogger(__name__)

KAFKA_PORT: Final = 9092

_COMMON: Final = frozenset(
    {
        "bootstrap_servers",
        "client_id",
        "connections_max_idle_ms",
        "metadata_max_age_ms",
        "reconnect_backoff_max_ms",
        "reconnect_backoff_ms",
        "request_timeout_ms",
        "retry_backoff_ms",
    }
)
_WITHOUT_EFFECT: Final = frozenset(
    {
        "api_version",
        "api_version_auto_timeout_ms",
        "client_dns_lookup",
        "kafka_client",
        "max_in_flight_requests_per_connection",
        "metric_group_prefix",
        "metric_reporters",
        "metrics_enabled",
        "metrics_num_samples",
        "metrics_sample_window_ms",
        "receive_buffer_bytes",
        "receive_message_max_bytes",
        "selector",
        "send_buffer_bytes",
        "sock_chunk_buffer_count",
        "sock_chunk_bytes",
        "socket_options",
    }
)
"""They tune kafka-python's own sockets and metrics, and change no result."""

_SECURITY: Final = frozenset(
    {
        "proxy_url",
        "sasl_kerberos_domain_name",
        "sasl_kerberos_name",
        "sasl_kerberos_service_name",
        "sasl_mechanism",
        "sasl_oauth_token_provider",
        "sasl_plain_password",
        "sasl_plain_username",
        "socks5_proxy",
        "ssl_cafile",
        "ssl_certfile",
        "ssl_check_hostname",
        "ssl_ciphers",
        "ssl_context",
        "ssl_crlfile",
        "ssl_keyfile",
        "ssl_password",
    }
)
"""kafka-python looks at them with another `security_protocol` than PLAINTEXT only, but for proxies.
"""

PRODUCER: Final = _COMMON | {
    "acks",
    "batch_size",
    "buffer_memory",
    "compression_type",
    "delivery_timeout_ms",
    "enable_idempotence",
    "linger_ms",
    "max_block_ms",
    "max_in_flight_requests_per_connection",
    "max_request_size",
    "retries",
    "transaction_timeout_ms",
    "transactional_id",
}
PRODUCER_OWN: Final = frozenset(
    {
        "allow_auto_create_topics",
        "bootstrap_timeout_ms",
        "key_serializer",
        "partitioner",
        "security_protocol",
        "value_serializer",
    }
)
CONSUMER: Final = _COMMON | {
    "auto_commit_interval_ms",
    "auto_offset_reset",
    "check_crcs",
    "client_rack",
    "enable_auto_commit",
    "exclude_internal_topics",
    "fetch_max_bytes",
    "fetch_max_wait_ms",
    "fetch_min_bytes",
    "group_id",
    "group_instance_id",
    "heartbeat_interval_ms",
    "isolation_level",
    "max_partition_fetch_bytes",
    "max_poll_interval_ms",
    "max_poll_records",
    "partition_assignment_strategy",
    "session_timeout_ms",
}
CONSUMER_OWN: Final = frozenset(
    {
        "allow_auto_create_topics",
        "bootstrap_timeout_ms",
        "consumer_timeout_ms",
        "default_offset_commit_callback",
        "enable_incremental_fetch_sessions",
        "key_deserializer",
        "legacy_iterator",
        "security_protocol",
        "value_deserializer",
    }
)
ADMIN: Final = _COMMON
ADMIN_OWN: Final = frozenset({"bootstrap_timeout_ms", "security_protocol"})

_GROUP_ONLY: Final = ("enable_auto_commit", "auto_commit_interval_ms", "group_instance_id")
_CLASSIC: Final = ("heartbeat_interval_ms", "session_timeout_ms", "partition_assignment_strategy")

_DEFAULTS: Final[Mapping[str, Any]] = {
    "bootstrap_servers": "localhost",
    "client_id": f"kafka-python-{__version__}",
    "bootstrap_timeout_ms": 30_000,
    "reconnect_backoff_max_ms": 30_000,
}
"""The defaults that differ from Kafka's."""


def _defaults(table: ConfigTable, passed: frozenset[str], **own: Any) -> Mapping[str, Any]:
    """A client's settings and their defaults, as its `DEFAULT_CONFIG`."""
    ours = table.parse({"bootstrap_servers": _DEFAULTS["bootstrap_servers"]})
    return {
        **{name: ours[name.replace("_", ".")] for name in passed},
        **dict.fromkeys(_WITHOUT_EFFECT - passed),
        **dict.fromkeys(_SECURITY),
        "client_dns_lookup": "use_all_dns_ips",
        "max_in_flight_requests_per_connection": 5,
        "metric_reporters": [],
        "metrics_enabled": True,
        "metrics_num_samples": 2,
        "metrics_sample_window_ms": 30_000,
        "receive_message_max_bytes": 100_000_000,
        "sasl_kerberos_service_name": "kafka",
        "security_protocol": "PLAINTEXT",
        "selector": selectors.DefaultSelector,
        "socket_options": [],
        "ssl_check_hostname": True,
        **_DEFAULTS,
        **own,
    }


PRODUCER_DEFAULTS: Final = _defaults(
    PRODUCER_SETTINGS,
    PRODUCER,
    acks=-1,
    allow_auto_create_topics=True,
    client_id=None,
    compression_type=None,
    enable_idempotence=True,
    key_serializer=None,
    linger_ms=0,
    partitioner=DefaultPartitioner(),
    retries=math.inf,
    value_serializer=None,
)
CONSUMER_DEFAULTS: Final = _defaults(
    CONSUMER_SETTINGS,
    CONSUMER,
    allow_auto_create_topics=True,
    consumer_timeout_ms=math.inf,
    default_offset_commit_callback=None,
    enable_auto_commit=True,
    enable_incremental_fetch_sessions=True,
    key_deserializer=None,
    legacy_iterator=False,
    metric_group_prefix="consumer",
    partition_assignment_strategy=(RangePartitionAssignor, RoundRobinPartitionAssignor),
    value_deserializer=None,
)
ADMIN_DEFAULTS: Final = _defaults(ADMIN_SETTINGS, ADMIN)


def unknown(given: Mapping[str, Any], known: frozenset[str]) -> set[str]:
    """The names that kafka-python does not have."""
    return set(given) - known - _WITHOUT_EFFECT - _SECURITY


def common(given: Mapping[str, Any], passed: frozenset[str]) -> dict[str, Any]:
    """Settings for pylog's client: those of `passed` that are given, and kafka-python's defaults.
    KafkaConfigurationError for what asks for security.
    """
    _check_security(given)
    idle = sorted(name for name in given if name in _WITHOUT_EFFECT - passed)
    if idle:
        logger.info("settings of kafka-python that do nothing here: %s", ", ".join(idle))
    values = {name: value for name, value in _DEFAULTS.items() if name in passed}
    values.update((name, value) for name, value in given.items() if name in passed)
    values["bootstrap_servers"] = with_ports(values["bootstrap_servers"])
    return {name: value for name, value in values.items() if value is not None}


def bootstrap_timeout_s(given: Mapping[str, Any]) -> float:
    """The seconds for which a constructor looks for a broker."""
    wait_ms = given.get("bootstrap_timeout_ms") or _DEFAULTS["bootstrap_timeout_ms"]
    return float(wait_ms) / 1000


def with_ports(servers: Any) -> Any:
    """Addresses with Kafka's port where they name none."""
    listed = servers.split(",") if isinstance(servers, str) else list(servers)
    return [_with_port(str(server).strip()) for server in listed if str(server).strip()]


def _with_port(server: str) -> str:
    host = server.rpartition("://")[2]
    bare = ":" not in host or (host.startswith("[") and host.endswith("]"))
    return f"{host}:{KAFKA_PORT}" if bare else host


def _check_security(given: Mapping[str, Any]) -> None:
    protocol = given.get("security_protocol", "PLAINTEXT")
    if protocol != "PLAINTEXT":
        raise KafkaConfigurationError(
            f"security_protocol={protocol!r}: pylog has no TLS and no authentication yet; leave it "
            f"out, with the settings ssl_* and sasl_*, or write PLAINTEXT"
        )
    for name in ("proxy_url", "socks5_proxy"):
        if given.get(name) is not None:
            raise KafkaConfigurationError(
                f"{name}={given[name]!r}: pylog's clients go by no proxy; give "
                f"bootstrap_servers an address that is reached directly"
            )


def producer_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of pylog's producer."""
    values = {"linger_ms": 0, **common(given, PRODUCER)}
    if values.get("retries") == math.inf:
        values["retries"] = INT_MAX
    if values.get("transactional_id") is None:
        values.pop("transaction_timeout_ms", None)
    return values


def consumer_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of pylog's consumer, which speaks the classic protocol as kafka-python does."""
    values = common(given, CONSUMER)
    if "isolation_level" in values:
        values["isolation_level"] = isolation_of(values["isolation_level"])
    former = {"smallest": "earliest", "largest": "latest"}
    reset = values.get("auto_offset_reset")
    values["auto_offset_reset"] = former.get(str(reset), reset or "latest")
    if values.get("group_id") is None:
        for name in (*_GROUP_ONLY, *_CLASSIC):
            values.pop(name, None)
        return values
    assignors = values.get("partition_assignment_strategy")
    values["partition_assignment_strategy"] = _assignors(assignors)
    values["group_protocol"] = "classic"
    return values


def isolation_of(given: Any) -> Any:
    """pylog's word for a member of IsolationLevel, its name or its number."""
    if given in (0, 1):
        return ("read_uncommitted", "read_committed")[given]
    return str(given).lower()


def _assignors(given: Any) -> list[str]:
    if given is None:
        return ["range", "roundrobin"]
    names = []
    for assignor in given if isinstance(given, list | tuple) else [given]:
        name = assignor if isinstance(assignor, str) else getattr(assignor, "name", None)
        if name not in ("range", "roundrobin", "sticky", "cooperative-sticky"):
            raise KafkaConfigurationError(
                f"partition_assignment_strategy: {assignor!r} is none of pylog's assignors; give "
                f"those of pylog.compat.kafka_python.coordinator.assignors, or write an own one "
                f"for pylog.Consumer"
            )
        names.append(name)
    return names
