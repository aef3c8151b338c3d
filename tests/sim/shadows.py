"""Reads replicas' logs off the simulated disk into the ghost state.

It reads the segment files themselves, not through the product's log, so that what is checked is
what a restart would find. Only what grew is read, unless something was cut or replaced.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from pylog.errors import CorruptMessage
from pylog.model import BrokerId, TopicId
from pylog.records.batch import (
    HEADER_SIZE,
    MAGIC,
    MAGIC_OFFSET,
    BatchHeader,
    crc_matches,
    iter_headers,
)
from pylog_broker.replication.partition_state import PartitionState
from pylog_broker.storage.directories.partition_directories import PARTITION_METADATA
from pylog_broker.storage.log.log import Log
from tests.sim.contents import Contents
from tests.sim.disk import LOG_SUFFIX, Directory, Disk, Inode
from tests.sim.ghost import Batch, PartitionGhost, PartitionKey, Shadow
from tests.sim.violation import Violation


class _Found(NamedTuple):
    """A batch in a file. `gone`: offsets of its records that compaction took."""

    batch: Batch
    size: int
    gone: frozenset[int]
    is_behind_loss: bool  # what should stand before it cannot be read


class _Whole(NamedTuple):
    """The batches in a segment's file, from its beginning on, as long as it has this version."""

    key: PartitionKey
    version: int
    may_have_lost: bool
    found: list[_Found]
    position: int  # behind the last one


@dataclass(slots=True)
class _Reading:
    """The position up to which one replica's files have been read."""

    directory: str
    cuts: int = -1
    segment: str = ""
    position: int = 0
    looked_at: tuple[Directory, int, Inode, int] | None = None  # with their versions
    marks: tuple[object, ...] = ()
    # a sync failed since somebody made or copied it: pages may be gone between others
    may_have_lost: bool = False
    moved: bool = False  # to that directory, by hand, and not used there as yet
    step_end: int = 0  # the log's end after the last whole step
    # at the last power loss: what was synced, by base offset, and how far recovery must come
    synced: dict[int, Batch] = field(default_factory=dict)
    must_reach: int = 0
    is_open: bool = False  # and recovered, since it was last to be distrusted


