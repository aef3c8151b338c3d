from __future__ import annotations

from pylog.records.builder import ControlType, encode_batch, encode_control_batch
from pylog_broker.share.log_batches import LogBatch, log_batches, with_records_of


def batch(offset: int, records: int = 1) -> bytes:
    return encode_batch([b"v"] * records, timestamps=0, base_offset=offset)


def in_transaction(offset: int, producer_id: int) -> bytes:
    return encode_batch(
        [b"v", b"w"],
        timestamps=0,
        base_offset=offset,
        transactional=True,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
    )


def marker(offset: int, producer_id: int) -> bytes:
    return encode_control_batch(
        ControlType.ABORT,
        producer_id=producer_id,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=0,
        base_offset=offset,
    )


def test_control_records_and_those_of_aborted_transactions_are_not_for_members() -> None:
    log = (
        batch(10, 3)
        + in_transaction(13, 7)
        + in_transaction(15, 8)
        + marker(17, 7)
        + in_transaction(18, 7)
    )
    assert log_batches(log, [(7, 13)]) == [
        LogBatch(10, 12),
        LogBatch(13, 14, False),
        LogBatch(15, 16),
        LogBatch(17, 17, False),
        LogBatch(18, 19),
    ]
    assert [each.is_for_members for each in log_batches(log)] == [True, True, True, False, True]


def test_a_batch_that_cannot_be_read_ends_what_is_known() -> None:
    assert log_batches(batch(0, 2) + b"\0" * 100) == [LogBatch(0, 1)]
    assert log_batches(batch(0, 2) + batch(2)[:-1]) == [LogBatch(0, 1)]
    assert log_batches(b"") == []


def test_only_batches_with_wanted_records_are_kept() -> None:
    one, two, three = batch(0, 5), batch(5, 5), batch(10, 5)
    log = one + two + three
    assert bytes(with_records_of(log, [(0, 2)])) == one
    assert bytes(with_records_of(log, [(4, 5), (12, 12)])) == log
    assert bytes(with_records_of(log, [(2, 2), (11, 13)])) == one + three
    assert bytes(with_records_of(log, [])) == b""
