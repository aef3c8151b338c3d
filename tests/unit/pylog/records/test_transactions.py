from __future__ import annotations

import pytest

from pylog.records.batch import iter_headers
from pylog.records.builder import ControlType, encode_batch, encode_control_batch
from pylog.records.reader import iter_records
from pylog.records.transactions import without_aborted
from pylog_broker.storage.indexes.txn_index import decode_entries
from tests.golden.kafka_dump import FOLDER, DumpedBatch, dump

DIRECTORY = "clean/transactional-0"
STABLE = 156
"""The offset at which the transaction begins that Kafka left open."""


def in_transaction(producer: int, base_offset: int, *values: bytes) -> bytes:
    return encode_batch(
        values,
        producer_id=producer,
        producer_epoch=0,
        base_sequence=0,
        base_offset=base_offset,
        transactional=True,
    )


def marker(producer: int, offset: int, kind: ControlType = ControlType.ABORT) -> bytes:
    return encode_control_batch(
        kind,
        producer_id=producer,
        producer_epoch=0,
        coordinator_epoch=0,
        timestamp_ms=0,
        base_offset=offset,
    )


def values(batches: object) -> list[bytes | None]:
    return [r.value for r in iter_records(batches, "t", 0)]  # type: ignore[arg-type]


def committed_in_kafkas_dump() -> list[int]:
    """The offsets of what was committed, by the markers that Kafka's own tool shows."""
    batches: list[DumpedBatch] = []
    for name in sorted(dump(DIRECTORY).logs):
        batches += dump(DIRECTORY).logs[name]
    found: list[int] = []
    open_: dict[int, list[int]] = {}
    for batch in batches:
        producer = batch.number("producerId")
        if batch.flag("isControl"):
            (record,) = batch.records
            ended = open_.pop(producer, [])
            found += ended if str(record.marker) == "COMMIT" else []
        elif batch.flag("isTransactional"):
            open_.setdefault(producer, []).extend(r.offset for r in batch.records)
        else:
            found += [r.offset for r in batch.records]
    return sorted(found)


def test_what_kafka_aborted_is_left_out_wherever_a_fetch_begins_and_ends() -> None:
    logs = sorted((FOLDER / DIRECTORY).glob("*.log"))
    log = b"".join(path.read_bytes() for path in logs)
    index = [
        entry
        for path in sorted((FOLDER / DIRECTORY).glob("*.txnindex"))
        for entry in decode_entries(path.read_bytes(), int(path.stem))
    ]
    expected = [offset for offset in committed_in_kafkas_dump() if offset < STABLE]
    batches = [(p, h) for p, h in iter_headers(log) if h.base_offset < STABLE]
    assert len(index) > 10
    assert len(expected) > 50
    for begin, first in batches:
        for size in (1, 3, len(batches)):
            chosen = [(p, h) for p, h in batches if p >= begin][:size]
            end, last = chosen[-1][0] + chosen[-1][1].size, chosen[-1][1]
            told = [
                (e.producer_id, e.first_offset)
                for e in index
                if e.last_offset >= first.base_offset and e.first_offset <= last.last_offset
            ]
            left = without_aborted(log[begin:end], told)
            assert [r.offset for r in iter_records(left, "t", 0)] == [
                o for o in expected if first.base_offset <= o <= last.last_offset
            ]


def test_nothing_is_copied_where_nothing_was_aborted() -> None:
    data = in_transaction(1, 0, b"a", b"b") + marker(1, 2, ControlType.COMMIT)
    assert without_aborted(data, ()) is data
    assert without_aborted(data, [(2, 0)]) is data


def test_a_producer_goes_on_after_its_abort() -> None:
    data = b"".join(
        (
            in_transaction(1, 0, b"aborted"),
            in_transaction(2, 1, b"other"),
            encode_batch([b"plain"], base_offset=2, producer_id=1, producer_epoch=0,
                         base_sequence=9),
            marker(1, 3),
            in_transaction(1, 4, b"committed"),
            marker(1, 5, ControlType.COMMIT),
            in_transaction(1, 6, b"aborted too"),
            marker(2, 7, ControlType.COMMIT),
        )
    )  # fmt: skip
    left = without_aborted(data, [(1, 6), (1, 0)])
    assert values(left) == [b"other", b"plain", b"committed"]


@pytest.mark.parametrize("cut", [1, 30, 70])
def test_what_cannot_be_read_is_left_to_who_decodes(cut: int) -> None:
    data = in_transaction(1, 0, b"aborted") + in_transaction(2, 1, b"kept")
    broken = data + b"\x00" * 100
    left = bytes(without_aborted(broken, [(1, 0)]))
    assert left == broken[len(in_transaction(1, 0, b"aborted")) :]
    assert values(without_aborted(data[:-cut], [(1, 0)])) == []
