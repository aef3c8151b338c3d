"""A batch that is found in order at one look is the same that passes one check after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from pylog.config import LONG_MAX
from pylog.errors import PylogError
from pylog.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    Buffer,
    pack_header,
    read_header,
    seal,
    with_producer,
)
from pylog.records.builder import encode_batch
from pylog.records.validate import check_records, plain_header
from pylog_broker.config import TopicConfig
from pylog_broker.storage.log.validator import CLIENT, Origin, checked_header
from tests.fakes.guarded import GuardedMemory

WALL_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
MEMORY = GuardedMemory(1 << 16)
BATCH = encode_batch(
    [b"a", b"bb", b"ccc"],
    keys=[b"k", None, b"k"],
    timestamps=[WALL_MS, WALL_MS - 3, WALL_MS + 4],
)


def outcome(check: Callable[[], BatchHeader]) -> object:
    try:
        return check()
    except PylogError as error:
        return type(error), str(error)


def at_one_look(batch: Buffer, config: TopicConfig) -> object:
    return outcome(lambda: checked_header(batch, config, CLIENT, WALL_MS))


def one_by_one(batch: bytes, config: TopicConfig) -> object:
    """Records that were checked in the pool are not looked at again, so nothing is found at one
    look."""
    try:
        summary: Any = check_records(batch, read_header(batch), 1 << 20)
    except PylogError as error:
        summary = error
    return outcome(lambda: checked_header(batch, config, Origin(checked=summary), WALL_MS))


def found(
    batch: bytes, *, before: int = LONG_MAX, after: int = HOUR_MS, keys: bool = False
) -> bool:
    header = plain_header(batch, len(BATCH), WALL_MS, before, after, needs_keys=keys)
    assert header is None or header == read_header(batch)
    return header is not None


times = st.one_of(
    st.sampled_from([-1, 0, -2, LONG_MAX, -LONG_MAX - 1]),
    st.integers(-2 * HOUR_MS, 2 * HOUR_MS).map(lambda delta: WALL_MS + delta),
    st.integers(-(2**63), LONG_MAX),
)
small = st.integers(-2, 5)
FIELDS: dict[str, st.SearchStrategy[int]] = {
    "base_offset": small,
    "attributes": st.sampled_from([0x01, 0x05, 0x08, 0x10, 0x20, 0x40, 0x4000]),
    "last_offset_delta": small,
    "record_count": st.one_of(small, st.integers(1 - 2**31, 2**31 - 1)),
    "base_timestamp": times,
    "max_timestamp": times,
    "producer_id": small,
    "producer_epoch": small,
    "base_sequence": small,
}
# Few at a time: what several faults have in common hides what is made of each.
fields = st.lists(st.sampled_from(sorted(FIELDS)), max_size=3, unique=True).flatmap(
    lambda names: st.fixed_dictionaries({name: FIELDS[name] for name in names})
)
configs = st.builds(
    TopicConfig,
    message_timestamp_before_max_ms=st.sampled_from([0, HOUR_MS, LONG_MAX]),
    message_timestamp_after_max_ms=st.sampled_from([0, HOUR_MS, LONG_MAX]),
    cleanup_policy=st.sampled_from([("delete",), ("compact",)]),
    message_timestamp_type=st.sampled_from(["CreateTime", "LogAppendTime"]),
    max_message_bytes=st.sampled_from([len(BATCH) - 1, len(BATCH), 1 << 20]),
)


@settings(max_examples=1_000)
@given(
    st.one_of(st.just([WALL_MS, WALL_MS - 2, WALL_MS]), st.lists(times, min_size=1, max_size=4)),
    fields,
    configs,
    st.one_of(
        st.just([]), st.lists(st.tuples(st.integers(0, 120), st.integers(0, 255)), max_size=2)
    ),
    st.sampled_from([True, True, False]),
    st.sampled_from([0, 0, 0, -1, -30, 1]),
)
@example([WALL_MS], {}, TopicConfig(), [], True, 0)
def test_one_look_says_what_one_check_after_the_other_says(
    stamps: list[int],
    changed: dict[str, int],
    config: TopicConfig,
    broken: list[tuple[int, int]],
    sealed: bool,
    cut: int,
) -> None:
    whole = encode_batch(
        [b"v"] * len(stamps), keys=[b"k", None, b"", b"k"][: len(stamps)], timestamps=stamps
    )
    header = read_header(whole)
    records = bytearray(whole[HEADER_SIZE:])
    for place, value in broken:
        records[place % len(records)] = value
    if changed or broken or cut:
        settled = {
            "attributes": 0,
            "record_count": header.record_count,
            "base_timestamp": header.base_timestamp,
            "max_timestamp": header.max_timestamp,
        }
        whole = seal(pack_header(**settled | changed), bytes(records))
        whole = whole[:cut] if cut < 0 else whole + bytes(cut)
        if not sealed:
            whole = whole[:17] + b"crc!" + whole[21:]

    assert at_one_look(whole, config) == one_by_one(whole, config)
    assert at_one_look(MEMORY.hold(whole), config) == one_by_one(whole, config)


def test_what_is_found_in_order_at_one_look() -> None:
    assert found(BATCH)
    assert found(with_producer(BATCH, 1, 0, 0))
    assert found(BATCH, before=3, after=4)
    assert not found(BATCH, before=2)
    assert not found(BATCH, after=3)
    assert not found(BATCH, keys=True)
    assert found(encode_batch([b"v"], keys=[b""], timestamps=WALL_MS), keys=True)
    assert not found(BATCH + b"\0")
    assert not found(BATCH[: HEADER_SIZE - 1])
    assert not found(encode_batch([b"v" * len(BATCH)], timestamps=WALL_MS))
    assert not found(encode_batch([b"v"], timestamps=WALL_MS, transactional=True))
    assert not found(encode_batch([b"v"], timestamps=-1))


def test_every_flipped_bit_is_seen_at_one_look() -> None:
    # Base offset and leader epoch lie outside the CRC: the leader overwrites the epoch.
    for position in [*range(12), *range(16, len(BATCH))]:
        for bit in range(8):
            broken = bytearray(BATCH)
            broken[position] ^= 1 << bit
            assert not found(bytes(broken))
