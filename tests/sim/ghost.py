"""The invariants of all replicas together, checked after every step of a broker.

The ghost state is the simulator's own: `committed` is what some leader ever called committed, in
order; a `Shadow` is what a replica's log holds. A batch stands for its records: producers never
send the same bytes twice, so base offset, leader epoch and fingerprint identify it. Checks are
incremental: a step costs what it changed. The numbers are those of ARCHITECTURE's invariants.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from pylog.model import BrokerId, TopicId
from pylog.records.batch import BatchHeader, Buffer
from pylog_broker.metadata.records import PartitionRecord
from pylog_broker.replication.partition_state import PartitionState
from tests.sim.contents import ANYWHERE, Contents, fingerprint, left_of
from tests.sim.partition_transactions import PartitionTransactions
from tests.sim.violation import Violation

PartitionKey = tuple[TopicId, int]


class Batch(NamedTuple):
    """A record batch in a log."""

    base: int
    last: int
    epoch: int
    mark: int  # its fingerprint
    producer_id: int
    producer_epoch: int
    sequence: int


class SequenceBook:
    """I11: per producer, the sequences of what is committed have no gap and no repeat."""

    def __init__(self) -> None:
        self._next: dict[tuple[int, int], int] = {}
        self._last: dict[tuple[int, int], int] = {}
        self.is_lossy = False  # what was committed may be gone, and its producers unknown
        self.forgotten: set[int] = set()
        """Producers whose records were all deleted before a replica heard of them (KIP-360)."""

    def add(self, batch: Batch, deleted_to: int) -> None:
        """Note a committed batch; records up to `deleted_to` may be gone."""
        if batch.producer_id < 0 or batch.sequence < 0:  # of no producer, or of a coordinator
            return
        producer = (batch.producer_id, batch.producer_epoch)
        wanted = self._next.get(producer, 0)
        if batch.sequence != wanted:
            known = producer not in self._last or self._last[producer] >= deleted_to
            if known and not self.is_lossy:
                raise Violation("I11", f"sequence {batch.sequence} instead of {wanted}: {batch}")
            self.forgotten.add(batch.producer_id)
        self._next[producer] = (batch.sequence + batch.last - batch.base + 1) % 2**31
        self._last[producer] = batch.last


@dataclass(slots=True)
class Shadow:
    """One replica's log, batch by batch from `start` on."""

    batches: list[Batch] = field(default_factory=list)
    start: int = 0
    end: int = 0
    high_watermark: int = 0
    log_start: int = 0  # as last seen there
    written_start: int = 0  # what of it is durable, so that another life finds it
    holes: dict[int, frozenset[int]] = field(default_factory=dict)  # base -> offsets that are gone
    # batches by base, before which others are missing that a failed sync took
    behind_loss: set[int] = field(default_factory=set)
    sizes: dict[int, int] = field(default_factory=dict)  # base -> bytes of the batch
    leads: int = -1  # the epoch that it acts as leader in
    isr: tuple[BrokerId, ...] = ()
    min_insync: int = 1
    has_gaps: bool = False  # since the last look: batches are missing, or records of batches
    epochs: tuple[int, int] = (-1, -1)  # of the leader and of the partition, as last seen there
    agreed: int = 0  # number of leading batches that are known to equal `committed`
    agrees: bool = True  # False from an unclean election until it has cut what nobody has now
    loaded_end: int = 0  # the log's end when its files were last read, by a start or after a cut
    last_stable: int = 0  # as its broker tells readers of committed records
    begun_anew: bool = False  # a move took an earlier log away, whose answers may still come
    intact: bool = True  # False from a power loss until the controller took the new registration

    def agreed_end(self) -> int:
        """The offset up to which the log equals `committed`."""
        return self.batches[self.agreed - 1].last + 1 if self.agreed else self.start


