"""One flipped bit at a random place: what is before it is kept, it is never served, nothing breaks.

A sample; STORAGE_ROT_FLIPS=10000 makes it the whole of it.
"""

from __future__ import annotations

import os
import random

from broker.config import TopicConfig
from broker.storage.errors import CorruptSegment
from broker.storage.log.log import Log
from broker.storage.recovery.recovery import LastStop
from pylog.errors import KafkaStorageError
from pylog.model import LeaderEpoch, OffsetAndTimestamp
from pylog.records.batch import iter_headers
from tests.fakes.logs import DIRECTORY, WALL_MS, batch_of, open_log
from tests.fakes.memory_files import MemoryFile, MemoryFiles

FLIPS = int(os.environ.get("STORAGE_ROT_FLIPS", "400"))
CONFIG = TopicConfig(segment_bytes=1500, index_interval_bytes=200)
EPOCH_BYTES = range(12, 16)
"""Of a batch's header: outside the CRC, and any number may stand there."""


def written() -> tuple[MemoryFiles, Log]:
    files = MemoryFiles()
    log = open_log(files, config=CONFIG)
    for number in range(60):
        batch = batch_of(b"%02d" % number * 30, b"", timestamps=WALL_MS + number)
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(number // 20), wall_ms=WALL_MS)
    log.flush()
    return files, log


def served(log: Log) -> dict[int, bytes]:
    """Every batch that can be read, by its base offset; an offline log gives no more."""
    found: dict[int, bytes] = {}
    offset = int(log.log_start_offset)
    while offset < log.log_end_offset and log.failure is None:
        try:
            part = log.read(offset, 1, upper_bound=log.log_end_offset)
        except KafkaStorageError:
            break
        for position, header in iter_headers(part.records):
            found[header.base_offset] = bytes(part.records[position : position + header.size])
        assert part.next_offset > offset
        offset = part.next_offset
    return found


def test_a_flipped_bit_is_never_served() -> None:
    rng = random.Random(int(os.environ.get("STORAGE_ROT_SEED", "1")))
    files, log = written()
    whole = served(log)
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
        point = rng.choice([0, 60, 120])
        stop = rng.choice(
            [
                LastStop(point, point),
                LastStop(point, point, memory_survived=False),
                LastStop.clean(),
                LastStop.clean(facts),
            ]
        )
        if stop.facts is not None and not name.endswith(".log"):
            stop = LastStop.clean()  # the marker would have told
        try:
            again = open_log(files, config=CONFIG, last_stop=stop)
        except CorruptSegment:
            refused += 1
            assert name.endswith(".log")
            continue
        found = served(again)
        for base, batch in found.items():
            same = whole[base]
            assert batch[:12] + batch[16:] == same[:12] + same[16:]
            if name.endswith(".log") and batch != same:
                start = content[name].find(same)
                assert position - start in EPOCH_BYTES
        before = _offset_at(content[name], position) if name.endswith(".log") else 120
        assert all(base in found for base in whole if base + 2 <= before), (name, position)
        if not name.endswith(".log"):
            assert found == whole
            assert [_look_up(again, n) for n in range(60)] == times
    assert refused > FLIPS // 10


def _offset_at(log: bytes, position: int) -> int:
    """The first offset of the batch that covers a position of a file."""
    found = [h.base_offset for start, h in iter_headers(log) if start <= position]
    return found[-1]


def _look_up(log: Log, number: int) -> OffsetAndTimestamp | None:
    return log.offset_for_timestamp(WALL_MS + number)
