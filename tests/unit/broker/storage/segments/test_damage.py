"""A segment with flipped bits, against a twin that knows what was written: the rest is read."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from pylog.model import LeaderEpoch, OffsetAndTimestamp
from pylog.records.batch import iter_headers
from pylog.records.reader import iter_records
from pylog_broker.config import TopicConfig
from pylog_broker.storage.errors import CorruptSegment, DamagedBatch
from pylog_broker.storage.log.environment import Environment
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.tail_cache import TailBudget
from tests.fakes.logs import DIRECTORY, WALL_MS, append, bases_of, batch_of, open_log
from tests.fakes.memory_files import MemoryFiles

CONFIG = TopicConfig(segment_bytes=4000, index_interval_bytes=300)
NO_TAIL = Environment(TailBudget(0), tail_bytes_max=0)
FIRST = f"{DIRECTORY}/{0:020d}.log"
FIELDS = {
    "base offset, high": (0, 0x40),
    "base offset, low": (7, 0x01),
    "base offset, up": (6, 0x10),
    "length, far": (8, 0x10),
    "length, sign": (8, 0x80),
    "length, shorter or longer": (11, 0x04),
    "length, a little": (10, 0x01),
    "magic": (16, 0x01),
    "crc": (18, 0x20),
    "attributes": (22, 0x08),
    "codec": (22, 0x02),
    "last offset delta": (26, 0x01),
    "max timestamp": (36, 0x40),
    "record count": (60, 0x01),
    "records": (70, 0x80),
}
"""The bit that is damaged, by field: which byte of the batch, and which bit of it."""


@dataclass
class Written:
    """A log, and what it was written with."""

    files: MemoryFiles
    log: Log
    batches: dict[int, bytes]
    """By base offset."""

    def position(self, base: int, name: str = FIRST) -> int:
        data = bytes(self.files.names[name].data)
        return next(at for at, header in iter_headers(data) if header.base_offset == base)

    def flip(self, position: int, bit: int, name: str = FIRST) -> None:
        self.files.names[name].data[position] ^= bit


def written(batches: int = 40, *, gaps: bool = False, seed: int = 0) -> Written:
    """Batches of three records; with `gaps` some offsets between them were cleaned away."""
    rng = random.Random(seed)
    files = MemoryFiles()
    log = open_log(files, config=CONFIG, environment=NO_TAIL)
    if gaps:
        log._state.gaps.note()
    made: dict[int, bytes] = {}
    base = 0
    for number in range(batches):
        base += rng.choice([0, 0, 1, 5]) if gaps else 0
        values = [b"%d" % number * rng.randrange(1, 40), b"x", b"y"]
        batch = batch_of(*values, timestamps=WALL_MS + number, base_offset=base, epoch=0)
        log.append_as_follower(batch, wall_ms=WALL_MS)
        made[base] = bytes(batch)
        base += 3
    return Written(files, log, made)


def read_around(log: Log, max_bytes: int = 1) -> tuple[dict[int, bytes], set[int]]:
    """Each batch that is served, and the offsets that are refused."""
    found: dict[int, bytes] = {}
    lost: set[int] = set()
    offset, end = int(log.log_start_offset), int(log.log_end_offset)
    while offset < end:
        try:
            part = log.read(offset, max_bytes, upper_bound=end)
        except DamagedBatch as error:
            lost.update(range(offset, error.next_offset))
            offset = error.next_offset
            continue
        for position, header in iter_headers(part.records):
            found[header.base_offset] = bytes(part.records[position : position + header.size])
        assert part.next_offset > offset
        offset = part.next_offset
    assert log.failure is None
    return found, lost


@pytest.mark.parametrize("max_bytes", [1, 700, 1 << 20])
@pytest.mark.parametrize("number", [0, 5, 11, 20])
@pytest.mark.parametrize("field", FIELDS)
def test_one_flipped_bit_costs_one_batch(field: str, number: int, max_bytes: int) -> None:
    world = written()
    at, bit = FIELDS[field]
    base = list(world.batches)[number]
    name = max(n for n in world.files.names if n.endswith(".log") and int(n[-24:-4]) <= base)
    world.flip(world.position(base, name) + at, bit, name)
    found, lost = read_around(world.log, max_bytes)
    assert lost == {base, base + 1, base + 2}
    assert found == {other: b for other, b in world.batches.items() if other != base}
    append(world.log, b"behind")
    assert bases_of(world.log.read(120, 1 << 20, upper_bound=121).records) == [120]


@pytest.mark.parametrize("seed", range(60))
def test_many_flipped_bits_cost_the_batches_around_them_at_most(seed: int) -> None:
    """Never a wrong byte, never a batch of an interval of the index that no bit was flipped in."""
    rng = random.Random(seed)
    gaps = seed % 2 == 1
    world = written(gaps=gaps, seed=seed)
    logs = [n for n in sorted(world.files.names) if n.endswith(".log")]
    hit: set[int] = set()
    for _ in range(rng.randrange(1, 4)):
        name = rng.choice(logs)
        data = bytes(world.files.names[name].data)
        base, batch = rng.choice(list(world.batches.items()))
        if batch not in data:
            continue
        at, bit = rng.choice(list(FIELDS.values()))
        if at < 8 and gaps and bit != 0x40:
            continue  # it may stay within the gap, where nothing tells
        world.flip(data.index(batch) + at, bit, name)
        hit.add(base)
    found, lost = read_around(world.log, rng.choice([1, 500, 5000]))
    for base, batch in found.items():
        assert world.batches[base] == batch
        assert base not in hit
    near = {
        base
        for number, base in enumerate(world.batches)
        if hit & set(list(world.batches)[max(0, number - 12) : number + 1])
    }
    assert near >= world.batches.keys() - found.keys() >= hit
    assert all(base in lost for base in hit)
    if len(hit) == 1:
        assert world.batches.keys() - found.keys() == hit


def test_a_value_that_looks_like_batches_is_not_taken_for_one() -> None:
    files = MemoryFiles()
    log = open_log(files, config=CONFIG, environment=NO_TAIL)
    append(log, b"before")
    copies = b"".join(batch_of(b"copy", base_offset=n, epoch=0) for n in range(2, 6))
    append(log, copies)
    append(log, b"behind")
    data = files.names[FIRST].data
    (position,) = [at for at, header in iter_headers(bytes(data)) if header.base_offset == 1]
    data[position + 8] ^= 0x01  # its length
    found, lost = read_around(log)
    assert (sorted(found), lost) == ([0, 2], {1})
    records = iter_records(found[2], "t", 0)
    assert [record.value for record in records] == [b"behind"]


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
@pytest.mark.parametrize("damaged_too", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_an_index_is_a_cache_also_of_a_damaged_segment(
    suffix: str, damaged_too: bool, seed: int
) -> None:
    rng = random.Random(seed)
    world = written()
    world.log.roll(WALL_MS)
    world.log.close(clean=True)
    for name in [n for n in world.files.names if n.endswith(f".{suffix}")]:
        data = world.files.names[name].data
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    base = 15
    if damaged_too:
        world.flip(world.position(base) + 8, 0x10)
    log = open_log(world.files, config=CONFIG, environment=NO_TAIL)
    found, lost = read_around(log)
    assert lost == ({base, base + 1, base + 2} if damaged_too else set())
    assert found == {o: b for o, b in world.batches.items() if o not in lost}
    for number in range(40):
        if damaged_too and number == 5:
            continue
        answer = log.offset_for_timestamp(WALL_MS + number)
        assert answer == OffsetAndTimestamp(3 * number, WALL_MS + number, LeaderEpoch(0))


def test_times_are_looked_up_in_what_is_whole() -> None:
    world = written()
    world.flip(world.position(15) + 36, 0x40)  # its largest timestamp
    world.flip(world.position(24) + 8, 0x10)  # its length
    for number in range(40):
        answer = world.log.offset_for_timestamp(WALL_MS + number)
        readable = number + 1 if number in (5, 8) else number
        assert answer == OffsetAndTimestamp(3 * readable, WALL_MS + readable, LeaderEpoch(0))
    assert world.log.failure is None


def test_the_largest_time_is_that_of_what_is_whole() -> None:
    world = written(5)
    found = world.log.max_timestamp()
    assert found == OffsetAndTimestamp(12, WALL_MS + 4, LeaderEpoch(0))
    world.flip(world.position(12) + 70, 1)
    found = world.log.max_timestamp()
    assert found == OffsetAndTimestamp(9, WALL_MS + 3, LeaderEpoch(0))


def test_a_file_that_is_too_short_is_no_rot() -> None:
    """A write behind it would go to the wrong position."""
    world = written(5)
    del world.files.names[FIRST].data[-1:]
    with pytest.raises(CorruptSegment, match="ends 1 bytes too early"):
        world.log.read(12, 1, upper_bound=15)
    assert isinstance(world.log.failure, CorruptSegment)


def test_damage_below_the_log_start_is_over() -> None:
    world = written(5)
    world.flip(world.position(3) + 70, 1)
    read_around(world.log)
    assert [(hole.offset, hole.end_offset) for hole in world.log.damage] == [(3, 6)]
    world.log.advance_log_start(world.log.log_end_offset)
    assert world.log.damage == ()


def test_rot_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    world = written(5)
    world.flip(world.position(3) + 70, 1)
    for _ in range(3):
        read_around(world.log)
    told = [record for record in caplog.records if "is damaged at position" in record.getMessage()]
    assert [record.levelname for record in told] == ["ERROR"]
