"""The configuration that holds, and why: the sources of each setting over one another.

The strongest first: the own value of a topic or a group, a broker's dynamic one, the cluster's
dynamic one, what the broker was started with, Kafka's default. Pure; nothing here changes or checks
a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pylog import errors
from pylog.config import INT_MAX, ConfigKey, ConfigTable
from pylog.model import BrokerId
from pylog_broker import group_settings
from pylog_broker.config import (
    BROKER_CONFIG,
    BROKER_NAMES,
    CLUSTER_WIDE_NAMES,
    DYNAMIC_BROKER_NAMES,
    TOPIC_CONFIG,
    as_text,
    without_cluster_wide,
)
from pylog_broker.group_settings import GROUP_CONFIG, GROUP_ID_CHARS_MAX
from pylog_broker.metadata.admin import (
    ConfigEntry,
    ConfigSource,
    ConfigsQuestion,
    ConfigValue,
    DescribedConfig,
)
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import Failure
from pylog_broker.metadata.records import ConfigResourceType

BROKER_DIGITS_MAX: Final = 10
"""As many as 2^31-1 has; Python refuses to make numbers of some thousand."""

_Layers = list[tuple[ConfigSource, Mapping[str, str]]]


def broker_of(image: MetadataImage, name: str) -> BrokerId | Failure:
    """The registered broker that a resource's name means."""
    if name.isascii() and name.isdecimal() and len(name) <= BROKER_DIGITS_MAX:
        broker = BrokerId(int(name))
        if broker in image.brokers:
            return broker
    there = ", ".join(map(str, sorted(image.brokers))) or "none"
    why = f"no broker {name[:40]!r} is registered; there are: {there}"
    return Failure(errors.InvalidRequest.code, why)


def describe(
    image: MetadataImage, static: Mapping[str, str], question: ConfigsQuestion
) -> DescribedConfig:
    """The settings of one topic, group, broker, or of the cluster (there: only those that are set).

    `static` is what counts of that with which the answering process was started; of a broker, its
    registration says, but for what is cluster-wide.
    """
    kind, name = question.resource_type, question.resource_name
    try:
        match kind:
            case ConfigResourceType.TOPIC:
                found = _topic(image, static, question)
            case ConfigResourceType.BROKER:
                found = _broker(image, static, question)
            case ConfigResourceType.CLUSTER:
                found = _cluster(image, static, question)
            case ConfigResourceType.GROUP:
                found = _group(image, static, question)
    except errors.InvalidConfig as error:
        found = Failure(errors.InvalidConfig.code, str(error))
    if isinstance(found, Failure):
        return DescribedConfig(kind, name, found)
    return DescribedConfig(kind, name, entries=tuple(found))


def _topic(
    image: MetadataImage, static: Mapping[str, str], question: ConfigsQuestion
) -> list[ConfigEntry] | Failure:
    name = question.resource_name
    if name not in image.topics_by_name:
        why = f"topic {name[:249]}: it does not exist"
        return Failure(errors.UnknownTopicOrPartition.code, why)
    own = image.topic_configs(name)
    layers = _cluster_layers(image, static)
    entries = []
    for key in _asked(TOPIC_CONFIG, question):
        values: list[tuple[str, str | None, ConfigSource]] = []
        if key.name in own:
            values.append((key.name, own[key.name], ConfigSource.DYNAMIC_TOPIC_CONFIG))
        broker_name = BROKER_NAMES.get(key.name, key.name)
        values += _under(broker_name, layers)
        entries.append(_entry(key, values, broker_name, read_only=False))
    return entries


def _broker(
    image: MetadataImage, static: Mapping[str, str], question: ConfigsQuestion
) -> list[ConfigEntry] | Failure:
    broker = broker_of(image, question.resource_name)
    if isinstance(broker, Failure):
        return broker
    own = without_cluster_wide(dict(image.brokers[broker].static_config))
    own |= {name: static[name] for name in static if name in CLUSTER_WIDE_NAMES}
    layers: _Layers = [
        (ConfigSource.DYNAMIC_BROKER_CONFIG, image.broker_configs(broker)),
        *_cluster_layers(image, own),
    ]
    return [
        _entry(
            key,
            _under(key.name, layers),
            key.name,
            read_only=key.name not in DYNAMIC_BROKER_NAMES,
        )
        for key in _asked(BROKER_CONFIG, question)
    ]


def _cluster(
    image: MetadataImage, static: Mapping[str, str], question: ConfigsQuestion
) -> list[ConfigEntry] | Failure:
    if question.resource_name:
        why = f"the cluster's defaults have no name, not {question.resource_name[:40]!r}"
        return Failure(errors.InvalidRequest.code, why)
    layers = _cluster_layers(image, static)
    return [
        _entry(key, _under(key.name, layers), key.name, read_only=False)
        for key in _asked(BROKER_CONFIG, question)
        if key.name in image.cluster_configs()
    ]


def group_fault(group_id: str) -> Failure | None:
    """The reason why no group can have settings by that name."""
    if not group_id:
        return Failure(errors.InvalidRequest.code, "a group's settings need the group's name")
    if len(group_id) > GROUP_ID_CHARS_MAX:
        why = f"group_id has {len(group_id)} characters; the limit is {GROUP_ID_CHARS_MAX}"
        return Failure(errors.InvalidGroupId.code, why)
    return None


def _group(
    image: MetadataImage, static: Mapping[str, str], question: ConfigsQuestion
) -> list[ConfigEntry] | Failure:
    name = question.resource_name
    if fault := group_fault(name):
        return fault
    own = image.group_configs(name)
    layers = _cluster_layers(image, static)
    entries = []
    for key in _asked(GROUP_CONFIG, question):
        broker_name = group_settings.BROKER_NAMES.get(key.name, key.name)
        values: list[tuple[str, str | None, ConfigSource]] = []
        if key.name in own:
            values.append((key.name, own[key.name], ConfigSource.DYNAMIC_GROUP_CONFIG))
        values += _under(broker_name, layers)
        entries.append(_entry(key, values, broker_name, read_only=False))
    return entries


def _cluster_layers(image: MetadataImage, static: Mapping[str, str]) -> _Layers:
    return [
        (ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG, image.cluster_configs()),
        (ConfigSource.STATIC_BROKER_CONFIG, static),
    ]


def _asked(table: ConfigTable, question: ConfigsQuestion) -> list[ConfigKey]:
    if question.names is None:
        return list(table)
    return [table[name] for name in sorted(set(question.names))]


def _under(name: str, layers: _Layers) -> list[tuple[str, str | None, ConfigSource]]:
    return [(name, values[name], source) for source, values in layers if name in values]


def _entry(
    key: ConfigKey,
    values: list[tuple[str, str | None, ConfigSource]],
    default_name: str,
    *,
    read_only: bool,
) -> ConfigEntry:
    values = [*values, (default_name, as_text(key.default), ConfigSource.DEFAULT_CONFIG)]
    if key.sensitive:
        values = [(name, None, source) for name, _, source in values]
    synonyms = tuple(ConfigValue(*value) for value in values)
    first = synonyms[0]
    return ConfigEntry(
        key.name, first.value, first.source, read_only, key.sensitive,
        type_name(key), key.doc, synonyms,
    )  # fmt: skip


def type_name(key: ConfigKey) -> str:
    """Apache Kafka's word for the type, in lower case."""
    if key.sensitive:
        return "password"
    if key.type is int:
        return "int" if key.high is not None and key.high <= INT_MAX else "long"
    return {bool: "boolean", float: "double", str: "string", list: "list"}.get(key.type, "class")
