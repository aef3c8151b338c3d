"""Reads replicas' logs off the simulated disk into the ghost state.

It reads the segment files themselves, not through the product's log, so that what is checked is
what a restart would find. Only what grew is read, unless something was cut or replaced.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from broker.replication.messages import PartitionState
from pylog.errors import CorruptMessage
from pylog.model import BrokerId, TopicId
from pylog.records.batch import BatchHeader, crc_matches, iter_headers
from tests.sim.disk import LOG_SUFFIX, Directory, Disk, Inode
from tests.sim.ghost import Batch, PartitionGhost, PartitionKey, Violation


@dataclass(slots=True)
class _Reading:
    """How far one replica's files have been read."""

    directory: str
    cuts: int = -1
    segment: str = ""
    position: int = 0
    marks: tuple[object, ...] = ()
    # at the last power loss: what was synced, by base offset, and how far recovery must come
    synced: dict[int, Batch] = field(default_factory=dict)
    must_reach: int = 0


class Shadows:
    """All partitions' ghost states, fed from the disks."""

    def __init__(self, sometimes: Counter[str], note: Callable[..., None]) -> None:
        self.ghosts: dict[PartitionKey, PartitionGhost] = {}
        self._sometimes = sometimes
        self._note = note
        self._readings: dict[tuple[BrokerId, PartitionKey], _Reading] = {}

    def ghost(self, topic_id: TopicId, partition: int) -> PartitionGhost:
        """The ghost state of one partition."""
        key = (topic_id, partition)
        found = self.ghosts.get(key)
        if found is None:
            found = self.ghosts[key] = PartitionGhost(key)
        return found

    def observe(self, broker: BrokerId, state: PartitionState, root: str, disk: Disk) -> None:
        """Bring one replica's shadow up to date and check it."""
        key = (state.topic_id, state.topic_partition.partition)
        reading = self._readings.get((broker, key))
        if reading is None:
            reading = _Reading(f"{root}/{state.topic_partition}")
            self._readings[broker, key] = reading
        ghost = self.ghost(*key)
        self._read(broker, ghost, reading, disk)
        marks = (
            state.leader,
            state.leader_epoch,
            state.log_start_offset,
            state.high_watermark,
            state.log_end_offset,
            state.isr,
        )
        if marks != reading.marks:
            reading.marks = marks
            self._note(
                "state",
                f"broker {broker} partition {key[1]} leader {marks[0]} epoch {marks[1]} "
                f"start {marks[2]} hw {marks[3]} end {marks[4]} isr {marks[5]}",
            )
        ghost.observe(broker, state)

    def _read(self, broker: BrokerId, ghost: PartitionGhost, reading: _Reading, disk: Disk) -> None:
        cuts = disk.cuts.get(reading.directory, 0)
        if cuts != reading.cuts:
            first, batches, end = self._read_all(reading, disk)
            if reading.cuts >= 0:
                self._sometimes["log cut"] += 1
            reading.cuts = cuts
            ghost.replace(broker, first, batches, end)
            return
        self._read_more(broker, ghost, reading, disk)

    def _read_more(
        self, broker: BrokerId, ghost: PartitionGhost, reading: _Reading, disk: Disk
    ) -> None:
        directory = disk.find(reading.directory)
        if not isinstance(directory, Directory):
            return
        newest = max((n for n in directory.entries if n.endswith(LOG_SUFFIX)), default="")
        if newest == reading.segment:
            node = directory.entries.get(newest)
            if isinstance(node, Inode) and len(node.data) > reading.position:
                ghost.grow(broker, _batches(node.data, reading))
            return
        for name in sorted(directory.entries):
            if name.endswith(LOG_SUFFIX) and name >= reading.segment:
                node = directory.entries[name]
                assert isinstance(node, Inode)
                if name != reading.segment:
                    reading.segment, reading.position = name, 0
                ghost.grow(broker, _batches(node.data, reading))
                shadow = ghost.shadow(broker)
                shadow.end = max(shadow.end, _base(name))

    def _read_all(self, reading: _Reading, disk: Disk) -> tuple[int, list[Batch], int]:
        """(first offset, batches, end) of the replica's log files."""
        directory = disk.find(reading.directory)
        reading.segment, reading.position = "", 0
        batches: list[Batch] = []
        first = end = 0
        if not isinstance(directory, Directory):
            return first, batches, end
        names = sorted(name for name in directory.entries if name.endswith(LOG_SUFFIX))
        for index, name in enumerate(names):
            node = directory.entries[name]
            assert isinstance(node, Inode)
            reading.segment, reading.position = name, 0
            batches.extend(_batches(node.data, reading, check=True))
            if index == 0:
                first = batches[0].base if batches else _base(name)
            end = max(end, _base(name), batches[-1].last + 1 if batches else 0)
        return first, batches, end

    # ---- crashes

    def before_kill(self, broker: BrokerId, disk: Disk) -> None:
        """Take in what the last step wrote before it was cut short."""
        for (owner, key), reading in self._readings.items():
            if owner == broker:
                self._read(broker, self.ghosts[key], reading, disk)

    def before_power_loss(self, broker: BrokerId, disk: Disk) -> None:
        """Note what is synced, and that the broker's logs are not to be trusted for a while."""
        for (owner, key), reading in self._readings.items():
            if owner != broker:
                continue
            shadow = self.ghosts[key].shadow(broker)
            shadow.intact = False
            synced = _synced_batches(disk, reading.directory)
            reading.synced = {batch.base: batch for batch in synced}
            reading.must_reach = shadow.start
            written = {batch.base: batch for batch in shadow.batches}
            for batch in synced:
                if written.get(batch.base) != batch or batch.base > reading.must_reach:
                    break
                reading.must_reach = batch.last + 1

    def recovered(self, broker: BrokerId, disk: Disk) -> None:
        """I15: the broker opened its logs again; what it found must be what was there before."""
        for (owner, key), reading in self._readings.items():
            if owner == broker:
                self._check_recovered(broker, self.ghosts[key], reading, disk)
                self._read(broker, self.ghosts[key], reading, disk)

    def _check_recovered(
        self, broker: BrokerId, ghost: PartitionGhost, reading: _Reading, disk: Disk
    ) -> None:
        shadow = ghost.shadow(broker)
        first, found, end = self._read_all(reading, disk)
        written = {batch.base: batch for batch in shadow.batches}
        for batch in found:
            if written.get(batch.base) != batch and reading.synced.get(batch.base) != batch:
                raise Violation(
                    "I15",
                    f"broker {broker} recovered {batch}; written there: {written.get(batch.base)}",
                )
        must_reach = reading.must_reach if not shadow.intact else shadow.end
        if first > shadow.start:
            raise Violation(
                "I15",
                f"broker {broker} recovered {first} to {end}, the log began at {shadow.start}",
            )
        if end < must_reach:
            raise Violation(
                "I15", f"broker {broker} recovered {first} to {end}, must reach {must_reach}"
            )
        for before, after in itertools.pairwise(found):
            if after.base != before.last + 1:
                raise Violation("I15", f"broker {broker} recovered {before} and then {after}")
        if end < shadow.end:
            self._sometimes["tail lost in recovery"] += 1
        reading.synced = {}
        reading.cuts = -2  # read it anew

    def trusted_again(self, broker: BrokerId) -> None:
        """The controller took the broker's new registration: its logs count again."""
        for ghost in self.ghosts.values():
            ghost.shadow(broker).intact = True


