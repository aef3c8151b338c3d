"""A recovery point is compared with what is synced on the simulated disk."""

from __future__ import annotations

import random

import pytest

from pylog.model import Offset
from pylog_broker.config import TopicConfig
from pylog_broker.storage.log.log import Log
from tests.fakes.logs import append, open_log
from tests.sim.disk import Disk
from tests.sim.durable import check_recovery_point
from tests.sim.files import SimFiles
from tests.sim.violation import Violation

SMALL = TopicConfig(segment_bytes=100)
PREALLOCATED = TopicConfig(segment_bytes=1_000, preallocate=True)


def written(config: TopicConfig | None = None) -> tuple[Disk, Log]:
    """A log with three batches, all synced."""
    disk = Disk()
    log = open_log(SimFiles(disk, rng=random.Random(1)), directory="/data/t-0", config=config)
    for value in (b"a", b"b", b"c"):
        append(log, value)
    log.flush()
    return disk, log


@pytest.mark.parametrize("config", [TopicConfig(), SMALL, PREALLOCATED])
def test_what_is_synced_may_be_below_the_recovery_point(config: TopicConfig) -> None:
    disk, log = written(config)
    append(log, b"not synced")
    check_recovery_point("b1", log, disk)


def test_what_is_not_synced_may_not() -> None:
    disk, log = written()
    append(log, b"not synced")
    log._durable.point = log.log_end_offset
    with pytest.raises(Violation, match="is not synced up to there"):
        check_recovery_point("b1", log, disk)


def test_a_file_whose_name_is_not_synced_may_not() -> None:
    disk, log = written()
    disk.directory("/data/t-0").durable.clear()
    with pytest.raises(Violation, match="is not synced up to there"):
        check_recovery_point("b1", log, disk)


def test_a_recovery_point_behind_the_end_is_of_another_log() -> None:
    disk, log = written()
    log._durable.point = Offset(log.log_end_offset + 1)
    with pytest.raises(Violation, match="has the recovery point 4"):
        check_recovery_point("b1", log, disk)


@pytest.mark.parametrize("data", [b"", bytes(1_000)])
def test_a_segment_that_a_given_up_roll_left_need_not_be_durable(data: bytes) -> None:
    disk, log = written()
    disk.create(f"/data/t-0/{2:020d}.log").append(data)
    check_recovery_point("b1", log, disk)
