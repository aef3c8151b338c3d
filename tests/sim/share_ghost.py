"""The invariants of share groups, whatever happens to leaders, coordinators and members.

S: a record is one member's at a time, and every change of it at its leader has a reason (see
`share_locks`); so has every record of the log of their state (`share_log`). A leader begins with
what is committed there, delivers nothing that is done there, and no record oftener than it counts.
I10: what is answered as acknowledged is committed. I14: the memory of coordinators is what their
logs say. U: a member's user gets what a leader has acquired for it, while the lock lasts; where its
group reads committed records, none of a transaction that is open or aborted. S: all others a leader
delivers, and passes over what is hidden and nothing else; where its group has a dead-letter topic,
a record that is rejected or spent is there before it is done (`share_letters`).
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

from pylog.errors import PylogError, UnknownServerError
from pylog.model import CONSUMER_OFFSETS, Offset, TopicId, TopicPartition
from pylog.records.batch import Buffer
from pylog_broker.controller.settings import SHARE_GROUP_STATE
from pylog_broker.coordinator.groups.codec import GroupCodec
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.coordinator import GroupCoordinator
from pylog_broker.coordinator.runtime.runtime import partition_for
from pylog_broker.coordinator.share_state.codec import ShareStateCodec
from pylog_broker.coordinator.share_state.coordinator import ShareCoordinator, ShareStateConfig
from pylog_broker.group_settings import GroupSettings
from pylog_broker.node.share.coordinators import coordinator_key
from pylog_broker.node.share.led_partitions import LedSharePartition
from pylog_broker.share.record_states import Acknowledgement, RecordState
from pylog_broker.share.sessions import SharePartitionKey
from tests.sim.ghost import PartitionGhost
from tests.sim.group_ghost import NoTopics
from tests.sim.group_log import GroupLog
from tests.sim.partition_transactions import ABORTED, MARKER, OPEN
from tests.sim.scheduler import US_PER_MS
from tests.sim.share_letters import ShareLetters
from tests.sim.share_locks import ACCEPTED, ARCHIVING, LETTER, Held, Locks, Step, held_by
from tests.sim.share_log import NOWHERE, Fate, ShareLog, Written, in_memory
from tests.sim.violation import Violation

if TYPE_CHECKING:
    from tests.sim.broker_process import BrokerProcess
    from tests.sim.cluster import Cluster

COMPARED_SHARE = 4
"""One occasion in so many to compare memory with the log is taken, as that takes long."""
OVERDUE_MS = 50
ANSWERED_WITHIN_US = 2_500_000
CLOCKS_MS = 2
"""Clocks are read in whole milliseconds."""


class Acquisition(NamedTuple):
    """A record is a member's. `until_us`: the end of its lock; None: that was renewed."""

    count: int
    until_us: int | None


class Altered(NamedTuple):
    """An administrator was told, at that time, that a group begins as the state of that epoch
    says.
    """

    state_epoch: int
    at_us: int


class _Heard:
    """What happens to single records of one partition at its leader, for the ghost."""

    def __init__(self, ghost: ShareGhost, process: BrokerProcess, led: LedSharePartition) -> None:
        self._ghost = ghost
        self._process = process
        self._led = led

    def acquired(self, offset: int, held: Held) -> None:
        """See `Observer`."""
        self._ghost.acquired(self._process, self._led, offset, held)

    def renewed(self, offset: int, held: Held) -> None:
        """See `Observer`."""
        self._ghost.renewed(self._led.key, offset, held)

    def finished(self, offset: int, before: Held, why: str) -> None:
        """See `Observer`."""
        self._ghost.finished_at_leader(self._led, offset, before, why)

    def is_gone(self, offset: int) -> bool:
        """See `Observer`."""
        return self._ghost.is_gone(self._led.key, offset)

    def is_letter(self, offset: int) -> bool:
        """See `Observer`."""
        return self._ghost.letters.is_there(self._led.key, offset)

    def hidden(self, offset: int) -> str:
        """See `Observer`."""
        return self._ghost.hidden(self._led.key, offset)