def _base(name: str) -> int:
    return int(name.removesuffix(LOG_SUFFIX))


def _batches(data: bytearray, reading: _Reading, *, check: bool = False) -> list[Batch]:
    """The whole batches from `reading.position` on, which moves behind them.

    A preallocated file goes on with zeros, before them maybe with a batch that a kill has torn.
    """
    found = []
    stop = len(data.rstrip(b"\0"))
    with memoryview(data) as view:
        while reading.position < stop:
            position = reading.position
            try:
                header = next(iter_headers(view, position), (0, None))[1]
            except CorruptMessage:
                header = None
            if header is None:
                break  # torn
            end = position + header.size
            if (check or stop < len(data)) and not crc_matches(view, position, header):
                if stop <= end < len(data):
                    break
                raise Violation("I15", f"{reading.directory}: bad CRC at {position}: {header}")
            found.append(_batch(header))
            reading.position = end
    return found


def _batch(header: BatchHeader) -> Batch:
    return Batch(
        header.base_offset,
        header.last_offset,
        header.partition_leader_epoch,
        header.crc,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
    )


def _synced_batches(disk: Disk, path: str) -> list[Batch]:
    """What of a replica's log would be left if nothing unsynced survived."""
    parent = disk.find(path)
    if not isinstance(parent, Directory):
        return []
    found: list[Batch] = []
    for name in sorted(parent.durable):
        node = parent.durable[name]
        if not name.endswith(LOG_SUFFIX) or not isinstance(node, Inode):
            continue
        data = bytes(node.synced)
        position = 0
        try:
            for position, header in iter_headers(data):
                if not crc_matches(data, position, header):
                    break
                found.append(_batch(header))
                position += header.size
        except CorruptMessage:
            return found
        if position != len(data):
            return found
    return found