class Shadows:
    """All partitions' ghost states, fed from the disks."""

    def __init__(
        self, sometimes: Counter[str], note: Callable[..., None], now_ms: Callable[[], int]
    ) -> None:
        self.ghosts: dict[PartitionKey, PartitionGhost] = {}
        self.contents = Contents()
        self._now_ms = now_ms
        self._sometimes = sometimes
        self._note = note
        self.deleted: set[TopicId] = set()
        self._taken: set[tuple[BrokerId, PartitionKey]] = set()  # by a move, once at least
        self._readings: dict[tuple[BrokerId, PartitionKey], _Reading] = {}
        # a sync failed, and the log was not opened since: as many cuts it had then
        self._dropped: dict[tuple[BrokerId, PartitionKey], int] = {}
        self._closed: set[tuple[BrokerId, PartitionKey]] = set()  # could not be opened

    def ghost(self, topic_id: TopicId, partition: int) -> PartitionGhost:
        """The ghost state of one partition."""
        key = (topic_id, partition)
        found = self.ghosts.get(key)
        if found is None:
            found = self.ghosts[key] = PartitionGhost(key, self.contents)
        return found

    def topic_deleted(self, topic_id: TopicId) -> None:
        """The controller keeps no ISR of it any more, so nobody has to hold its records; a leader
        that has not heard of it goes on for a while.
        """
        self.deleted.add(topic_id)
        for ghost in self.ghosts.values():
            if ghost.key[0] == topic_id:
                ghost.members = ()

    def taken_away(self, broker: BrokerId, key: PartitionKey) -> None:
        """The metadata have no replica on the broker any more: it will delete its log."""
        self._sometimes["replica taken away"] += 1
        self._taken.add((broker, key))

    def log_deleted(self, broker: BrokerId, path: str, disk: Disk) -> None:
        """The broker has renamed a log that it will delete; the next one begins anew."""
        topic_id = _topic_id_in(disk, path)
        for owner, key in list(self._readings):
            if owner == broker and key[0] == topic_id and (owner, key) in self._taken:
                home = self._readings[owner, key].directory
                if _topic_id_in(disk, home) != topic_id:
                    self._forget(broker, key)

    def _forget(self, broker: BrokerId, key: PartitionKey) -> None:
        del self._readings[broker, key]
        self._dropped.pop((broker, key), None)
        self._closed.discard((broker, key))
        self.ghosts[key].shadows[broker] = Shadow(begun_anew=True)

    def has_seen(self, broker: BrokerId, topic_id: TopicId, number: int) -> bool:
        """Whether the broker has ever made its replica."""
        return (broker, (topic_id, number)) in self._readings

    def observe(
        self,
        broker: BrokerId,
        state: PartitionState,
        log: Log,
        disk: Disk,
        min_insync: int,
        is_placed_anew: Callable[[Log], bool],
    ) -> None:
        """Bring one replica's shadow up to date and check it.

        `is_placed_anew`: whether the metadata count what there was as lost, and have the replica
        where this log is.
        """
        directory = log.directory
        key = (state.topic_id, state.topic_partition.partition)
        reading = self._readings.get((broker, key))
        if reading is None:
            reading = self._readings[broker, key] = _Reading(directory)
            if (broker, key) in self._taken:
                self._sometimes["replica made again"] += 1
        if reading.moved and reading.directory != directory:
            # The disk that it was moved to failed before the broker saw it there.
            self.wiped(broker, reading.directory)
            reading = self._readings[broker, key] = _Reading(directory)
        reading.moved = False
        if reading.directory != directory and is_placed_anew(log):
            # Files in the other directory, maybe on a disk that is away, count for nothing.
            self._sometimes["replica placed anew"] += 1
            self.wiped(broker, reading.directory)
            self.ghosts[key].shadows[broker] = Shadow()
            reading = self._readings[broker, key] = _Reading(directory)
        if reading.directory != directory:
            raise Violation("D", f"broker {broker} uses {directory} for {reading.directory}")
        ghost = self.ghost(*key)
        dropped = self._dropped.get((broker, key))
        if dropped is None:
            self._read(broker, ghost, reading, disk)
        elif dropped == disk.cuts[reading.directory]:
            self._read_more(broker, ghost, reading, disk)  # to its broker it is whole as yet
        else:
            return
        ghost.shadow(broker).written_start = log.bounds.written_start
        reading.step_end = state.log_end_offset
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
        if log.is_settled or state.log_end_offset == ghost.shadow(broker).end:
            ghost.observe(broker, state, self._now_ms(), min_insync, is_settled=log.is_settled)
        else:
            self._sometimes["files behind their log"] += 1
            ghost.observe_unsettled(broker, state)

    def _read(self, broker: BrokerId, ghost: PartitionGhost, reading: _Reading, disk: Disk) -> None:
        cuts = disk.cuts.get(reading.directory, 0)
        if cuts != reading.cuts:
            holes = dict(ghost.shadow(broker).holes)
            first, batches, end = self._read_all(broker, ghost, reading, disk)
            if reading.cuts >= 0:
                self._sometimes["log cut"] += 1
            reading.cuts = cuts
            ghost.replace(broker, first, batches, end)
            shadow = ghost.shadow(broker)
            shadow.has_gaps = shadow.has_gaps or shadow.holes != holes
            return
        self._read_more(broker, ghost, reading, disk)

    def _read_more(
        self, broker: BrokerId, ghost: PartitionGhost, reading: _Reading, disk: Disk
    ) -> None:
        directory = disk.find(reading.directory)
        if not isinstance(directory, Directory):
            return
        if reading.looked_at is not None:
            home, names, tail, bytes_ = reading.looked_at
            if home is directory and names == directory.version:
                if bytes_ != tail.version:
                    ghost.grow(broker, self._batches(broker, ghost, tail, reading))
                    reading.looked_at = (home, names, tail, tail.version)
                return
        for name in sorted(directory.entries):
            if name.endswith(LOG_SUFFIX) and name >= reading.segment:
                node = directory.entries[name]
                assert isinstance(node, Inode)
                shadow = ghost.shadow(broker)
                shadow.end = max(shadow.end, _base(name))
                if name != reading.segment:
                    if reading.segment and _holds_nothing(node):
                        reading.looked_at = None  # the one before may yet grow
                        continue
                    reading.segment, reading.position = name, 0
                ghost.grow(broker, self._batches(broker, ghost, node, reading))
                reading.looked_at = (directory, directory.version, node, node.version)

    def _read_all(
        self, broker: BrokerId, ghost: PartitionGhost, reading: _Reading, disk: Disk
    ) -> tuple[int, list[Batch], int]:
        """(first offset, batches, end) of the replica's log files."""
        directory = disk.find(reading.directory)
        reading.segment, reading.position, reading.looked_at = "", 0, None
        shadow = ghost.shadow(broker)
        shadow.holes.clear()
        shadow.behind_loss.clear()
        batches: list[Batch] = []
        first = end = 0
        if not isinstance(directory, Directory):
            return first, batches, end
        names = sorted(name for name in directory.entries if name.endswith(LOG_SUFFIX))
        newest = ("", 0)
        is_behind_loss = False
        for index, name in enumerate(names):
            node = directory.entries[name]
            assert isinstance(node, Inode)
            reading.segment, reading.position = name, 0
            taken = self._take(shadow, self._whole(ghost, node, reading))
            if taken and reading.may_have_lost:
                jumps = bool(batches) and taken[0].base > batches[-1].last + 1
                if is_behind_loss or (jumps and not ghost.may_compact):
                    shadow.behind_loss.add(taken[0].base)
                is_behind_loss = False
            is_behind_loss = is_behind_loss or reading.position < len(node.data)
            batches += taken
            if index == 0:
                first = _base(name)
                if batches and not ghost.may_compact and not reading.may_have_lost:
                    first = batches[0].base
            end = max(end, _base(name), batches[-1].last + 1 if batches else 0)
            if index == 0 or not _holds_nothing(node):
                newest = (name, reading.position)
        reading.segment, reading.position = newest  # which may yet grow
        return first, batches, end

    def _whole(self, ghost: PartitionGhost, node: Inode, reading: _Reading) -> list[_Found]:
        """All batches of a file, each CRC checked. One that is as it was when it was read like that
        is not read again: full segments stay as they are.
        """
        kept = node.kept
        state = (ghost.key, node.version, reading.may_have_lost)
        if not isinstance(kept, _Whole) or kept[:3] != state:
            found = self._read_file(ghost, node.data, reading, check=True)
            kept = node.kept = _Whole(*state, found, reading.position)
        reading.position = kept.position
        return kept.found

    def _batches(
        self, broker: BrokerId, ghost: PartitionGhost, node: Inode, reading: _Reading
    ) -> list[Batch]:
        """The whole batches from `reading.position` on, which moves behind them."""
        found = self._read_file(ghost, node.data, reading, check=False)
        return self._take(ghost.shadow(broker), found)

    def _take(self, shadow: Shadow, found: list[_Found]) -> list[Batch]:
        for batch, size, gone, is_behind_loss in found:
            shadow.sizes[batch.base] = size
            if gone:
                shadow.holes[batch.base] = gone
                shadow.has_gaps = True
            if is_behind_loss:
                shadow.behind_loss.add(batch.base)
        return [each.batch for each in found]

    def _read_file(
        self, ghost: PartitionGhost, data: bytearray, reading: _Reading, *, check: bool
    ) -> list[_Found]:
        """The whole batches from `reading.position` on, with what `_Whole` says of them.

        A preallocated file goes on with zeros, before them maybe with a batch that a kill has torn.
        Such a one may be just as long as the file: then it ends in more zeros than the one of a
        whole batch, its last record's count of headers.
        """
        found: list[_Found] = []
        stop = len(data.rstrip(b"\0"))
        least = _base(reading.segment) if reading.segment else 0
        is_behind_loss = False
        with memoryview(data) as view:
            while reading.position < stop:
                position = reading.position
                header = _header_at(view, position)
                if header is not None and header.base_offset < least and reading.may_have_lost:
                    header = None  # the offset, which no CRC covers, is what it has lost
                if header is not None and (check or stop < len(data)):
                    end = position + header.size
                    if not crc_matches(view, position, header):
                        is_torn = stop <= end < len(data) or stop < end - 1
                        if not is_torn and not reading.may_have_lost:
                            what = f"bad CRC at {position}: {header}"
                            raise Violation("I15", f"{reading.directory}: {what}")
                        header = None
                if header is None:
                    if not reading.may_have_lost or not (check or found):
                        break  # torn
                    following = _next_whole(ghost, view, position, stop, least)
                    if following is None:
                        break
                    reading.position, is_behind_loss = following, True
                    continue
                end = position + header.size
                batch, gone = ghost.identify(header, bytes(view[position:end]))
                found.append(_Found(batch, header.size, gone, is_behind_loss))
                reading.position, is_behind_loss, least = end, False, batch.last + 1
        return found

    # ---- crashes

    def _readings_of(self, broker: BrokerId, disk: Disk) -> list[tuple[PartitionGhost, _Reading]]:
        """The readings of the replicas that the broker's directory still holds."""
        found = []
        for (owner, key), reading in list(self._readings.items()):
            if owner != broker:
                continue
            if _topic_id_in(disk, reading.directory) == key[0]:
                found.append((self.ghosts[key], reading))
            elif (owner, key) in self._taken and key[0] not in self.deleted:
                self._forget(owner, key)
            elif key[0] not in self.deleted:
                raise Violation("I15", f"broker {broker} has lost {reading.directory}")
            else:
                del self._readings[owner, key]  # deleted, or another topic's by now
        return found

    def refresh(self, broker: BrokerId, disk: Disk) -> None:
        """Take in what was written outside of a whole step: by a pass of the cleaner, or before a
        step was cut short.
        """
        for ghost, reading in self._readings_of(broker, disk):
            if ghost.shadow(broker).intact:
                self._read(broker, ghost, reading, disk)
            elif reading.is_open and reading.cuts == disk.cuts.get(reading.directory, 0):
                # Not trusted as yet, but its tail is what the broker has written since.
                self._read_more(broker, ghost, reading, disk)

    def has_read(self, broker: BrokerId, key: PartitionKey, disk: Disk) -> bool:
        """Whether the shadow of a replica has all that its files have. A cleaner goes on in a log
        that is not trusted yet.
        """
        reading = self._readings.get((broker, key))
        return reading is not None and reading.cuts == disk.cuts.get(reading.directory, 0)

    def before_power_loss(self, broker: BrokerId, disk: Disk) -> None:
        """Note what is synced, and that the broker's logs are not to be trusted for a while."""
        for ghost, reading in self._readings_of(broker, disk):
            self._distrust(broker, ghost, reading, disk)

    def before_failure(self, broker: BrokerId, directory: str, disk: Disk, *, drops: bool) -> None:
        """The same for one log, whose next access fails. `drops`: what was written may be gone; the
        pool's thread knows, the broker's loop a moment later.
        """
        for ghost, reading in self._readings_of(broker, disk):
            if reading.directory == directory:
                if ghost.shadow(broker).intact:  # else it may be opened just now, its tail torn
                    self._read(broker, ghost, reading, disk)
                self._distrust(broker, ghost, reading, disk)
                if drops:
                    reading.may_have_lost = True
                    self._dropped[broker, ghost.key] = disk.cuts.get(directory, 0) + 1

    def _distrust(
        self, broker: BrokerId, ghost: PartitionGhost, reading: _Reading, disk: Disk
    ) -> None:
        shadow = ghost.shadow(broker)
        shadow.intact = reading.is_open = False
        synced = _synced_batches(disk, reading.directory, ghost)
        reading.synced = {batch.base: batch for batch in synced}
        reading.must_reach = min(shadow.start, reading.step_end)
        for batch in shadow.batches:
            if reading.synced.get(batch.base) != batch:
                break
            reading.must_reach = batch.last + 1

    def recovered(
        self, broker: BrokerId, disk: Disk, opened: Collection[str], away: Collection[str]
    ) -> None:
        """I15: the broker opened its logs again; what it found must be what was there before.

        `opened`: the directories of logs. A log whose disk failed may be beyond opening; what is
        in a log directory that is `away` is as it was.
        """
        for ghost, reading in self._readings_of(broker, disk):
            if any(reading.directory.startswith(f"{path}/") for path in away):
                self._closed.add((broker, ghost.key))
                continue
            self._dropped.pop((broker, ghost.key), None)
            if reading.directory not in opened:
                if ghost.shadow(broker).intact:
                    raise Violation("I15", f"broker {broker} cannot open {reading.directory}")
                self._sometimes["log beyond opening"] += 1
                self._closed.add((broker, ghost.key))
                continue
            self._closed.discard((broker, ghost.key))
            self._check_recovered(broker, ghost, reading, disk)
            self._read(broker, ghost, reading, disk)
            reading.is_open = True

    def _check_recovered(
        self, broker: BrokerId, ghost: PartitionGhost, reading: _Reading, disk: Disk
    ) -> None:
        shadow = ghost.shadow(broker)
        begin = shadow.start
        # A step that was cut short may have made an empty segment further on (the log was to begin
        # there), and died before it had noted why.
        newest = shadow.batches[-1].last + 1 if shadow.batches else 0
        reach = min(shadow.end, max(newest, reading.step_end))
        written = {batch.base: batch for batch in shadow.batches}
        first, found, end = self._read_all(broker, ghost, reading, disk)
        for batch in found:
            if written.get(batch.base) == batch or reading.synced.get(batch.base) == batch:
                continue
            if ghost.committed_at(batch.base) == batch and (
                batch.base < begin or ghost.may_compact
            ):
                continue  # what retention or the cleaner had taken, but not durably
            raise Violation(
                "I15",
                f"broker {broker} recovered {batch}; written there: {written.get(batch.base)}",
            )
        # ... nor further than it reached: it may have been truncated since the power was lost.
        must_reach = reach if shadow.intact else min(reading.must_reach, reach)
        if first > max(begin, ghost.deleted_to):
            raise Violation(
                "I15",
                f"broker {broker} recovered {first} to {end}, the log began at {begin}",
            )
        if end < must_reach:
            raise Violation(
                "I15", f"broker {broker} recovered {first} to {end}, must reach {must_reach}"
            )
        for before, after in itertools.pairwise(found):
            is_lost = after.base in shadow.behind_loss
            if after.base != before.last + 1 and not ghost.may_compact and not is_lost:
                raise Violation("I15", f"broker {broker} recovered {before} and then {after}")
        if shadow.behind_loss:
            self._sometimes["pages lost between others"] += 1
            self._check_synced(broker, shadow, reading, found)
        if end < reach:
            self._sometimes["tail lost in recovery"] += 1
        shadow.has_gaps = shadow.has_gaps or ghost.may_compact
        reading.synced = {}
        reading.cuts = -2  # read it anew

    def _check_synced(
        self, broker: BrokerId, shadow: Shadow, reading: _Reading, found: list[Batch]
    ) -> None:
        """A failed sync takes nothing of what earlier ones had written."""
        there = {batch.base for batch in found}
        for batch in reading.synced.values():
            if shadow.start <= batch.base < found[-1].base and batch.base not in there:
                raise Violation("I15", f"broker {broker} lost {batch}, which was synced")

    def wiped(self, broker: BrokerId, directory: str) -> None:
        """Somebody removed a replica's files."""
        for (owner, key), reading in list(self._readings.items()):
            if owner == broker and reading.directory == directory:
                del self._readings[owner, key]
                self._closed.discard((owner, key))
                self._dropped.pop((owner, key), None)
                self.ghosts[key].shadows[broker] = Shadow(intact=False)

    def moved(self, broker: BrokerId, source: str, target: str) -> None:
        """Somebody moved a replica as it was, but for its log start: that is noted in a file of
        the log directory, and the replica hears it from the leader before it counts again.
        """
        for (owner, key), reading in self._readings.items():
            if owner == broker and reading.directory == source:
                reading.directory, reading.cuts, reading.moved = target, -2, True
                self.ghosts[key].shadow(broker).log_start = 0

    def life_ended(self, broker: BrokerId) -> None:
        """A broker died. A log start that moved and was not durable yet may be forgotten."""
        found = (ghost.shadows.get(broker) for ghost in self.ghosts.values())
        for shadow in [each for each in found if each is not None]:
            shadow.log_start = min(shadow.log_start, shadow.written_start)

    def trusted_again(self, broker: BrokerId) -> None:
        """The controller took the broker's new registration: its logs count again."""
        for key, ghost in self.ghosts.items():
            if (broker, key) not in self._closed:
                ghost.shadow(broker).intact = True


