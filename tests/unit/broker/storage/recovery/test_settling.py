"""The end of a start: which epochs a log has, and the report of all passes together."""

from __future__ import annotations

import pytest

from pylog.model import LeaderEpoch, Offset
from pylog_broker.storage.checkpoints.leader_epochs import EpochEntry, LeaderEpochCache
from pylog_broker.storage.recovery.last_stop import RecoveryReport
from pylog_broker.storage.recovery.settling import with_stored_epochs

Epochs = list[tuple[int, int]]


def cache(epochs: Epochs) -> LeaderEpochCache:
    return LeaderEpochCache(
        EpochEntry(LeaderEpoch(epoch), Offset(start)) for epoch, start in epochs
    )


@pytest.mark.parametrize(
    ("stored", "read", "agree", "wanted"),
    [
        pytest.param([], [(0, 0)], False, [(0, 0)], id="no checkpoint"),
        pytest.param([(1, 5)], [(0, 0)], False, [(0, 0)], id="a checkpoint that knows no better"),
        pytest.param(
            [(0, 0), (2, 9)], [(0, 0)], False, [(0, 0), (2, 9)], id="an epoch that wrote nothing"
        ),
        pytest.param(
            [(0, 0), (2, 8)], [(0, 0)], False, [(0, 0)], id="an epoch whose records were cut"
        ),
        pytest.param([(1, 9)], [(0, 0), (2, 4)], False, [(0, 0), (2, 4)], id="an older epoch"),
        pytest.param(
            [(0, 0), (1, 3), (2, 6)],
            [(0, 0), (2, 7)],
            True,
            [(0, 0), (1, 3), (2, 6)],
            id="an epoch whose records the cleaner took",
        ),
        pytest.param([(0, 0), (1, 12)], [(0, 0)], True, [(0, 0)], id="an epoch behind the end"),
    ],
)
def test_the_epochs_of_a_log_that_ends_at_9(
    stored: Epochs, read: Epochs, agree: bool, wanted: Epochs
) -> None:
    assert list(with_stored_epochs(cache(stored), cache(read), agree, 9).entries) == wanted


def test_the_report_of_all_passes() -> None:
    parts = [
        RecoveryReport(segments_trusted=2, warnings=("one",)),
        RecoveryReport(batches=3, bytes_cut=10, has_gaps=True, warnings=("two", "three")),
        RecoveryReport(batches=4, bytes_cut=5, segments_cut=1, indexes_rebuilt=1),
        RecoveryReport(lost_durable=True),
    ]
    assert RecoveryReport.total(parts) == RecoveryReport(
        batches=7,
        segments_trusted=2,
        bytes_cut=15,
        segments_cut=1,
        indexes_rebuilt=1,
        lost_durable=True,
        has_gaps=True,
        warnings=("one", "two", "three"),
    )
    assert RecoveryReport.total([]) == RecoveryReport()


def test_parts_that_tell_nothing_change_no_report() -> None:
    part = RecoveryReport(batches=3, bytes_cut=10, warnings=("one", "two"))
    nothing = RecoveryReport()
    assert RecoveryReport.total([nothing, part, nothing]) == part
    assert RecoveryReport.total([nothing, nothing]) == nothing
