"""Settings of topics, brokers and groups, by kafka-python's calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from pylog.client.admin.admin_types import AlterConfigOp as OurOp
from pylog.client.admin.admin_types import ConfigEntry
from pylog.client.admin.admin_types import ConfigResource as OurResource
from pylog.compat.kafka_python.admin.calls import Calls
from pylog.compat.kafka_python.admin.outcomes import outcomes
from pylog.compat.kafka_python.admin.resources import (
    AlterConfigOp,
    ConfigFilterType,
    ConfigResource,
    ConfigResourceType,
    member_of,
)
from pylog.compat.kafka_python.errors import UnsupportedVersionError
from pylog.compat.kafka_python.translation import translated, translating

_KINDS: Final = {
    ConfigResourceType.TOPIC: "topic",
    ConfigResourceType.BROKER: "broker",
    ConfigResourceType.GROUP: "group",
}
_NOT_MODIFIED: Final = (
    "DEFAULT_CONFIG",
    "STATIC_BROKER_CONFIG",
    "DYNAMIC_DEFAULT_BROKER_CONFIG",
)


class ConfigCalls(Calls):
    """Settings."""

    def describe_configs(
        self,
        config_resources: Iterable[ConfigResource],
        include_synonyms: bool = False,
        config_filter: Any = "modified",
    ) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
        """`{type: {name: {setting: {value, ...}}}}`; only settings that somebody has set, unless
        `config_filter` is 'all'. A resource's `configs` names the settings that are wanted.
        """
        chosen = member_of(ConfigFilterType, config_filter)
        found: dict[str, dict[str, dict[str, dict[str, Any]]]] = {}
        asked = {_resource(r): r for r in config_resources}
        wanted = {key: None if r.configs is None else list(r.configs) for key, r in asked.items()}
        with translating():
            described = self._admin.describe_configs(wanted, timeout=self._seconds(None))
        for key, entries in described.items():
            rows = {
                name: _row(entry, include_synonyms)
                for name, entry in entries.items()
                if _is_wanted(entry, chosen)
            }
            found.setdefault(key.type, {})[key.name] = rows
        return found

    def alter_configs(
        self,
        config_resources: Iterable[ConfigResource],
        validate_only: bool = False,
        raise_on_unknown: bool = True,
        incremental: bool | None = None,
    ) -> dict[str, dict[str, str]]:
        """Change settings; those that are not named stay. A value is a text, or a pair of an
        AlterConfigOp and a text. `{type: {name: "OK", or the error's text}}`. ValueError for a
        setting that is not known or cannot be altered, unless `raise_on_unknown` is off.
        """
        if incremental is False:
            raise UnsupportedVersionError(
                "incremental=False would set all other settings back, as Kafka before 2.3 did; "
                "leave it out, and give (AlterConfigOp.DELETE, None) for what is to go back"
            )
        resources = list(config_resources)
        changes = {_resource(r): _changes(r) for r in resources}
        return self._altered(resources, changes, validate_only, raise_on_unknown)

    def reset_configs(
        self,
        config_resources: Iterable[ConfigResource],
        validate_only: bool = False,
        raise_on_unknown: bool = True,
        incremental: bool | None = None,
    ) -> dict[str, dict[str, str]]:
        """Put settings back to their defaults: the named ones, or all that somebody has set."""
        resources = list(config_resources)
        changes = {}
        for resource in resources:
            names = resource.configs or self._described([resource])[_resource(resource)]
            changes[_resource(resource)] = [OurOp(name, None, "delete") for name in names]
        return self._altered(resources, changes, validate_only, raise_on_unknown)

    def _altered(
        self,
        resources: Iterable[ConfigResource],
        changes: Mapping[OurResource, list[OurOp]],
        validate_only: bool,
        raise_on_unknown: bool,
    ) -> dict[str, dict[str, str]]:
        if raise_on_unknown:
            known = self._described(resources, "dynamic")
            for key, ops in changes.items():
                unknown = {op.name for op in ops} - set(known[key])
                if unknown:
                    raise ValueError(f"Unrecognized configs: {sorted(unknown)}")
        with translating():
            _, faults = outcomes(
                changes,
                lambda: self._admin.incremental_alter_configs(
                    changes, timeout=self._seconds(None), validate_only=validate_only
                ),
            )
        told: dict[str, dict[str, str]] = {}
        for key in changes:
            fault = faults.get(key)
            outcome = "OK" if fault is None else str(translated(fault))
            told.setdefault(key.type, {})[key.name] = outcome
        return told

    def _described(
        self, resources: Iterable[ConfigResource], config_filter: Any = "modified"
    ) -> dict[OurResource, dict[str, Any]]:
        whole = [ConfigResource(r.resource_type, r.name) for r in resources]
        found = self.describe_configs(whole, config_filter=config_filter)
        keys = map(_resource, whole)
        return {key: found[key.type][key.name] for key in keys}

    def list_config_resources(
        self, resource_types: Iterable[Any] | None = None
    ) -> dict[str, list[str]]:
        """The names of topics, brokers and groups."""
        kinds = [member_of(ConfigResourceType, each) for each in resource_types or _KINDS]
        found: dict[str, list[str]] = {}
        with translating():
            for kind in kinds:
                if kind is ConfigResourceType.TOPIC:
                    found["topic"] = self._admin.list_topics()
                elif kind is ConfigResourceType.BROKER:
                    brokers = self._admin.describe_cluster().brokers
                    found["broker"] = [str(broker.id) for broker in brokers]
                elif kind is ConfigResourceType.GROUP:
                    found["group"] = [group.group_id for group in self._admin.list_groups()]
        return found


def _resource(given: ConfigResource) -> OurResource:
    kind = _KINDS.get(given.resource_type)
    if kind is None:
        raise UnsupportedVersionError(
            f"{given.resource_type.name} has no settings here: give TOPIC, BROKER or GROUP"
        )
    return OurResource(kind, str(given.name or ""))


def _changes(resource: ConfigResource) -> list[OurOp]:
    if not isinstance(resource.configs, Mapping):
        raise TypeError(f"{resource!r}: configs must be a dictionary of new values")
    changes = []
    for name, given in resource.configs.items():
        op, value = given if isinstance(given, tuple) else (AlterConfigOp.SET, given)
        kind = member_of(AlterConfigOp, op)
        text = None if kind is AlterConfigOp.DELETE or value is None else _text(value)
        changes.append(OurOp(name, text, kind.name.lower()))
    return changes


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _is_wanted(entry: ConfigEntry, chosen: ConfigFilterType) -> bool:
    if chosen is ConfigFilterType.MODIFIED:
        return entry.source not in _NOT_MODIFIED
    if chosen is ConfigFilterType.DEFAULT:
        return entry.source in _NOT_MODIFIED
    if chosen is ConfigFilterType.STATIC:
        return entry.source == "STATIC_BROKER_CONFIG"
    return not (chosen is ConfigFilterType.DYNAMIC and entry.read_only)


def _row(entry: ConfigEntry, include_synonyms: bool) -> dict[str, Any]:
    synonyms = [
        {"name": each.name, "value": each.value, "source": each.source}
        for each in entry.synonyms
        if include_synonyms
    ]
    return {
        "value": entry.value,
        "read_only": entry.read_only,
        "config_source": entry.source,
        "is_sensitive": entry.sensitive,
        "synonyms": synonyms,
        "config_type": entry.type.upper() or "UNKNOWN",
        "documentation": entry.documentation or None,
    }
