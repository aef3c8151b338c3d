"""What configurations and log directories look like to administrators: plain values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pylog import errors
from pylog.model import TopicPartition

DEFAULT_NAMES: Final = ("", "default", "<default>")
NOT_OFFERED_KINDS: Final = {
    **dict.fromkeys(("user", "client-id", "client", "ip"), "quotas are not offered yet"),
    **dict.fromkeys(("group", "client-metrics"), "groups and pushed metrics are not offered yet"),
}
"""What else has a configuration in Kafka."""
OPERATIONS: Final = ("set", "delete", "append", "subtract")


class ConfigResource(NamedTuple):
    """What settings belong to: `type` is "topic" or "broker".

    `name` is the topic's name or the broker's id; of a broker, "" means the defaults of all brokers
    (Kafka's `<default>`). A plain pair does as well: `("topic", "flights")`, `("broker", 1)`.
    """

    type: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.type} {self.name or '<default>'}"


def config_resource(given: Any) -> ConfigResource:
    """The resource that was meant; InvalidRequest says what there is."""
    if not isinstance(given, tuple) or not 1 <= len(given) <= 2:
        raise errors.InvalidRequest(
            f'{given!r} is no resource; give ("topic", name), ("broker", id), or ("broker", "") '
            "for the defaults of all brokers"
        )
    kind = given[0].lower() if isinstance(given[0], str) else given[0]
    name = given[1] if len(given) == 2 else ""
    if kind in NOT_OFFERED_KINDS:
        raise errors.NotOffered(f"configuration of {kind} {name!r}: {NOT_OFFERED_KINDS[kind]}")
    if kind not in ("topic", "broker"):
        raise errors.InvalidRequest(f"{given[0]!r} has no configuration: give topic or broker")
    if isinstance(name, bool) or not isinstance(name, str | int | None):
        raise errors.InvalidRequest(f"{kind} {name!r}: a name is a text, a broker's also a number")
    text = "" if name is None else str(name)
    if kind == "broker" and text in DEFAULT_NAMES:
        text = ""
    if kind == "topic" and not text:
        raise errors.InvalidRequest("a topic's configuration needs the topic's name")
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
