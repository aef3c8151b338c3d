"""Configurations, log directories and groups, as administrators see them: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pylog import errors
from pylog.model import BrokerDescription, OffsetAndMetadata, TopicPartition
from pylog.plain_text import is_text

DEFAULT_NAMES: Final = ("", "default", "<default>")
NOT_OFFERED_KINDS: Final = {
    **dict.fromkeys(("user", "client-id", "client", "ip"), "quotas are not offered yet"),
    "client-metrics": "pushed metrics are not offered yet",
}
"""Other things that have a configuration in Kafka."""
GROUP_STATES: Final = (
    "PreparingRebalance",
    "CompletingRebalance",
    "Stable",
    "Dead",
    "Empty",
    "Assigning",
    "Reconciling",
    "NotReady",
)
"""Kafka's names: of the classic protocol, of the consumer protocol, of streams."""
GROUP_TYPES: Final = ("classic", "consumer", "share", "streams")
OPERATIONS: Final = ("set", "delete", "append", "subtract")


class ConfigResource(NamedTuple):
    """A thing that has settings: `type` is "topic", "broker" or "group".

    `name` is the name of the topic or group, or the broker's id; of a broker, "" means the defaults
    of all brokers (Kafka's `<default>`). A plain pair does as well: `("topic", "flights")`,
    `("broker", 1)`.
    """

    type: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.type} {self.name or '<default>'}"


def config_resource(given: Any) -> ConfigResource:
    """The resource that was meant; InvalidRequest says what there is."""
    if not isinstance(given, tuple) or not 1 <= len(given) <= 2:
        raise errors.InvalidRequest(
            f'{given!r} is no resource; give ("topic", name), ("group", name), ("broker", id), or '
            '("broker", "") for the defaults of all brokers'
        )
    kind = given[0].lower() if isinstance(given[0], str) else given[0]
    name = given[1] if len(given) == 2 else ""
    if kind in NOT_OFFERED_KINDS:
        raise errors.NotOffered(f"configuration of {kind} {name!r}: {NOT_OFFERED_KINDS[kind]}")
    if kind not in ("topic", "broker", "group"):
        raise errors.InvalidRequest(
            f"{given[0]!r} has no configuration: give topic, broker or group"
        )
    if isinstance(name, bool) or not isinstance(name, str | int | None):
        raise errors.InvalidRequest(f"{kind} {name!r}: a name is a text, a broker's also a number")
    text = "" if name is None else str(name)
    if not is_text(text):
        raise errors.InvalidRequest(f"{kind} {name!r}: a name is a text in UTF-8")
    if kind == "broker" and text in DEFAULT_NAMES:
        text = ""
    if kind in ("topic", "group") and not text:
        raise errors.InvalidRequest(f"a {kind}'s configuration needs the {kind}'s name")
    return ConfigResource(kind, text)


class AlterConfigOp(NamedTuple):
    """One change of a setting: "set", "delete" (back to the default), and for lists "append" and
    "subtract" (items separated by commas).
    """

    name: str
    value: str | None = None
    op: str = "set"


