"""The log directories in a registration."""

from __future__ import annotations

from pylog.model import BrokerEpoch, ControllerEpoch
from pylog_broker.metadata.messages import LogDirectory, RegisterBroker
from pylog_broker.metadata.records import Endpoint, Software, usual_listeners
from pylog_broker.node.registration import registration_of
from pylog_broker.storage.manager.log_directories import LogDirectories
from tests.fakes.logs import TOPIC_ID
from tests.fakes.managers import running


def registration(logs: LogDirectories) -> RegisterBroker:
    return registration_of(
        logs,
        incarnation_id="i",
        host_id="h",
        rack=None,
        listeners=usual_listeners(Endpoint("h", 1), Endpoint("h", 2)),
        software=Software("pylog", "1"),
        highest_controller_epoch=ControllerEpoch(1),
        previous_broker_epoch=BrokerEpoch(17),
        static_config=(),
    )


def test_an_only_directory_tells_what_is_in_it_too() -> None:
    _, manager = running()
    told = registration(LogDirectories([manager]))
    assert told.log_dirs == (LogDirectory("directory-1", True, ((TOPIC_ID, 0),)),)
    assert told.previous_broker_epoch == 17
    assert (told.directory_id, told.offline_log_dirs) == ("directory-1", ())