class ShareGhost:
    """The ghost state of all share groups of a run."""

    def __init__(self, cluster: Cluster, config: GroupConfig, state: ShareStateConfig) -> None:
        self._cluster = cluster
        self._sometimes = cluster.sometimes
        self._config = config
        self._state_config = state
        self._logs: dict[int, ShareLog] = {}
        self._group_logs: dict[int, GroupLog] = {}
        self._locks: dict[LedSharePartition, Locks] = {}
        self._reasons: dict[tuple[SharePartitionKey, int], dict[int, str]] = {}
        """By leader epoch, why records are delivered no more."""
        self._acquired: dict[tuple[str, SharePartitionKey, int], Acquisition] = {}
        self._accepting: set[tuple[str, SharePartitionKey, int]] = set()
        self._unsure: set[tuple[SharePartitionKey, int]] = set()
        """By leader epoch, partitions whose leader began again without having heard what became of
        a write: that may be committed after it has."""
        self._comparisons: Counter[str] = Counter()
        self._asked: dict[SharePartitionKey, set[int]] = {}
        """The offsets at which administrators want partitions to begin."""
        self._promised: set[SharePartitionKey] = set()
        """Those of which the last one who asked was told that they begin there."""
        self._altered: dict[SharePartitionKey, Altered] = {}
        self._came_us: dict[str, int] = {}
        """By member, the time before which it was in no group."""
        self._begun_at: dict[SharePartitionKey, int] = {}
        self._begun_us: dict[SharePartitionKey, int] = {}
        self.letters = ShareLetters(cluster)
        self._waited: dict[tuple[SharePartitionKey, int], int] = {}
        """Records of open transactions to which a group that reads committed ones has come, and the
        epoch of the leader that came first."""

    # ---- the logs

    def _ghost(self, topic: str, number: int) -> PartitionGhost | None:
        found = self._cluster.image.topics_by_name.get(topic)
        return None if found is None else self._cluster.shadows.ghost(found.topic_id, number)

    def _log(self, number: int) -> ShareLog:
        """The log of the state of partitions, as far as it is committed."""
        log = self._logs.setdefault(number, ShareLog(self))
        ghost, codec = self._ghost(SHARE_GROUP_STATE, number), ShareStateCodec()
        while ghost is not None and log.batches < len(ghost.committed):
            batch = ghost.committed[log.batches]
            log.batches += 1
            original = ghost.contents.of(batch.mark)
            for offset, (key, value) in enumerate(
                zip(original.keys, original.values, strict=True), batch.base
            ):
                assert key is not None
                record = codec.decode(key, value)
                assert record is not None
                log.take(record, Offset(offset))
        return log

    def written(self, key: SharePartitionKey) -> Written | None:
        """The committed state of a partition; None: there is none, or it went with its topic."""
        topic = self._cluster.image.topics_by_name.get(SHARE_GROUP_STATE)
        if topic is None:
            return None
        number = partition_for(coordinator_key(key), len(topic.partitions))
        return self._log(number).written.get(key)

    def given_up(
        self, place: SharePartitionKey, offset: int, leader_epoch: int, count: int
    ) -> None:
        """See `Judge`."""
        if offset not in self._reasons.get((place, leader_epoch), {}):
            raise Violation(
                "S", f"{place}: {offset} is given up by the leader of epoch {leader_epoch}: why?"
            )
        self.letters.given_up(place, offset, count)

    def sends_letters(self, broker: str, name: TopicPartition, batch: Buffer) -> None:
        """A broker is about to append dead letters."""
        topic = self._cluster.image.topics_by_name[SHARE_GROUP_STATE]
        for number in topic.partitions:
            self._log(number)
        self.letters.sends(broker, batch, name, self._config.settings)

    def finished(self, place: SharePartitionKey, offset: int, leader_epoch: int) -> None:
        """See `Judge`."""
        why = self._reasons.get((place, leader_epoch), {}).get(offset)
        if why == LETTER and not self.letters.was_given_up(place, offset):
            raise Violation("S", f"{place}: {offset} is done before it was archiving")
        if why is None:
            if not self.is_gone(place, offset):
                raise Violation(
                    "S", f"{place}: {offset} is done by the leader of epoch {leader_epoch}: why?"
                )
            self._sometimes["shares: record gone before it was read"] += 1

    def begun_by(self, place: SharePartitionKey, start: int) -> int:
        """See `Judge`."""
        return 0 if self._settings(place).share_auto_offset_reset == "earliest" else start

    def began_anew(self, place: SharePartitionKey, start: int) -> bool:
        """See `Judge`. The reasons of before count no more. An alteration that was broken off, so
        that nobody was told that it is done, may come to nothing when members come.
        """
        asked = self._asked.get(place, set())
        is_broken_off = start == NOWHERE and bool(asked) and place not in self._promised
        if start not in asked and not is_broken_off:
            return False
        self._sometimes["shares: state begun anew"] += 1
        self._begun_at[place] = start
        self._begun_us[place] = self._cluster.scheduler.now_us
        for key in [each for each in self._reasons if each[0] == place]:
            del self._reasons[key]
        return True

    # ---- administrators

    def asked(self, key: SharePartitionKey, start: int) -> None:
        """Somebody wants the group to begin there, and will ask for it."""
        self._asked.setdefault(key, set()).add(start)
        self._promised.discard(key)

    def altered(self, key: SharePartitionKey, start: Offset, *, may_be_deleted: bool) -> None:
        """I10: the answer says that it begins there. A member that is out of its group without
        knowing it may have had records of it since. `may_be_deleted`: a copy of a request before,
        which nobody waits for, may yet delete the state.
        """
        written = self.written(key)
        if written is None or self._begun_at.get(key) != start:
            raise Violation("I10", f"{key} is told to begin at {start}; {written}")
        self._promised.add(key)
        if not may_be_deleted:
            self._asked[key].discard(NOWHERE)
        self._altered[key] = Altered(written.state_epoch, self._cluster.scheduler.now_us)

    def deleted(self, key: SharePartitionKey, state_epoch: int) -> None:
        """I10: the answer says that there is no state of that epoch any more. One that was made and
        that nobody has begun to read says nothing, and may be there.
        """
        written = self.written(key)
        if written is None or written.start == NOWHERE:
            return
        if written.state_epoch == state_epoch:
            raise Violation("I10", f"{key} is told to have no state; {written}")

    def is_gone(self, key: SharePartitionKey, offset: int) -> bool:
        """Whether nobody need find the record in the log any more."""
        return offset < self._cluster.shadows.ghost(key.topic_id, key.partition).deleted_to

    # ---- transactions

    def _settings(self, key: SharePartitionKey) -> GroupSettings:
        return self._config.settings.of(key.group_id)

    def _reads_committed(self, key: SharePartitionKey) -> bool:
        return self._settings(key).share_isolation_level == "read_committed"

    def _status(self, key: SharePartitionKey, offset: int) -> str:
        """The status of the record in its transaction, for the group; empty: it is in none."""
        ghost = self._cluster.shadows.ghost(key.topic_id, key.partition)
        transactions = self._cluster.transactions
        if transactions is None or not self._reads_committed(key):
            return ghost.transactions.status(offset)
        return transactions.ghost.status(ghost, offset)

    def hidden(self, key: SharePartitionKey, offset: int) -> str:
        """The status that hides the record from the group; empty: none does."""
        status = self._status(key, offset)
        hides = status == MARKER or (status == ABORTED and self._reads_committed(key))
        return status if hides else ""

    def _must_be_visible(self, told: str, key: SharePartitionKey, offset: int) -> str:
        """The status of a record that somebody gets."""
        status = self._status(key, offset)
        if status == MARKER or (status in (OPEN, ABORTED) and self._reads_committed(key)):
            raise Violation("U", f"{told}: it is {status}")
        return status

    def _comes_to(self, led: LedSharePartition, offset: int) -> None:
        """The group has had all before the record."""
        ghost = self._cluster.shadows.ghost(led.key.topic_id, led.key.partition)
        if ghost.transactions.status(offset) == OPEN and self._reads_committed(led.key):
            self._waited.setdefault((led.key, offset), int(led.leader_epoch))

    def _has_come(self, led: LedSharePartition, offset: int) -> None:
        """The ghost knows by now what becomes of the record."""
        epoch = self._waited.pop((led.key, offset), None)
        if epoch is not None:
            self._sometimes["shares: record waited for its transaction"] += 1
            if epoch != led.leader_epoch:
                self._sometimes["shares: leader changed while a record waited"] += 1

    # ---- leaders

    def look(self, process: BrokerProcess, led: LedSharePartition, step: Step) -> int | None:
        """The leader has made a step; the time by which a lock must have ended that is new."""
        state = led.state
        if state is None or led.ended is not None:
            return None
        now_ms = process.now_ms()
        locks = self._locks.get(led)
        if locks is None:
            name = f"{process.name}: {led.name} of {led.key.group_id} at {led.leader_epoch}"
            locks = Locks(name, int(state.start_offset), dict(held_by(state)), self._sometimes)
            self._locks[led] = locks
            self._loaded(led, locks)
        else:
            locks.look(now_ms, state, step, _Heard(self, process, led))
        self._comes_to(led, int(state.next_offset))
        deadline_ms = locks.new_deadline()
        return None if deadline_ms is None else deadline_ms + OVERDUE_MS

    def _is_current(self, led: LedSharePartition, written: Written | None) -> bool:
        """Whether nobody leads the partition in a later epoch, by the log of its state, and the
        state is not another one since the leader has read it.
        """
        return (
            written is not None
            and written.leader_epoch == led.leader_epoch
            and written.state_epoch == led.state_epoch
        )

    def _is_unsure(self, led: LedSharePartition) -> bool:
        return (led.key, int(led.leader_epoch)) in self._unsure

    def _loaded(self, led: LedSharePartition, locks: Locks) -> None:
        """A leader begins with what is committed."""
        self._sometimes["shares: state loaded"] += 1
        written = self.written(led.key)
        if written is not None and written.leader_epoch < led.leader_epoch:
            raise Violation("S", f"{locks.name}: begins, and those before may go on: {written}")
        if written is None or not self._is_current(led, written):
            self._sometimes["shares: state loaded by a leader that was replaced"] += 1
            return
        if written.start == NOWHERE or self._is_unsure(led):
            return
        self._sometimes["shares: state reloaded"] += 1
        archiving = [each for each in written.fates.values() if each.state is ARCHIVING]
        self._sometimes["shares: dead letter of the leader before"] += len(archiving)
        if locks.start < written.start:
            raise Violation("S", f"{locks.name}: begins at {locks.start}; {written}")
        known = {offset: Fate(held.state, held.count) for offset, held in locks.records.items()}
        for offset, fate in known.items():
            if fate != written.fate(offset):
                raise Violation("S", f"{locks.name}: begins with {offset} {fate}; {written}")
        for offset, fate in written.fates.items():
            if offset >= locks.start and known.get(offset, Fate(RecordState.AVAILABLE, 0)) != fate:
                raise Violation("S", f"{locks.name}: begins without {offset} {fate}")
        for offset in range(max(written.start, 0), locks.start):
            if not written.is_done(offset) and not self.is_gone(led.key, offset):
                raise Violation("S", f"{locks.name}: begins at {locks.start}; {written}")

    def acquired(
        self, process: BrokerProcess, led: LedSharePartition, offset: int, held: Held
    ) -> None:
        """A member has a record from now on."""
        key, written = led.key, self.written(led.key)
        self._must_be_visible(f"{process.name}: {led.name} delivers {offset}, {held}", key, offset)
        self._has_come(led, offset)
        altered = self._altered.get(key)
        if altered is not None and self._came_us[held.member] > altered.at_us:
            self._sometimes["shares: delivered to a member that came after an alteration"] += 1
            if led.state_epoch < altered.state_epoch:
                raise Violation(
                    "S",
                    f"{process.name}: {led.name} delivers {offset}, {held}, of the state of epoch "
                    f"{led.state_epoch}; {altered} before the member came",
                )
        if self._is_unsure(led):
            self._sometimes["shares: delivered after a write that was given up"] += 1
        elif self._is_current(led, written):
            assert written is not None
            fate = written.fate(offset)
            if offset < written.start or fate.is_final or held.count != fate.count + 1:
                raise Violation(
                    "S", f"{process.name}: {led.name} delivers {offset}, {held}; {written}"
                )
            if key in self._begun_us:
                self._sometimes["shares: delivered after an alteration"] += 1
        else:
            self._sometimes["shares: delivered by a leader that was replaced"] += 1
        lock_us = (held.until_ms - process.now_ms()) * US_PER_MS
        until_us = self._cluster.scheduler.now_us + lock_us
        self._acquired[held.member, key, offset] = Acquisition(held.count, until_us)

    def renewed(self, key: SharePartitionKey, offset: int, held: Held) -> None:
        """The member has it for longer."""
        self._acquired[held.member, key, offset] = Acquisition(held.count, None)

    def finished_at_leader(
        self, led: LedSharePartition, offset: int, before: Held, why: str
    ) -> None:
        """A record is delivered no more, if that becomes durable."""
        key = led.key
        self._has_come(led, offset)
        if why == ACCEPTED and (before.member, key, offset) not in self._accepting:
            raise Violation("S", f"{led.name}: nobody has accepted {offset}, {before}")
        written = self.written(key)
        if written is None or written.state_epoch == led.state_epoch:
            self._reasons.setdefault((key, int(led.leader_epoch)), {})[offset] = why

    def ended(self, led: LedSharePartition, error: PylogError) -> None:
        """A leader has nothing more to do with the partition."""
        self._locks.pop(led, None)
        # A write that is refused as the state has begun anew is of no account any more.
        has_begun_anew = "its state is of epoch" in str(error)
        if led.state is not None and led.state._in_flight and not has_begun_anew:
            self._unsure.add((led.key, int(led.leader_epoch)))
        self._sometimes[f"shares: partition ended: {error.name}"] += 1
        if isinstance(error, UnknownServerError):
            raise Violation("raised", f"{led.name} of {led.key.group_id}: {error}")
        if has_begun_anew:
            self._sometimes["shares: fenced by state epoch"] += 1
        elif "its leader is of epoch" in str(error):
            self._sometimes["shares: fenced by leader epoch"] += 1

    def locks_must_have_ended(self, led: LedSharePartition, until_ms: int) -> None:
        """S: a lock ends as it was told. By then those have that this look is for; a process that
        was paused looks late, and may see others that end with what it does next.
        """
        locks = self._locks.get(led)
        if locks is not None and led.ended is None:
            late = locks.overdue(until_ms - OVERDUE_MS)
            if late:
                raise Violation("S", f"{locks.name}: the locks of {late} do not end")

    # ---- answers

    def answered(
        self, broker: str, key: SharePartitionKey, first: Offset, last: Offset, types: bytes
    ) -> None:
        """I10: a leader says that it has done what a member has asked."""
        written = self.written(key)
        if written is None:
            return  # the topic is gone
        begun_us = self._begun_us.get(key)
        if begun_us is not None and self._cluster.scheduler.now_us < begun_us + ANSWERED_WITHIN_US:
            return  # of the state before, which is no more
        is_unsure = (key, written.leader_epoch) in self._unsure
        for index, offset in enumerate(range(first, last + 1)):
            word = Acknowledgement(types[index] if len(types) > 1 else types[0])
            fate = None if offset < written.start else written.fate(offset)
            match word:
                case Acknowledgement.ACCEPT:
                    is_there = fate is None or fate.state is RecordState.ACKNOWLEDGED
                    is_there = is_there or (is_unsure and fate is not None and fate.is_final)
                case Acknowledgement.REJECT | Acknowledgement.GAP:
                    is_there = fate is None or fate.is_final
                case Acknowledgement.RELEASE:
                    is_there = fate is None or fate.count > 0
                case _:
                    continue
            self._sometimes[f"shares: {word.name} acknowledged"] += 1
            if not is_there:
                raise Violation(
                    "I10", f"{broker} answers {word.name} of {offset} in {key}; {written}"
                )

    # ---- users

    def comes(self, member_id: str) -> None:
        """A member that nobody has heard of begins."""
        self._came_us[member_id] = self._cluster.scheduler.now_us

    def accepts(self, member_id: str, key: SharePartitionKey, offset: int) -> None:
        """A user has accepted a record."""
        self._accepting.add((member_id, key, offset))

    def got(self, member: str, member_id: str, key: SharePartitionKey, record: Any) -> None:
        """U: a user gets a record."""
        offset, now_us = record.offset, self._cluster.scheduler.now_us
        self._sometimes["shares: record delivered"] += 1
        found = self._acquired.get((member_id, key, offset))
        told = f"{member} gets {key} {offset}, for the {record.delivery_count}th time"
        if found is None or found.count != record.delivery_count:
            raise Violation("U", f"{told}; a leader has acquired {found} for it")
        if found.until_us is not None and now_us > found.until_us + CLOCKS_MS * US_PER_MS:
            raise Violation("U", f"{told}, {(now_us - found.until_us) / 1e6} s after its lock")
        status = self._must_be_visible(told, key, offset)
        if status:
            self._sometimes[f"shares: user gets what is {status}"] += 1
        ghost = self._cluster.shadows.ghost(key.topic_id, key.partition)
        wanted = ghost.record_at(offset)
        if wanted != (record.key, record.value, record.timestamp_ms):
            raise Violation("I6", f"{told}: {record}; {wanted} is committed there")
        written = self.written(key)
        if written is not None and written.is_done(offset):
            self._sometimes["shares: delivered though it is done meanwhile"] += 1

    # ---- memory

    def _is_turn(self, what: str) -> bool:
        self._comparisons[what] += 1
        return self._comparisons[what] % COMPARED_SHARE == 0

    def check_state(self, broker: str, number: int, coordinator: ShareCoordinator) -> None:
        """I14, of the state of partitions."""
        log = self._log(number)
        if not self._is_turn("state"):
            return
        known = in_memory(coordinator)
        for place in {**log.written, **known}:
            if known.get(place) != log.written.get(place):
                wanted = log.written.get(place)
                raise Violation("I14", f"{broker} has {known.get(place)}, the log says {wanted}")
        if self._is_turn("state by replay"):
            fresh = ShareCoordinator(self._state_config)
            for record, offset in log.records:
                fresh.replay(record, offset)
            if fresh.partitions != coordinator.partitions:
                raise Violation(
                    "I14", f"{broker} has {coordinator.partitions}, replay {fresh.partitions}"
                )

    def _group_log(self, number: int) -> GroupLog:
        log = self._group_logs.setdefault(number, GroupLog())
        ghost, codec = self._ghost(CONSUMER_OFFSETS, number), GroupCodec()
        while ghost is not None and log.batches < len(ghost.committed):
            batch = ghost.committed[log.batches]
            log.batches += 1
            original = ghost.contents.of(batch.mark)
            for offset, (key, value) in enumerate(
                zip(original.keys, original.values, strict=True), batch.base
            ):
                assert key is not None
                record = codec.decode(key, value)
                assert record is not None
                log.take(record, Offset(offset))
        return log

    def check_groups(self, broker: str, number: int, coordinator: GroupCoordinator) -> None:
        """I14, of groups."""
        log = self._group_log(number)
        if not self._is_turn("groups"):
            return
        topics: Any = NoTopics()
        fresh = GroupCoordinator(self._config, topics, Counter())
        for record, offset in log.records():
            fresh.replay(record, offset)
        if fresh.groups != coordinator.groups:
            raise Violation("I14", f"{broker} has {coordinator.groups}, replay {fresh.groups}")

    # ---- the end

    def unfinished(self, group_id: str) -> dict[int, str]:
        """The partitions with records that the group is not done with."""
        topic = self._cluster.topic()
        found = {}
        for number in () if topic is None else sorted(topic.partitions):
            assert topic is not None
            end = self._cluster.shadows.ghost(topic.topic_id, number).committed_end
            written = self.written(SharePartitionKey(group_id, topic.topic_id, number))
            begin = NOWHERE if written is None else written.start
            if end and (written is None or begin == NOWHERE or begin < end):
                found[number] = f"{number} is done up to {begin} of {end}: {written}"
        return found

    def left(self, group_id: str, topic_id: TopicId, number: int) -> int:
        """So many records of the partition the group is not done with."""
        end = self._cluster.shadows.ghost(topic_id, number).committed_end
        written = self.written(SharePartitionKey(group_id, topic_id, number))
        if written is None:
            return end
        return sum(not written.is_done(offset) for offset in range(max(written.start, 0), end))