class ConfigSynonym(NamedTuple):
    """A value that one source gives, under the name that the setting has there."""

    name: str
    value: str | None
    source: str


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """A setting as it holds.

    `source` is Apache Kafka's word: DYNAMIC_TOPIC_CONFIG, DYNAMIC_BROKER_CONFIG,
    DYNAMIC_DEFAULT_BROKER_CONFIG, STATIC_BROKER_CONFIG or DEFAULT_CONFIG. `value` is None where
    nothing is set, and for secrets (`sensitive`). `read_only`: only a restart changes it.
    `synonyms`: all sources, the one that holds first.
    """

    name: str
    value: str | None
    source: str
    read_only: bool = False
    sensitive: bool = False
    type: str = ""
    documentation: str = ""
    synonyms: tuple[ConfigSynonym, ...] = ()

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it."""
        return self.source == "DEFAULT_CONFIG"


@dataclass(frozen=True, slots=True)
class LogDirReplica:
    """A replica on disk: bytes of its segments, its offsets, how far it is behind as a follower."""

    size: int
    offset_lag: int
    log_start_offset: int
    log_end_offset: int
    error: errors.PylogError | None = None


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A log directory of a broker; bytes are the file system's, -1 where it did not say (`error`).

    `directory_id`: of its `meta.properties`; empty when nobody knows it.
    """

    path: str
    total_bytes: int
    usable_bytes: int
    replicas: Mapping[TopicPartition, LogDirReplica] = field(default_factory=dict)
    error: errors.PylogError | None = None
    directory_id: str = ""

    def _repr_html_(self) -> str:
        """For notebooks."""
        from pylog.html_tables import html_table

        columns = ("replica", "bytes", "first", "end", "behind")
        rows = (
            (tp, r.size, r.log_start_offset, r.log_end_offset, r.offset_lag)
            for tp, r in sorted(self.replicas.items())
        )
        title = f"{self.path}: {self.usable_bytes} of {self.total_bytes} bytes are free"
        return html_table(title, columns, rows, len(self.replicas))


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group, in one line.

    `type` is the protocol of its members: classic, consumer, share or streams. `protocol_type` is
    what a classic group is for: "consumer" of consumers, and empty of a group that nobody ever
    joined and that only has offsets. `state`: one of GROUP_STATES.
    """

    group_id: str
    type: str
    state: str
    protocol_type: str


class StreamsTask(NamedTuple):
    """A task of a streams application: a partition of a part of its topology."""

    subtopology_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology_id}_{self.partition}"


class StreamsTasks(NamedTuple):
    """Tasks of a member by role: it works on the active ones, and keeps copies of the state of the
    others.
    """

    active: tuple[StreamsTask, ...] = ()
    standby: tuple[StreamsTask, ...] = ()
    warmup: tuple[StreamsTask, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a group, as its coordinator knows it.

    `type` is the protocol that it speaks: classic, consumer, share or streams. `instance_id`: of a
    static member (KIP-345). `assignment`: what it is to read; None where the member is no consumer,
    or cannot be understood. Only of the consumer protocol: `target`, what it will read when all
    members have given up what they should; of that and of share groups `epoch`, and what the member
    subscribes to. Of a streams group: `tasks`, `target_tasks`, `epoch` and `process_id`, and no
    `assignment`.
    """

    member_id: str
    type: str
    client_id: str
    client_host: str
    instance_id: str | None = None
    rack: str | None = None
    assignment: tuple[TopicPartition, ...] | None = ()
    target: tuple[TopicPartition, ...] | None = None
    epoch: int | None = None
    topics: tuple[str, ...] | None = None
    topic_pattern: str | None = None
    tasks: StreamsTasks | None = None
    target_tasks: StreamsTasks | None = None
    process_id: str | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group and its members.

    `assignor` shares the partitions out: of a classic group the strategy that its members chose
    (empty while they choose), else an assignor of the coordinator. `coordinator`: the broker that
    answered. The epochs are those of the coordinator (KIP-848), None of a classic group:
    `group_epoch` grows when members or topics change, `assignment_epoch` says for which of them the
    targets were computed.
    """

    group_id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    coordinator: BrokerDescription
    members: tuple[GroupMember, ...] = ()
    group_epoch: int | None = None
    assignment_epoch: int | None = None

    def _repr_html_(self) -> str:
        """For notebooks."""
        from pylog.html_tables import html_table

        rows = (
            (
                m.member_id,
                m.client_id,
                m.client_host,
                m.epoch,
                ", ".join(map(str, m.assignment or ())),
            )
            for m in self.members
        )
        title = f"{self.type} group {self.group_id}: {self.state}"
        columns = ("member", "client", "host", "epoch", "partitions")
        return html_table(title, columns, rows, len(self.members))


@dataclass(frozen=True, slots=True)
class SharePartitionOffset:
    """The position of a share group in a partition: all records before `start_offset` are done
    with. `lag`: records that are still to be delivered or acknowledged (KIP-1226); None where no
    broker knows it.
    """

    start_offset: int
    leader_epoch: int | None = None
    lag: int | None = None


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The lag of a group in a partition.

    `committed`: its position, None where nothing is committed. `end_offset`: where the next record
    will be (the high watermark); None where that could not be had, because of `error`. `lag` is in
    records, as offsets count them: one that was compacted away, or that ends a transaction, counts
    too. None where one of the two is not known. `lag_seconds`: the age of the oldest record that
    the group has not passed, 0.0 where there is none; None where that is not known, as where
    records have no timestamps.
    """

    committed: OffsetAndMetadata | None
    end_offset: int | None
    error: errors.PylogError | None = None
    lag_seconds: float | None = None
    share_lag: int | None = None
    """The records of a share group that are still to be delivered or acknowledged, as the
    partition's leader counts them; `committed` is its start offset then.
    """

    @property
    def lag(self) -> int | None:
        """Records from the position to the end; 0 for a position beyond the end."""
        if self.share_lag is not None:
            return self.share_lag
        if self.committed is None or self.end_offset is None:
            return None
        return max(self.end_offset - self.committed.offset, 0)