def _header_at(view: memoryview, position: int) -> BatchHeader | None:
    try:
        return next((header for _, header in iter_headers(view, position)), None)
    except CorruptMessage:
        return None


def _next_whole(
    ghost: PartitionGhost, view: memoryview, position: int, stop: int, least: int
) -> int | None:
    """The position of the next batch that some producer has made, behind bytes that a failed sync
    took; of offsets from `least` on.
    """
    for at in range(position + 1, stop - HEADER_SIZE + 1):
        if view[at + MAGIC_OFFSET] == MAGIC:
            header = _header_at(view, at)
            if (
                header is not None
                and header.base_offset >= least
                and crc_matches(view, at, header)
                and ghost.knows(header, view[at : at + header.size])
            ):
                return at
    return None


def _holds_nothing(node: Inode) -> bool:
    """Whether nothing was written to a log file, but for the zeros of a preallocated one: it is the
    newest segment, or a roll that was given up has left it.
    """
    return not any(node.data)


def _topic_id_in(disk: Disk, path: str) -> str:
    """The topic id of the partition in the directory, by its own file."""
    node = disk.find(f"{path}/{PARTITION_METADATA}")
    if not isinstance(node, Inode):
        return ""
    return node.data.decode().partition("topic_id: ")[2].strip()


def _base(name: str) -> int:
    return int(name.removesuffix(LOG_SUFFIX))


def _synced_batches(disk: Disk, path: str, ghost: PartitionGhost) -> list[Batch]:
    """The batches of a replica's log that would be left if nothing unsynced survived."""
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
                end = position + header.size
                found.append(ghost.identify(header, data[position:end])[0])
                position = end
        except CorruptMessage:
            return found
        if position != len(data):
            return found
    return found
