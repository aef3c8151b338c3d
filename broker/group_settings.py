"""Settings of single groups: Kafka's names, types and defaults, and the broker's bounds of them.

A group's own value stands over the broker's setting of the other name
(`consumer.session.timeout.ms` -> `group.consumer.session.timeout.ms`), and that over the default. A
group need not exist to have settings. `share.delivery.count.limit`,
`share.partition.max.record.locks` and `share.renew.acknowledge.enable` are those of KIP-1240, and
`errors.deadletterqueue.*` those of KIP-1191, which are later than Kafka 4.2. Pure.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Protocol, Self

from pylog.config import INT_MAX, ConfigKey, ConfigTable
from pylog.errors import InvalidConfig
from pylog.model import topic_name_fault
from pylog_broker.config import BrokerConfig
from pylog_broker.dead_letter_topics import DeadLetterRules, name_fault

GROUP_ID_CHARS_MAX: Final = 255
GROUPS_MAX: Final = 10_000
"""Groups with settings of their own: every broker keeps them all in memory."""

_BY_DURATION: Final = re.compile(
    r"by_duration:P(?=\d|T\d)(\d{1,9}D)?(T(?=\d)(\d{1,9}H)?(\d{1,9}M)?(\d{1,9}(\.\d{1,9})?S)?)?"
)

GROUP_CONFIG: Final = ConfigTable(
    [
        ConfigKey("consumer.heartbeat.interval.ms", int, 5_000,
                  "How often members of a group of the consumer protocol send a heartbeat.",
                  low=1, high=INT_MAX),
        ConfigKey("consumer.session.timeout.ms", int, 45_000,
                  "A member of a group of the consumer protocol that is silent for so long has "
                  "gone.", low=1, high=INT_MAX),
        ConfigKey("errors.deadletterqueue.copy.record.enable", bool, False,
                  "Whether keys and values of records go to the group's dead-letter topic, or only "
                  "headers that tell where each lies (KIP-1191)."),
        ConfigKey("errors.deadletterqueue.topic.name", str, "",
                  "The dead-letter topic of a share group: where records go that are rejected, or "
                  "were delivered as often as may be. Empty: nowhere (KIP-1191)."),
        ConfigKey("share.auto.offset.reset", str, "latest",
                  "Where a share group begins with a partition that it has not read: `earliest`, "
                  "`latest`, or `by_duration:` with an ISO 8601 duration (`by_duration:PT1H`)."),
        ConfigKey("share.delivery.count.limit", int, 5,
                  "How often a record is delivered to members of a share group at most (KIP-1240).",
                  low=2, high=10),
        ConfigKey("share.heartbeat.interval.ms", int, 5_000,
                  "How often members of a share group send a heartbeat.", low=1, high=INT_MAX),
        ConfigKey("share.isolation.level", str, "read_uncommitted",
                  "Whether a share group is given records of aborted transactions.",
                  choices=("read_committed", "read_uncommitted")),
        ConfigKey("share.partition.max.record.locks", int, 2_000,
                  "Records of one partition that a share group has locked at a time (KIP-1240).",
                  low=100, high=10_000),
        ConfigKey("share.record.lock.duration.ms", int, 30_000,
                  "How long a record is locked for the member of a share group that got it.",
                  low=1_000, high=INT_MAX),
        ConfigKey("share.renew.acknowledge.enable", bool, True,
                  "Whether members of a share group may renew their locks (KIP-1222, KIP-1240)."),
        ConfigKey("share.session.timeout.ms", int, 45_000,
                  "A member of a share group that is silent for so long has gone.",
                  low=1, high=INT_MAX),
        ConfigKey("streams.heartbeat.interval.ms", int, 5_000,
                  "How often members of a streams group send a heartbeat.", low=1, high=INT_MAX),
        ConfigKey("streams.initial.rebalance.delay.ms", int, 3_000,
                  "How long the first members of an empty streams group wait for others.",
                  low=0, high=INT_MAX),
        ConfigKey("streams.num.standby.replicas", int, 0,
                  "Standby tasks of each task with state.", low=0, high=INT_MAX),
        ConfigKey("streams.session.timeout.ms", int, 45_000,
                  "A member of a streams group that is silent for so long has gone.",
                  low=1, high=INT_MAX),
    ],
    what="group setting",
)  # fmt: skip

DEAD_LETTER_TOPIC: Final = "errors.deadletterqueue.topic.name"
_GROUPS_ALONE: Final = (
    "errors.deadletterqueue.copy.record.enable",
    DEAD_LETTER_TOPIC,
    "share.auto.offset.reset",
    "share.isolation.level",
    "share.renew.acknowledge.enable",
)

BROKER_NAMES: Final[Mapping[str, str]] = {
    key.name: f"group.{key.name}" for key in GROUP_CONFIG if key.name not in _GROUPS_ALONE
}
"""A group's setting -> the broker's setting that is its default; some have none."""

BOUNDS: Final[Mapping[str, tuple[str | None, str | None]]] = {
    **{
        f"{kind}.{what}": (f"group.{kind}.min.{what}", f"group.{kind}.max.{what}")
        for kind in ("consumer", "share", "streams")
        for what in ("heartbeat.interval.ms", "session.timeout.ms")
    },
    "share.record.lock.duration.ms": (
        "group.share.min.record.lock.duration.ms",
        "group.share.max.record.lock.duration.ms",
    ),
    "streams.num.standby.replicas": (None, "group.streams.max.standby.replicas"),
}
"""A group's setting -> the broker's settings between which its own value lies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """One group's settings, resolved. Field names are Kafka's with underscores."""

    consumer_heartbeat_interval_ms: int = 5_000
    consumer_session_timeout_ms: int = 45_000
    errors_deadletterqueue_copy_record_enable: bool = False
    errors_deadletterqueue_topic_name: str = ""
    share_auto_offset_reset: str = "latest"
    share_delivery_count_limit: int = 5
    share_heartbeat_interval_ms: int = 5_000
    share_isolation_level: str = "read_uncommitted"
    share_partition_max_record_locks: int = 2_000
    share_record_lock_duration_ms: int = 30_000
    share_renew_acknowledge_enable: bool = True
    share_session_timeout_ms: int = 45_000
    streams_heartbeat_interval_ms: int = 5_000
    streams_initial_rebalance_delay_ms: int = 3_000
    streams_num_standby_replicas: int = 0
    streams_session_timeout_ms: int = 45_000

    @classmethod
    def of_broker(cls, config: BrokerConfig) -> Self:
        """The settings of a group that has none of its own."""
        values = {
            _field(name): getattr(config, _field(broker_name))
            for name, broker_name in BROKER_NAMES.items()
        }
        return cls(**values)

    @classmethod
    def from_mapping(cls, own: Mapping[str, str], config: BrokerConfig) -> Self:
        """The group's own settings by Kafka's names, over the broker's.

        InvalidConfig names key, value and range, or the nearest name of an unknown key.
        """
        given = GROUP_CONFIG.parse_given(own)
        for name, value in given.items():
            _check(name, value, config)
        settings = replace(cls.of_broker(config), **_as_fields(given))
        for kind in ("consumer", "share", "streams"):
            settings._check_session(kind)
        return settings

    @classmethod
    def resolve(cls, own: Mapping[str, str], config: BrokerConfig) -> Self:
        """The group's settings out of the metadata, over the broker's.

        They were checked when they were written, so nothing here may fail: what this version does
        not take is left at the broker's value, and what lies beyond a bound that has moved since is
        at the bound.
        """
        values: dict[str, Any] = {}
        for name, text in own.items():
            with contextlib.suppress(InvalidConfig):
                value = GROUP_CONFIG[name].parse(text)
                values[name] = _bounded(name, value, config)
        return replace(cls.of_broker(config), **_as_fields(values))

    def _check_session(self, kind: str) -> None:
        interval, session = f"{kind}.heartbeat.interval.ms", f"{kind}.session.timeout.ms"
        interval_ms, session_ms = getattr(self, _field(interval)), getattr(self, _field(session))
        if interval_ms >= session_ms:
            raise InvalidConfig(
                f"{interval}={interval_ms} must be below {session}={session_ms}, or members are "
                "dropped between two heartbeats"
            )


