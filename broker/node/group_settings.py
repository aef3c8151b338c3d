"""Settings of groups out of the metadata that this broker has replayed."""

from __future__ import annotations

from collections.abc import Callable

from pylog_broker.config import BrokerConfig
from pylog_broker.group_settings import GroupSettings
from pylog_broker.metadata.image import MetadataDelta, MetadataImage
from pylog_broker.metadata.records import ConfigResourceType


class GroupSettingsView:
    """The `SettingsByGroup` of a broker: a group's own values over those that the broker was
    started with. Lives on the broker's loop; resolved settings are kept until they change.
    """

    def __init__(self, image: Callable[[], MetadataImage], config: BrokerConfig) -> None:
        self._image = image
        self._config = config
        self._of_broker = GroupSettings.of_broker(config)
        self._resolved: dict[str, GroupSettings] = {}

    def of(self, group_id: str) -> GroupSettings:
        """Those of that group, which need not exist."""
        own = self._image().group_configs(group_id)
        if not own:
            return self._of_broker
        settings = self._resolved.get(group_id)
        if settings is None:
            settings = self._resolved[group_id] = GroupSettings.resolve(own, self._config)
        return settings

    def on_metadata(self, delta: MetadataDelta) -> None:
        """The image has changed."""
        for kind, name in delta.configs:
            if kind is ConfigResourceType.GROUP:
                self._resolved.pop(name, None)
