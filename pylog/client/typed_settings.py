"""The types of the clients' settings, for editors and type checkers. Generated from the
tables in `settings` by tools/typed_settings.py; do not edit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol, TypedDict, TypeVar

V = TypeVar("V")


class HasSerialize(Protocol):
    """An object that serializes."""

    @property
    def serialize(self) -> Callable[..., Any]:
        """(topic, data) or (data) -> bytes, str or None."""


class HasDeserialize(Protocol):
    """An object that deserializes."""

    @property
    def deserialize(self) -> Callable[..., Any]:
        """(topic, data) or (data) -> object."""


class HasPartition(Protocol):
    """An object that places records."""

    @property
    def partition(self) -> Callable[..., int]:
        """(topic, key, value, partitions) -> partition."""


Serialize = Callable[[Any], Any] | Callable[[Any, Any], Any] | HasSerialize | str
"""Code of (data) or (topic, data), or its import path."""
Deserialize = Callable[[Any], V] | Callable[[Any, Any], V]
"""Code of (data) or (topic, data)."""


class ProducerSettings(TypedDict, total=False):
    """Settings of a Producer."""

    client_id: str
    client_routing: Literal["direct", "gateway"]
    client_transport: Literal["auto", "grpc"]
    request_timeout_ms: int
    default_api_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metadata_max_age_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    connections_max_idle_ms: int
    bootstrap_timeout_ms: int
    acks: Literal["all", "-1", "0", "1", -1, 0, 1]
    enable_idempotence: bool | None
    batch_size: int
    batch_max_size: int | None
    linger_ms: int
    buffer_memory: int
    max_block_ms: int
    max_request_size: int
    max_in_flight_requests_per_connection: int
    delivery_timeout_ms: int
    transactional_id: str | None
    transaction_timeout_ms: int
    transaction_two_phase_commit_enable: bool
    retries: int
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    partitioner: str | Callable[..., int] | HasPartition | None
    partitioner_class: str | Callable[..., int] | HasPartition | None
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    partitioner_ignore_keys: bool
    interceptor_classes: object
    serializer: Serialize | None
    key_serializer: Serialize | None
    value_serializer: Serialize | None


class ConsumerSettings(TypedDict, total=False):
    """Settings of a Consumer."""

    client_id: str
    client_routing: Literal["direct", "gateway"]
    client_transport: Literal["auto", "grpc"]
    request_timeout_ms: int
    default_api_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metadata_max_age_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    connections_max_idle_ms: int
    bootstrap_timeout_ms: int
    group_instance_id: str | None
    group_protocol: Literal["consumer", "classic", "CONSUMER", "CLASSIC"] | None
    group_remote_assignor: str | None
    partition_assignment_strategy: str | Sequence[Any]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    enable_auto_commit: bool | None
    auto_commit_interval_ms: int
    internal_leave_group_on_close: bool
    auto_offset_reset: str
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    max_poll_records: int
    isolation_level: Literal["read_uncommitted", "read_committed"]
    check_crcs: bool
    client_rack: str
    exclude_internal_topics: bool
    interceptor_classes: object


class ShareConsumerSettings(TypedDict, total=False):
    """Settings of a ShareConsumer."""

    client_id: str
    client_routing: Literal["direct", "gateway"]
    client_transport: Literal["auto", "grpc"]
    request_timeout_ms: int
    default_api_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metadata_max_age_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    connections_max_idle_ms: int
    bootstrap_timeout_ms: int
    share_acknowledgement_mode: Literal["implicit", "explicit"]
    share_acquire_mode: Literal["batch_optimized", "record_limit"]
    max_poll_records: int
    max_poll_interval_ms: int
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    check_crcs: bool
    client_rack: str


class AdminSettings(TypedDict, total=False):
    """Settings of an AdminClient."""

    client_id: str
    client_routing: Literal["direct", "gateway"]
    client_transport: Literal["auto", "grpc"]
    request_timeout_ms: int
    default_api_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metadata_max_age_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    connections_max_idle_ms: int
    bootstrap_timeout_ms: int
