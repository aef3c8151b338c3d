"""Changing configurations of topics, groups, brokers and the cluster.

All values of one resource are checked together with those already there, then written; a fault in
one leaves the resource as it was. Values are stored as the caller wrote them.
`broker/metadata/config_view.py` tells which of several values of one setting holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from pylog import errors
from pylog.model import BrokerId, TopicId
from pylog_broker.config import (
    BROKER_CONFIG,
    CLUSTER_WIDE_NAMES,
    DYNAMIC_BROKER_NAMES,
    TOPIC_CONFIG,
    BrokerConfig,
    TopicConfig,
    as_text,
)
from pylog_broker.controller.effects import Report
from pylog_broker.controller.election import UNCLEAN, Elections
from pylog_broker.controller.ledger import Ledger
from pylog_broker.controller.settings import MIN_ISR, ControllerSettings
from pylog_broker.group_settings import GROUP_CONFIG, GROUPS_MAX, GroupSettings
from pylog_broker.metadata.admin import (
    AlterConfigs,
    AlteredConfig,
    ConfigChange,
    ConfigsAltered,
    ConfigsQuestion,
    DescribedConfig,
)
from pylog_broker.metadata.config_view import broker_of, describe, group_fault
from pylog_broker.metadata.features import (
    GROUP_SETTINGS_LEVEL,
    METADATA_VERSION,
    level_of,
)
from pylog_broker.metadata.image import CLUSTER_CONFIG, MetadataImage
from pylog_broker.metadata.messages import Failure
from pylog_broker.metadata.records import ConfigRecord, ConfigResourceType

_Values = Mapping[str, str | None]

_TABLES: Final = {
    ConfigResourceType.TOPIC: TOPIC_CONFIG,
    ConfigResourceType.GROUP: GROUP_CONFIG,
}
"""The tables of settings by the type of the resource. All other types have the broker's."""