class PartitionGhost:
    """One partition over all its replicas."""

    def __init__(self, key: PartitionKey, contents: Contents) -> None:
        self.key = key
        self.contents = contents
        self.written: dict[tuple[int, int], Batch] = {}  # by base and epoch, as first seen
        self.committed: list[Batch] = []
        self.committed_end = 0
        self.deleted_to = 0  # log starts may move up to here
        self.acknowledged_start = 0  # a DeleteRecords up to here was answered with "ok"
        self.listed_end = 0  # the latest offset that a leader ever told
        self.unclean_epoch = -1  # of the last leader that may lack what was committed
        self.may_compact = False  # its policy says, or once said, compact
        self.delete_retention_ms = 0
        self.shadows: dict[BrokerId, Shadow] = {}
        self.leader_of: dict[int, BrokerId] = {}
        self.newest_epoch = -1
        self.record: PartitionRecord | None = None  # as the controller last published it
        self.members: tuple[BrokerId, ...] = ()  # its ISR and ELR
        self.sequences = SequenceBook()
        self.transactions = PartitionTransactions(key)
        self._links: dict[tuple[int, int], tuple[int, int]] = {}  # what each one follows
        self._bases: list[int] = []
        self._newest: dict[bytes | None, int] = {}  # the last committed offset of each key
        self._tombstones: dict[int, int] = {}  # committed, and when that was
        self._believed_ms = 0  # the latest time by which a cleaner could judge them
        self._behind_ms = 0  # how far the clock of a cleaner was behind when it dated them

    # ---- logs

    def identify(self, header: BatchHeader, raw: bytes) -> tuple[Batch, frozenset[int]]:
        """The batch as its producer wrote it, and the offsets of its records that are gone."""
        place = (header.base_offset, header.partition_leader_epoch)
        mark = fingerprint(raw)
        found = Batch(
            header.base_offset,
            header.last_offset,
            header.partition_leader_epoch,
            mark,
            header.producer_id,
            header.producer_epoch,
            header.base_sequence,
        )
        original = self.contents.get(mark)
        if original is not None:
            if original.home not in (self.key, ANYWHERE):
                raise Violation("C", f"{self.key} holds {found} of {original.home}: {original}")
            written = self.written.setdefault(place, found)
            return written if written == found else found, frozenset()
        written = self.written.get(place)
        if written is None or not self.may_compact or found != written._replace(mark=mark):
            raise Violation("I3", f"{self.key}: nobody wrote {found}; there was {written}")
        left = left_of(self.contents.of(written.mark), written.base, raw)
        if isinstance(left, str):
            raise Violation("I3", f"{self.key}: {found} has {left}")
        return written, frozenset(range(written.base, written.last + 1)) - left

    def knows(self, header: BatchHeader, raw: Buffer) -> bool:
        """Whether a producer has made that batch, or a cleaner left it of one that is known."""
        place = (header.base_offset, header.partition_leader_epoch)
        return self.contents.get(fingerprint(raw)) is not None or place in self.written

    def shadow(self, broker: BrokerId) -> Shadow:
        """The contents of `broker`'s log of this partition; empty at first."""
        return self.shadows.setdefault(broker, Shadow())

    def grow(self, broker: BrokerId, batches: Iterable[Batch]) -> None:
        """`broker` appended."""
        shadow = self.shadow(broker)
        for batch in batches:
            if batch.base < shadow.end:
                raise Violation("I3", f"{self._name(broker)}: offsets go back at {batch}")
            if batch.base > shadow.end:
                if not self.may_compact and batch.base not in shadow.behind_loss:
                    raise Violation("I3", f"{self._name(broker)}: {batch} follows {shadow.end}")
                shadow.has_gaps = True
            self._link(broker, shadow, batch)
            shadow.batches.append(batch)
            shadow.end = batch.last + 1

    def replace(self, broker: BrokerId, start: int, batches: list[Batch], end: int) -> None:
        """`broker`'s log was read anew, after a cut or a restart."""
        shadow = self.shadow(broker)
        same = 0
        if shadow.start == start:
            for old, new in zip(shadow.batches, batches, strict=False):
                if old != new:
                    break
                same += 1
        del shadow.batches[same:]
        shadow.agreed = min(shadow.agreed, same)
        shadow.start = start
        shadow.end = shadow.batches[-1].last + 1 if shadow.batches else start
        self.grow(broker, batches[same:])
        shadow.end = shadow.loaded_end = end

    def _link(self, broker: BrokerId, shadow: Shadow, batch: Batch) -> None:
        """I8: equal epoch at equal offset means an equal batch and an equal past."""
        if not shadow.intact:
            return
        place = (batch.base, batch.epoch)
        if self.written.setdefault(place, batch) != batch:
            there = self.written[place]
            raise Violation("I8", f"{self._name(broker)}: {batch} in the place of {there}")
        before = shadow.batches[-1] if shadow.batches else None
        if before is None:
            return
        if before.epoch > batch.epoch:
            raise Violation("I8", f"{self._name(broker)}: epoch falls from {before} to {batch}")
        if before.last + 1 != batch.base or before.last < self.deleted_to:
            return  # what lay between was compacted away, or nobody will see what lay before
        link = (before.base, before.epoch)
        known = self._links.setdefault(place, link)
        if known != link:
            raise Violation(
                "I8", f"{self._name(broker)}: {batch} after {before}; elsewhere {known}"
            )

    # ---- checks

    def observe(
        self,
        broker: BrokerId,
        state: PartitionState,
        now_ms: int,
        min_insync: int,
        *,
        is_settled: bool = True,
    ) -> None:
        """Check one replica after a step of its broker, its shadow being up to date.

        `min_insync`: as the broker knows it from the metadata. `is_settled`: no file waits to be
        renamed or cut at the log's next use, so that a gap is one.
        """
        shadow = self.shadow(broker)
        self._check_epochs(broker, state, shadow)
        start, hw, end = state.log_start_offset, state.high_watermark, state.log_end_offset
        if end != shadow.end:
            raise Violation("I15", f"{self._name(broker)}: log end {end}, batches {shadow.end}")
        if start > self.deleted_to:
            raise Violation(
                "I3",
                f"{self._name(broker)}: starts at {start}, records were deleted up to "
                f"{self.deleted_to}",
            )
        # The log of one that was made to lead may end, or part from this one, before its start.
        begins_anew = self.is_lossy and start == end
        if start < shadow.log_start and shadow.intact and not begins_anew:
            raise Violation(
                "I3", f"{self._name(broker)}: starts at {start}, before at {shadow.log_start}"
            )
        shadow.log_start = start
        if state.leader_epoch < self.unclean_epoch:
            shadow.high_watermark = hw
            return  # it has not heard that what it holds counts no more
        if not start <= hw <= end:
            raise Violation("I6", f"{self._name(broker)}: start {start} hw {hw} end {end}")
        if state.leader == broker:
            if hw > shadow.high_watermark and shadow.leads == state.leader_epoch:
                # within the step both may have changed
                insync = max(len(state.isr), len(shadow.isr))
                if insync < min(min_insync, shadow.min_insync):
                    raise Violation(
                        "R14", f"{self._name(broker)}: hw {hw} moved with {insync} in sync"
                    )
            self._acting_leader(broker, state, shadow, now_ms)
        shadow.leads = state.leader_epoch if state.leader == broker else -1
        shadow.isr, shadow.min_insync = state.isr, min_insync
        shadow.high_watermark = hw
        if shadow.behind_loss:
            shadow.agrees = False  # what is lost is; it must not count, nor lead
        shadow.agrees = shadow.agrees or self._agreed_end(shadow) >= min(hw, end)
        # Records below the start nobody will ever see, also where a batch reaches over it: an old
        # copy of a replica may have another one there.
        if shadow.agrees and start < hw and self._agreed_end(shadow) < min(hw, end):
            raise Violation(
                "I6",
                f"{self._name(broker)}: below its hw {hw} the log equals what is committed "
                f"(to {self.committed_end}) only up to {self._agreed_end(shadow)}",
            )
        if shadow.has_gaps and is_settled:
            self._check_gaps(broker, shadow, now_ms)

    def observe_unsettled(self, broker: BrokerId, state: PartitionState) -> None:
        """The same while an access that was refused for a moment has left a cut to the log's next
        use: the log answers nothing and takes nothing before that.

        Until then the files hold more than the log: what it has cut, or all that was there before
        it began anew. A crash would bring that back, so the shadow stays as the files are.
        """
        shadow = self.shadow(broker)
        self._check_epochs(broker, state, shadow)
        start, end = state.log_start_offset, state.log_end_offset
        torn = any(batch.base < end <= batch.last for batch in shadow.batches)
        if (torn or end > shadow.end) and start != end:
            raise Violation(
                "I15",
                f"{self._name(broker)}: log {start} to {end}, batches {shadow.batches}",
            )

    def _check_epochs(self, broker: BrokerId, state: PartitionState, shadow: Shadow) -> None:
        epochs = (state.leader_epoch, state.partition_epoch)
        if state.partition_epoch >= 0 and (
            epochs[0] < shadow.epochs[0] or epochs[1] < shadow.epochs[1]
        ):
            raise Violation("I2", f"{self._name(broker)}: epochs {shadow.epochs}, then {epochs}")
        shadow.epochs = epochs

    def _acting_leader(
        self, broker: BrokerId, state: PartitionState, shadow: Shadow, now_ms: int
    ) -> None:
        epoch = state.leader_epoch
        if self.leader_of.setdefault(epoch, broker) != broker:
            raise Violation("I1", f"{self._name(broker)} and {self.leader_of[epoch]} lead {epoch}")
        if epoch > self.newest_epoch:
            self.newest_epoch = epoch
        if epoch == self.newest_epoch and self._agreed_end(shadow) < self.committed_end:
            raise Violation(
                "I5",
                f"{self._name(broker)} leads epoch {epoch} and equals what is committed only up "
                f"to {self._agreed_end(shadow)} of {self.committed_end}",
            )
        if epoch == self.newest_epoch and state.log_start_offset < self.acknowledged_start:
            raise Violation(
                "I3",
                f"{self._name(broker)} leads and starts at {state.log_start_offset}; records "
                f"below {self.acknowledged_start} were deleted for good",
            )
        if state.high_watermark > self.committed_end:
            self._commit(broker, shadow, state.high_watermark, now_ms)

    def _commit(self, broker: BrokerId, shadow: Shadow, high_watermark: int, now_ms: int) -> None:
        """I3: the leader calls everything below `high_watermark` committed."""
        if self._agreed_end(shadow) < self.committed_end:
            raise Violation(
                "I3",
                f"{self._name(broker)} moves its hw to {high_watermark} over other records than "
                f"those committed from {self._agreed_end(shadow)} to {self.committed_end}",
            )
        if self.is_lossy:
            # Only its own batches count. Retention or a cleaner may have taken the first of them
            # before it led: nobody has those offsets any more, and no record is missing between.
            there = (batch.base for batch in shadow.batches if batch.last >= shadow.log_start)
            begins = min(next(there, shadow.end), high_watermark)
            self.committed_end = max(self.committed_end, begins)
        first = bisect_left(shadow.batches, self.committed_end, key=_base)
        for batch in shadow.batches[first:]:
            if batch.last >= high_watermark:
                break
            self.sequences.add(batch, self.deleted_to)
            self.committed.append(batch)
            self._bases.append(batch.base)
            self.committed_end = batch.last + 1
            self._note_keys(batch, now_ms)
            self._note_transactions(batch)
        # An unclean leader's log may lack whole batches below its mark, which a cleaner took.
        may_lack = self.is_lossy and self.may_compact
        inside = any(b.base < high_watermark <= b.last for b in shadow.batches[first:])
        if self.committed_end != high_watermark and (inside or not may_lack):
            raise Violation(
                "I3", f"{self._name(broker)}: hw {high_watermark} is not at the end of a batch"
            )
        self.check_members()

    def led_uncleanly(self, leader: BrokerId, epoch: int, *, emptied: bool) -> bool:
        """Somebody had a replica elected that may lack what was committed: from `epoch` on what it
        has is all that counts. Whether it has any of it. `emptied`: it has been added anew, and
        gives up the copy on its disk when it hears that it was taken away before.
        """
        shadow = self.shadow(leader)
        kept = 0 if emptied else bisect_left(self._bases, self._agreed_end(shadow))
        del self.committed[kept:], self._bases[kept:]
        self.committed_end = self.committed[-1].last + 1 if kept else 0
        self.unclean_epoch = epoch
        self.acknowledged_start = min(self.acknowledged_start, shadow.log_start)
        self.listed_end = min(self.listed_end, self.committed_end)
        self.sequences = SequenceBook()
        self.sequences.is_lossy = True
        self._newest.clear()
        for batch in self.committed:
            for offset, key in enumerate(self.contents.of(batch.mark).keys, batch.base):
                self._newest[key] = offset
        for each in self.shadows.values():
            each.agreed, each.agrees = 0, False
        return kept > 0

    @property
    def is_lossy(self) -> bool:
        """Whether an unclean election may have taken what was promised."""
        return self.unclean_epoch >= 0

    def _note_keys(self, batch: Batch, now_ms: int) -> None:
        original = self.contents.of(batch.mark)
        pairs = zip(original.keys, original.values, strict=True)
        for offset, (key, value) in enumerate(pairs, batch.base):
            self._newest[key] = offset
            if value is None:
                self._tombstones[offset] = now_ms

    def _note_transactions(self, batch: Batch) -> None:
        original = self.contents.of(batch.mark)
        if original.is_transactional:
            producer = batch.producer_id, batch.producer_epoch
            self.transactions.add(batch.base, batch.last, *producer, original.ends)

    def check_last_stable(self, broker: BrokerId, told: int) -> None:
        """I7, at a broker that leads. A broker that has read its log from the files takes a marker
        that it has found there for one that is committed (as in Kafka): the decision is, so that
        the next leader gets the same marker. One whose log began behind records that a batch has
        overwritten may not know of transactions that were open there.
        """
        shadow = self.shadow(broker)
        shadow.last_stable = told
        if not shadow.agrees:
            return
        high_watermark, start = shadow.high_watermark, shadow.log_start
        wanted = max(self.transactions.last_stable_offset(high_watermark), start)
        if told == wanted:
            return
        found = {
            batch.producer_id
            for batch in shadow.batches
            if self.committed_end <= batch.base < shadow.loaded_end
            and self.contents.of(batch.mark).ends is not None
        }
        most = self.transactions.last_stable_offset(high_watermark, shadow.loaded_end, found, start)
        if not wanted <= told <= most:
            raise Violation(
                "I7",
                f"{self._name(broker)} is stable up to {told}, not from {wanted} to {most}; high "
                f"watermark {high_watermark}, open {self.transactions.open}",
            )

    # ---- what compaction and retention may take

    def _check_gaps(self, broker: BrokerId, shadow: Shadow, now_ms: int) -> None:
        """Compaction's rule: the last record of each key stays; one without a value for
        `delete.retention.ms` at least.
        """
        shadow.has_gaps = False
        if self.is_lossy:
            return
        there = {batch.base for batch in shadow.batches}
        end = self._agreed_end(shadow)
        first = bisect_left(self._bases, shadow.start)
        for batch in self.committed[first:]:
            if batch.last >= end:
                return
            gone: Iterable[int] = shadow.holes.get(batch.base, ())
            if batch.base not in there:
                gone = range(batch.base, batch.last + 1)
            for offset in gone:
                why = self.why_not_gone(offset, now_ms)
                if why and offset >= shadow.log_start:
                    raise Violation("K", f"{self._name(broker)}: {offset} is gone: {why}")

    def cleaned_by(self, believed_ms: int, ahead_ms: int) -> None:
        """A pass may begin that goes by this time. Its clock may be ahead of the true one as far as
        its broker may believe it; one that is behind dates tombstones too early, for all replicas:
        the date is in the batch and copied with it, as in Kafka (KIP-534).
        """
        self._believed_ms = max(self._believed_ms, believed_ms)
        self._behind_ms = max(self._behind_ms, -ahead_ms)

    def why_not_gone(self, offset: int, now_ms: int) -> str | None:
        """The reason why a cleaner must not have taken that committed record; None when it may."""
        index = bisect_left(self._bases, offset + 1) - 1
        batch = self.committed[index]
        original = self.contents.of(batch.mark)
        key = original.keys[offset - batch.base]
        newest = self._newest[key]
        if newest > offset:
            return None
        since = self._tombstones.get(offset)
        if since is None:
            return f"it is the last of key {key!r}"
        if max(now_ms, self._believed_ms) + self._behind_ms < since + self.delete_retention_ms:
            return f"it deletes key {key!r}, and was committed {now_ms - since} ms ago"
        return None

    def lacks_tombstones(self, broker: BrokerId) -> bool:
        """Whether its log has a record that a tombstone has deleted, and not the tombstone. A
        replica that is behind for longer than `delete.retention.ms` does not get it (as in Kafka):
        the cleaner of the leader has taken it by then, and what the replica has of before stays.
        """
        shadow = self.shadow(broker)
        there = {batch.base for batch in shadow.batches}
        missing: set[bytes | None] = set()
        for offset in self._tombstones:
            batch = self.committed[bisect_left(self._bases, offset + 1) - 1]
            key = self.contents.of(batch.mark).keys[offset - batch.base]
            is_gone = batch.base not in there or offset in shadow.holes.get(batch.base, ())
            if is_gone and self._newest[key] == offset:
                missing.add(key)
        return any(
            key in missing and offset not in shadow.holes.get(batch.base, ())
            for batch in (shadow.batches if missing else ())
            for offset, key in enumerate(self.contents.of(batch.mark).keys, batch.base)
        )

    def check_members(self) -> None:
        """I4: every intact member of the controller's ISR and ELR holds all that is committed."""
        for broker in self.members:
            shadow = self.shadow(broker)
            if not shadow.intact or self._agreed_end(shadow) >= self.committed_end:
                continue
            if not self._differs_only_before_the_leader(shadow):
                raise Violation(
                    "I4",
                    f"{self._name(broker)} is in {self.members} and equals what is committed only "
                    f"up to {self._agreed_end(shadow)} of {self.committed_end}",
                )

    def _differs_only_before_the_leader(self, shadow: Shadow) -> bool:
        """Whether it equals what is committed from the leader's log start on. Retention there took
        epochs with the records, so a follower whose end they were is asked nothing more of them (as
        in Kafka); it drops what it has of them when it hears of that log start.
        """
        if self.record is None or self.record.leader < 0:
            return False
        start = max(shadow.log_start, self.shadow(self.record.leader).log_start)
        held = [batch for batch in shadow.batches if start <= batch.last < self.committed_end]
        wanted = [batch for batch in self.committed if batch.last >= start]
        return held == wanted and shadow.end >= self.committed_end

    def _agreed_end(self, shadow: Shadow) -> int:
        """Advance the shadow's pointer over what equals `committed`."""
        batches, committed = shadow.batches, self.committed
        while shadow.agreed < len(batches):
            batch = batches[shadow.agreed]
            if batch.last < shadow.log_start:
                shadow.agreed += 1  # nobody will ever see it
                continue
            if batch.base in shadow.behind_loss and batch.base > shadow.log_start:
                break  # it lacks what was before
            index = bisect_left(self._bases, batch.base)
            if index >= len(committed) or (
                committed[index] != batch and not self._may_be_cleaned(batch, index)
            ):
                break
            shadow.agreed += 1
        return shadow.agreed_end()

    def _may_be_cleaned(self, batch: Batch, index: int) -> bool:
        """Whether the batch lies between committed ones, of which the last is at `index - 1`: after
        an unclean election those are what the new leader has, and its cleaner may have been there.
        """
        if not (self.is_lossy and self.may_compact):
            return False
        before = self.committed[index - 1].last if index else -1
        return before < batch.base and batch.last < self.committed[index].base

    def committed_at(self, offset: int) -> Batch | None:
        """The committed batch that begins at `offset`."""
        index = bisect_left(self._bases, offset)
        if index < len(self.committed) and self.committed[index].base == offset:
            return self.committed[index]
        return None

    def committed_before(self, offset: int) -> Batch | None:
        """The last committed batch that begins below `offset`."""
        index = bisect_left(self._bases, offset)
        return self.committed[index - 1] if index else None

    def record_at(self, offset: int) -> tuple[bytes | None, bytes | None, int] | None:
        """Key, value and time of the committed record at `offset`."""
        batch = self.committed_before(offset + 1)
        if batch is None or batch.last < offset:
            return None
        original, index = self.contents.of(batch.mark), offset - batch.base
        return original.keys[index], original.values[index], original.timestamps[index]

    def check_ok(self, broker: BrokerId, base: int, mark: int) -> None:
        """I10: an acks=all "ok" is for a batch that is committed, at the offset told."""
        if self.shadow(broker).epochs[0] < self.unclean_epoch:
            return
        batch = self.committed_at(base)
        if batch is None or batch.mark != mark:
            raise Violation(
                "I10",
                f"{self._name(broker)} acknowledges offset {base}; committed there: {batch} "
                f"(end {self.committed_end})",
            )
        shadow = self.shadow(broker)
        if batch.last >= shadow.high_watermark and not shadow.begun_anew:
            raise Violation("I10", f"{self._name(broker)} acknowledges {batch} above its hw")

    def _name(self, broker: BrokerId) -> str:
        return f"broker {broker} partition {self.key[1]}"


def _base(batch: Batch) -> int:
    return batch.base