class SettingsByGroup(Protocol):
    """The settings of each group, as they are now."""

    def of(self, group_id: str) -> GroupSettings:
        """Those of that group, which need not exist."""


@dataclass(frozen=True, slots=True)
class SameSettings:
    """The same ones for all groups."""

    settings: GroupSettings = GroupSettings()

    def of(self, group_id: str) -> GroupSettings:
        """These."""
        return self.settings


def _check(name: str, value: object, config: BrokerConfig) -> None:
    if name == "share.auto.offset.reset":
        if value not in ("earliest", "latest") and not _BY_DURATION.fullmatch(str(value)):
            raise InvalidConfig(
                f"{name}={value!r}: it must be earliest, latest, or by_duration: with an ISO 8601 "
                "duration, such as by_duration:PT1H"
            )
        return
    if name == DEAD_LETTER_TOPIC:
        _check_dead_letter_topic(str(value), config)
        return
    least, most = BOUNDS.get(name, (None, None))
    assert isinstance(value, int | str)
    if least is not None and value < (limit := getattr(config, _field(least))):
        raise InvalidConfig(f"{name}={value} is below the brokers' {least}={limit}")
    if most is not None and value > (limit := getattr(config, _field(most))):
        raise InvalidConfig(f"{name}={value} is above the brokers' {most}={limit}")


def _check_dead_letter_topic(topic: str, config: BrokerConfig) -> None:
    if not topic:
        return
    prefix = config.errors_deadletterqueue_topic_name_prefix
    fault = topic_name_fault(topic) or name_fault(topic, DeadLetterRules(prefix))
    if fault is not None:
        raise InvalidConfig(f"{DEAD_LETTER_TOPIC}={topic[:249]!r}: {fault}")


def _bounded(name: str, value: Any, config: BrokerConfig) -> Any:
    least, most = BOUNDS.get(name, (None, None))
    if least is not None:
        value = max(value, getattr(config, _field(least)))
    if most is not None:
        value = min(value, getattr(config, _field(most)))
    if name == "share.auto.offset.reset":
        _check(name, value, config)
    return value


def _field(name: str) -> str:
    return name.replace(".", "_")


def _as_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    return {_field(name): value for name, value in values.items()}


assert {_field(key.name) for key in GROUP_CONFIG} == {f.name for f in fields(GroupSettings)}
