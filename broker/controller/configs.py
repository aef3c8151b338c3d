"""Changing configurations of topics, brokers and the cluster.

All values of one resource are checked together with those already there, then written; a fault in
one leaves the resource as it was. Values are stored as the caller wrote them.
"""

from __future__ import annotations

from collections.abc import Mapping

from broker.config import BrokerConfig, TopicConfig
from broker.controller.election import MIN_ISR, UNCLEAN, Elections
from broker.controller.ledger import Ledger
from broker.controller.settings import ControllerSettings
from broker.metadata.admin import AlterConfigs, AlteredConfig, ConfigChange, ConfigsAltered
from broker.metadata.image import CLUSTER_CONFIG, MetadataImage
from broker.metadata.messages import Failure
from broker.metadata.records import ConfigRecord, ConfigResourceType
from pylog import errors
from pylog.model import BrokerId, TopicId


def effective_min_isr(
    image: MetadataImage, topic_values: Mapping[str, str], defaults: TopicConfig
) -> int:
    """`min.insync.replicas` of a topic with these values of its own."""
    value = topic_values.get(MIN_ISR, image.cluster_configs().get(MIN_ISR))
    return defaults.min_insync_replicas if value is None else int(value)


class Configs:
    """Writes configurations to the ledger, and what follows for partitions. Owns no state."""

    def __init__(self, ledger: Ledger, settings: ControllerSettings, elections: Elections) -> None:
        self._ledger = ledger
        self._settings = settings
        self._elections = elections

    def record_defaults(self) -> None:
        """Puts the controller's own `min.insync.replicas` into the metadata, once.

        Controller and leaders must judge by the same value, or the eligible replicas mean nothing.
        A value that is there already wins, as dynamic values do in Kafka.
        """
        default = self._settings.topic_defaults.min_insync_replicas
        if default == TopicConfig().min_insync_replicas:
            return
        if MIN_ISR not in self._ledger.decided.cluster_configs():
            change = ConfigChange(*CLUSTER_CONFIG, {MIN_ISR: str(default)})
            self._write(change)

    def alter(self, request: AlterConfigs) -> ConfigsAltered:
        """Writes the changes that are valid."""
        altered = []
        for change in request.changes:
            failure = self._refusal(change)
            if failure is None and not request.validate_only:
                self._write(change)
            altered.append(AlteredConfig(change.resource_type, change.resource_name, failure))
        return ConfigsAltered(tuple(altered))

    # ---- checks --------------------------------------------------------------------------------

    def _refusal(self, change: ConfigChange) -> Failure | None:
        image = self._ledger.decided
        name = change.resource_name
        merged = dict(image.configs.get((change.resource_type, name), {}))
        for key, value in change.values.items():
            if value is None:
                merged.pop(key, None)
            else:
                merged[key] = value
        try:
            match change.resource_type:
                case ConfigResourceType.TOPIC:
                    return self._topic_refusal(image, change, merged)
                case ConfigResourceType.BROKER:
                    return _broker_refusal(image, change, merged)
                case ConfigResourceType.CLUSTER:
                    if name:
                        return Failure(
                            errors.InvalidRequest.code, f"the cluster has no name, not {name!r}"
                        )
                    BrokerConfig.from_mapping(merged)
        except errors.InvalidConfig as error:
            what = change.resource_type.name.lower()
            return Failure(errors.InvalidConfig.code, f"{what} {name}: {error}".replace(" :", ":"))
        return None

    def _topic_refusal(
        self, image: MetadataImage, change: ConfigChange, merged: Mapping[str, str]
    ) -> Failure | None:
        topic = image.topics_by_name.get(change.resource_name)
        if topic is None:
            return Failure(
                errors.UnknownTopicOrPartition.code, f"there is no topic {change.resource_name}"
            )
        TopicConfig.from_mapping(merged, self._settings.topic_defaults)
        least = min(len(partition.replicas) for partition in topic.partitions.values())
        if change.values.get(MIN_ISR) is not None and int(merged[MIN_ISR]) > least:
            raise errors.InvalidConfig(
                f"{MIN_ISR}={merged[MIN_ISR]} is above the replication factor {least}"
            )
        return None

    # ---- writing -------------------------------------------------------------------------------

    def _write(self, change: ConfigChange) -> None:
        image = self._ledger.decided
        affected = self._affected(image, change)
        before = {topic_id: self._elections.min_isr(topic_id) for topic_id in affected}
        for key in sorted(change.values):
            self._ledger.write(
                ConfigRecord(change.resource_type, change.resource_name, key, change.values[key])
            )
        if MIN_ISR in change.values:
            for topic_id in affected:
                if self._elections.min_isr(topic_id) != before[topic_id]:
                    self._elections.on_min_isr_changed(topic_id)
        if UNCLEAN in change.values:
            self._elections.elect_offline()

    def _affected(self, image: MetadataImage, change: ConfigChange) -> list[TopicId]:
        if change.resource_type is ConfigResourceType.CLUSTER:
            return list(image.topics_by_id)
        if change.resource_type is ConfigResourceType.TOPIC:
            return [image.topics_by_name[change.resource_name].topic_id]
        return []


def _broker_refusal(
    image: MetadataImage, change: ConfigChange, merged: Mapping[str, str]
) -> Failure | None:
    name = change.resource_name
    if not name.isdecimal() or BrokerId(int(name)) not in image.brokers:
        return Failure(errors.InvalidRequest.code, f"no broker {name!r} is registered")
    for key in (MIN_ISR, UNCLEAN):
        if key in change.values:
            # KIP-966: one broker with its own idea of it would break the eligible replicas.
            raise errors.InvalidConfig(f"{key} can be set for a topic or for the cluster only")
    BrokerConfig.from_mapping(merged)
    return None
