"""The shell that the controller's tests share."""

from __future__ import annotations

from pylog.model import Offset
from pylog_broker.metadata.image import MetadataImage
from tests.fakes.controller_shell import ControllerShell


def test_its_log_is_what_the_controller_replayed() -> None:
    shell = ControllerShell()
    shell.join(1)
    shell.create(replication=1)
    image = MetadataImage()
    for offset, record in enumerate(shell.log):
        image.replay(record, Offset(offset))
    assert image == shell.controller.image == shell.controller.decided


def test_time_passes_deadline_by_deadline() -> None:
    shell = ControllerShell()
    one = shell.join(1)
    start = shell.now_ms
    shell.advance(7_000)
    assert shell.now_ms == start + 7_000
    assert shell.controller.image.brokers[one.broker_id].fenced


def test_two_shells_make_the_same_ids() -> None:
    first, second = ControllerShell(), ControllerShell()
    assert first.controller.image == second.controller.image