class _Refused(Exception):
    """A change of a resource is refused, for another reason than InvalidConfig."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Configs:
    """Writes configurations to the ledger, and what follows for partitions. Owns no state."""

    def __init__(self, ledger: Ledger, settings: ControllerSettings, elections: Elections) -> None:
        self._ledger = ledger
        self._settings = settings
        self._elections = elections

    def record_defaults(self) -> list[Report]:
        """Puts the controller's own `min.insync.replicas` into the metadata, once.

        Controller and leaders must judge by the same value, or the eligible replicas mean nothing.
        A value that is there already wins, as dynamic values do in Kafka; where it differs from
        what the controller was started with, a line says so.
        """
        default = self._settings.topic_defaults.min_insync_replicas
        cluster = self._ledger.decided.cluster_configs()
        recorded = cluster.get(MIN_ISR)
        if recorded is None:
            self._write(CLUSTER_CONFIG, {MIN_ISR: self._settings.min_isr_to_record})
        holds = self._settings.min_isr({}, cluster)
        if recorded is None or holds == default or not self._settings.says(MIN_ISR):
            return []
        return [
            Report(
                f"started with {MIN_ISR}={default}, but the cluster's metadata say {recorded}, "
                f"which holds: change it with `pylog configs alter broker default --set "
                f"{MIN_ISR}={default}`",
                warning=True,
            )
        ]

    def not_counted(
        self, broker_id: BrokerId, static_config: Iterable[tuple[str, str]]
    ) -> list[Report]:
        """A line for each cluster-wide setting that a broker was started with and that holds
        neither here nor in the controller's own start.
        """
        cluster, reports = self._ledger.decided.cluster_configs(), []
        started_with = dict(static_config)
        for name in sorted(CLUSTER_WIDE_NAMES & started_with.keys()):
            own = TopicConfig.resolve({name: started_with[name]}, TopicConfig()).to_mapping()[name]
            holds = self._settings.with_setting(name, {}, cluster).to_mapping()[name]
            if own not in (holds, self._settings.topic_defaults.to_mapping()[name]):
                reports.append(
                    Report(
                        f"broker {broker_id} was started with {name}={own}, but "
                        f"{holds} holds in the cluster: a broker's own value does not count; give "
                        "it to the driver, or change it with `pylog configs alter broker default "
                        f"--set {name}={own}`",
                        warning=True,
                    )
                )
        return reports

    def alter(self, request: AlterConfigs) -> ConfigsAltered:
        """Writes the changes that are valid."""
        named = Counter((c.resource_type, c.resource_name) for c in request.changes)
        altered = []
        for change in request.changes:
            resource = (change.resource_type, change.resource_name)
            failure: Failure | None = None
            try:
                if named[resource] > 1:
                    why = f"{_shown(change)}: the request names it twice"
                    raise _Refused(Failure(errors.InvalidRequest.code, why))
                values = self._checked(change)
                if not request.validate_only:
                    self._write(resource, values)
            except _Refused as refused:
                failure = refused.failure
            except errors.InvalidConfig as error:
                failure = Failure(errors.InvalidConfig.code, f"{_shown(change)}: {error}")
            altered.append(AlteredConfig(*resource, failure))
        return ConfigsAltered(tuple(altered))

    def describe(self, question: ConfigsQuestion) -> DescribedConfig:
        """The settings that hold for one resource, and why; as committed."""
        return describe(self._ledger.committed, self._settings.static_config, question)

    # ---- checks --------------------------------------------------------------------------------

    def _checked(self, change: ConfigChange) -> _Values:
        """The new values of the resource."""
        image = self._ledger.decided
        match change.resource_type:
            case ConfigResourceType.TOPIC:
                return self._topic_values(image, change)
            case ConfigResourceType.BROKER:
                return self._broker_values(image, change)
            case ConfigResourceType.CLUSTER:
                return self._cluster_values(image, change)
            case ConfigResourceType.GROUP:
                return self._group_values(image, change)

    def _topic_values(self, image: MetadataImage, change: ConfigChange) -> _Values:
        topic = image.topics_by_name.get(change.resource_name)
        if topic is None:
            why = f"{_shown(change)}: it does not exist"
            raise _Refused(Failure(errors.UnknownTopicOrPartition.code, why))
        values = self._resolved(image, change)
        merged = _merged(image, change, values)
        config = TopicConfig.from_mapping(merged, self._defaults(image))
        least = min(len(partition.target_replicas) for partition in topic.partitions.values())
        if values.get(MIN_ISR) is not None and config.min_insync_replicas > least:
            raise errors.InvalidConfig(
                f"{MIN_ISR}={merged[MIN_ISR]} is above the replication factor {least}"
            )
        return values

    def _broker_values(self, image: MetadataImage, change: ConfigChange) -> _Values:
        broker = broker_of(image, change.resource_name)
        if isinstance(broker, Failure):
            raise _Refused(broker)
        values = self._resolved(image, change)
        for key in sorted(CLUSTER_WIDE_NAMES & set(values)):
            # KIP-966: one broker with its own idea of it would break the eligible replicas.
            raise errors.InvalidConfig(f"{key} can be set for a topic or for the cluster only")
        _check_dynamic(values)
        static = dict(image.brokers[broker].static_config)
        merged = _merged(image, change, values)
        BrokerConfig.from_mapping({**static, **image.cluster_configs(), **merged})
        return values

    def _cluster_values(self, image: MetadataImage, change: ConfigChange) -> _Values:
        if change.resource_name:
            why = f"the cluster's defaults have no name, not {change.resource_name[:40]!r}"
            raise _Refused(Failure(errors.InvalidRequest.code, why))
        values = self._resolved(image, change)
        _check_dynamic(values)
        merged = _merged(image, change, values)
        BrokerConfig.from_mapping(merged)
        for broker, registration in sorted(image.brokers.items()):
            static = dict(registration.static_config)
            try:
                BrokerConfig.from_mapping({**static, **merged, **image.broker_configs(broker)})
            except errors.InvalidConfig as error:
                raise errors.InvalidConfig(f"with what broker {broker} has: {error}") from None
        if MIN_ISR in values and values[MIN_ISR] is None:
            # The start's value holds again, and leaders know only what is in the metadata. Kafka
            # refuses the removal instead, because each of its brokers has a value of its own.
            return {**values, MIN_ISR: self._settings.min_isr_to_record}
        return values

    def _group_values(self, image: MetadataImage, change: ConfigChange) -> _Values:
        if fault := group_fault(change.resource_name):
            raise _Refused(fault)
        level = level_of(image.features, METADATA_VERSION)
        if level < GROUP_SETTINGS_LEVEL:
            why = (
                f"{_shown(change)}: settings of groups need {METADATA_VERSION} "
                f"{GROUP_SETTINGS_LEVEL}, and this cluster is at {level}: when all brokers run a "
                "version that has it, raise it with `pylog features upgrade`"
            )
            raise _Refused(Failure(errors.UnsupportedVersion.code, why))
        values = self._resolved(image, change)
        merged = _merged(image, change, values)
        GroupSettings.from_mapping(merged, self._settings.broker.under(image.cluster_configs()))
        is_new = bool(merged) and not image.group_configs(change.resource_name)
        there = sum(kind is ConfigResourceType.GROUP for kind, _ in image.configs) if is_new else 0
        if there >= GROUPS_MAX:
            raise errors.InvalidConfig(
                f"{GROUPS_MAX} groups have settings of their own, and there cannot be more: put "
                "those of groups that are gone back to the default"
            )
        return values

    def _defaults(self, image: MetadataImage) -> TopicConfig:
        static = BrokerConfig(topic=self._settings.topic_defaults)
        return static.under(image.cluster_configs()).topic

    # ---- what the changes come to ---------------------------------------------------------------

    def _resolved(self, image: MetadataImage, change: ConfigChange) -> _Values:
        """The new value of each named setting, lists put together."""
        table = _TABLES.get(change.resource_type, BROKER_CONFIG)
        named = Counter([*change.values, *change.appended, *change.subtracted])
        for name in (name for name, times in named.items() if times > 1):
            raise errors.InvalidConfig(f"{name[:120]} is changed twice in one request")
        values: dict[str, str | None] = {}
        for name, value in change.values.items():
            key = table[name]
            if value is not None:
                key.parse(value)
            values[key.name] = value
        for name in (*change.appended, *change.subtracted):
            key = table[name]
            if key.type is not list:
                raise errors.InvalidConfig(f"{name} is no list: set it instead")
            items = key.parse(self._present(image, change, name))
            for item in key.parse(change.appended.get(name, "")):
                if item not in items:
                    items.append(item)
            gone = set(key.parse(change.subtracted.get(name, "")))
            values[name] = ",".join(item for item in items if item not in gone)
        return values

    def _present(self, image: MetadataImage, change: ConfigChange, name: str) -> str:
        question = ConfigsQuestion(change.resource_type, change.resource_name, (name,))
        found = describe(image, self._settings.static_config, question).entries
        if found:
            return found[0].value or ""
        # The cluster describes only what is set.
        default = as_text(BROKER_CONFIG[name].default) or ""
        return self._settings.static_config.get(name, default)

    # ---- writing -------------------------------------------------------------------------------

    def _write(self, resource: tuple[ConfigResourceType, str], values: _Values) -> None:
        image = self._ledger.decided
        affected = _affected(image, resource)
        before = {topic_id: self._elections.min_isr(topic_id) for topic_id in affected}
        there = image.configs.get(resource, {})
        for key in sorted(values):
            if values[key] != there.get(key):
                self._ledger.write(ConfigRecord(*resource, key, values[key]))
        if MIN_ISR in values:
            for topic_id in affected:
                if self._elections.min_isr(topic_id) != before[topic_id]:
                    self._elections.on_min_isr_changed(topic_id)
        if UNCLEAN in values:
            self._elections.elect_offline()


def _affected(image: MetadataImage, resource: tuple[ConfigResourceType, str]) -> list[TopicId]:
    match resource:
        case (ConfigResourceType.CLUSTER, _):
            return list(image.topics_by_id)
        case (ConfigResourceType.TOPIC, name):
            return [image.topics_by_name[name].topic_id]
    return []


def _merged(image: MetadataImage, change: ConfigChange, values: _Values) -> dict[str, str]:
    merged: dict[str, str] = dict(
        image.configs.get((change.resource_type, change.resource_name), {})
    )
    for name, value in values.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = value
    return merged


def _check_dynamic(values: _Values) -> None:
    for name in sorted(values):
        if name not in DYNAMIC_BROKER_NAMES:
            raise errors.InvalidConfig(
                f"{name} is read when a broker starts and cannot be changed on a running cluster: "
                f"restart with spark.pylog.broker.{name}=... (`pylog local --config {name}=...`)"
            )


def _shown(change: ConfigChange) -> str:
    match change.resource_type:
        case ConfigResourceType.TOPIC:
            return f"topic {change.resource_name[:249]}"
        case ConfigResourceType.BROKER:
            return f"broker {change.resource_name[:40]}"
        case ConfigResourceType.CLUSTER:
            return "the cluster's defaults"
        case ConfigResourceType.GROUP:
            return f"group {change.resource_name[:255]!r}"
