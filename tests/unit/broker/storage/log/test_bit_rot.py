"""One flipped bit at a random place: all but the batch that it is in is served, nothing breaks.

A sample; STORAGE_ROT_FLIPS=10000 makes it the whole of it.
"""

from __future__ import annotations

import os
import random

from pylog.model import LeaderEpoch, OffsetAndTimestamp
from pylog.records.batch import iter_headers
from pylog_broker.config import TopicConfig
from pylog_broker.storage.errors import CorruptSegment, DamagedBatch
from pylog_broker.storage.log.log import Log
from pylog_broker.storage.recovery.recovery import LastStop
from tests.fakes.logs import DIRECTORY, WALL_MS, batch_of, open_log
from tests.fakes.memory_files import MemoryFile, MemoryFiles

FLIPS = int(os.environ.get("STORAGE_ROT_FLIPS", "400"))
CONFIG = TopicConfig(segment_bytes=1500, index_interval_bytes=200)
EPOCH_BYTES = range(12, 16)
"""The bytes of the leader epoch in a batch's header: outside the CRC, and any number may stand
there."""
END = 120


def written() -> tuple[MemoryFiles, Log]:
    files = MemoryFiles()
    log = open_log(files, config=CONFIG)
    for number in range(60):
        batch = batch_of(b"%02d" % number * 30, b"", timestamps=WALL_MS + number)
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(number // 20), wall_ms=WALL_MS)
    log.flush()
    return files, log


def served(log: Log) -> tuple[dict[int, bytes], set[int]]:
    """Every batch that can be read, by its base offset, and the offsets that were refused."""
    found: dict[int, bytes] = {}
    lost: set[int] = set()
    offset = int(log.log_start_offset)
    while offset < log.log_end_offset:
        try:
            part = log.read(offset, 1, upper_bound=log.log_end_offset)
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


def test_a_flipped_bit_costs_the_batch_that_it_is_in() -> None:
    rng = random.Random(int(os.environ.get("STORAGE_ROT_SEED", "1")))
    files, log = written()
    whole, _ = served(log)
    times = [log.offset_for_timestamp(WALL_MS + n) for n in range(60)]
    facts = {segment.base_offset: segment.facts for segment in log.segments}
    log.close(clean=True)
    names = [f"{DIRECTORY}/{name}" for name in files.listdir(DIRECTORY)]
    content = {name: bytes(files.names[name].data) for name in names}
    refused = 0
    for _ in range(FLIPS):
        logs = rng.random() < 0.6
        name = rng.choice([n for n in names if content[n] and n.endswith(".log") == logs])
        position = rng.randrange(len(content[name]))
        for other in files.listdir(DIRECTORY):
            files.unlink(f"{DIRECTORY}/{other}")
        files.names |= {other: MemoryFile(bytearray(data)) for other, data in content.items()}
        files.names[name].data[position] ^= 1 << rng.randrange(8)
        files.kill()
        point = rng.choice([0, 60, END])
        stop = rng.choice(
            [
                LastStop(point, point),
                LastStop.clean(),
                LastStop.clean(facts),
            ]
        )
        if stop.facts is not None and not name.endswith(".log"):
            stop = LastStop.clean()  # the marker would have told
        hit = _batch_at(content[name], position) if name.endswith(".log") else None
        try:
            again = open_log(files, config=CONFIG, last_stop=stop)
        except CorruptSegment:  # nothing says where the log ends
            assert hit is not None
            assert hit[0] == END - 2
            assert stop == LastStop.clean()
            continue
        found, lost = served(again)
        if hit is None:
            assert (found, lost) == (whole, set())
            assert [_look_up(again, n) for n in range(60)] == times
            continue
        base, at = hit
        is_last = base == END - 2 and stop.verify_from is not None
        if is_last and again.log_end_offset == base:
            lost = {base, base + 1}  # cut: a torn tail looks the same
        if not lost:
            assert at in EPOCH_BYTES
            assert _without_epoch(found.pop(base)) == _without_epoch(whole[base])
        else:
            refused += 1
        assert lost in ({base, base + 1}, set()), (name, position, stop)
        assert found == {other: batch for other, batch in whole.items() if other != base}
        others = [n for n in range(60) if 2 * n != base]
        assert [_look_up(again, n) for n in others] == [times[n] for n in others]
    assert refused > FLIPS // 3


def _batch_at(log: bytes, position: int) -> tuple[int, int]:
    """The base offset of the batch that covers a position of a file, and the place in it."""
    return [(h.base_offset, position - at) for at, h in iter_headers(log) if at <= position][-1]


def _without_epoch(batch: bytes) -> bytes:
    return batch[:12] + batch[16:]


def _look_up(log: Log, number: int) -> OffsetAndTimestamp | None:
    return log.offset_for_timestamp(WALL_MS + number)
