"""Settings of groups as a broker knows them: live, and resolved once."""

from __future__ import annotations

from pylog.model import ControllerEpoch, Offset
from pylog_broker.config import BrokerConfig
from pylog_broker.group_settings import GroupSettings
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import MetadataBatch
from pylog_broker.metadata.records import ConfigRecord, ConfigResourceType
from pylog_broker.node.group_settings import GroupSettingsView

GROUP = ConfigResourceType.GROUP
NAME = "consumer.session.timeout.ms"


def test_a_change_holds_at_once_and_until_it_is_taken_back() -> None:
    image = MetadataImage()
    config = BrokerConfig.from_mapping({"group.consumer.session.timeout.ms": "46000"})
    view = GroupSettingsView(lambda: image, config)

    def write(value: str | None) -> None:
        records = (ConfigRecord(GROUP, "g", NAME, value),)
        offset = Offset(image.offset + 1)
        view.on_metadata(image.apply(MetadataBatch(ControllerEpoch(0), offset, records)))

    assert view.of("g").consumer_session_timeout_ms == 46_000
    write("50000")
    assert view.of("g") == GroupSettings(consumer_session_timeout_ms=50_000)
    assert view.of("g") is view.of("g")
    assert view.of("other").consumer_session_timeout_ms == 46_000
    write("51000")
    assert view.of("g").consumer_session_timeout_ms == 51_000
    write(None)
    assert view.of("g").consumer_session_timeout_ms == 46_000
