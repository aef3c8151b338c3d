"""The invariants of transactions, whatever happens to coordinators, leaders and producers.

I12: a partition is in a transaction by the coordinator's log before it is written to; a marker is
written when its decision is committed there, says the same, and stands in every partition when the
transaction is complete; a coordinator that decides otherwise than was asked has a reason. I14: the
memory of a coordinator is what its log says. I10: what is answered as begun, added or ended is. C:
of a transaction that its producer knows to be committed readers of committed records see each
record once, in order; of one that it knows to be aborted, or has not asked to commit, none; of any
other all or none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pylog.model import CONSUMER_OFFSETS, TopicId, TopicPartition
from pylog_broker.controller.settings import TRANSACTION_STATE
from pylog_broker.coordinator.generated.transaction_log import (
    TransactionLogKey,
    TransactionLogValue,
)
from pylog_broker.coordinator.transactions.codec import TransactionCodec
from pylog_broker.coordinator.transactions.coordinator import TransactionCoordinator
from pylog_broker.coordinator.transactions.refusals import PROOF
from pylog_broker.coordinator.transactions.sink_messages import is_of_a_sink
from pylog_broker.coordinator.transactions.states import TransactionState
from pylog_broker.coordinator.transactions.transaction import (
    Transaction,
    record_of,
    transaction_of,
)
from tests.sim.contents import Marker
from tests.sim.ghost import Batch, PartitionGhost, PartitionKey
from tests.sim.partition_transactions import ABORTED, COMMITTED, OPEN
from tests.sim.violation import Violation

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster
    from tests.sim.sink_ghost import SinkGhost
    from tests.sim.transformers import Input

_S = TransactionState
_IDLE = (_S.EMPTY, _S.COMPLETE_COMMIT, _S.COMPLETE_ABORT)
_MAY_FOLLOW = {
    _S.EMPTY: _IDLE,
    _S.ONGOING: (*_IDLE, _S.ONGOING),
    _S.PREPARE_COMMIT: (_S.ONGOING,),
    _S.PREPARE_ABORT: (*_IDLE, _S.ONGOING),
    _S.COMPLETE_COMMIT: (_S.PREPARE_COMMIT,),
    _S.COMPLETE_ABORT: (_S.PREPARE_ABORT,),
}
_Identity = tuple[int, int]
OWN = b"y"
"""The prefix of records that transformers send; they are not transformed again."""


@dataclass(eq=False, slots=True)
class ClientTransaction:
    """As its producer knows it. `told`: whether it is committed; None: it has not heard."""

    producer: str
    identity: _Identity
    values: list[bytes] = field(default_factory=list)
    asked_commit: bool = False
    told: bool | None = None


class TransactionGhost:
    """The ghost state of all transactions of a run."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._sometimes = cluster.sometimes
        self._codec = TransactionCodec()
        self._batches: Counter[int] = Counter()  # so many of each partition are taken in
        self._newest: dict[str, Transaction] = {}
        self._numbers: dict[str, int] = {}  # the partition of each id
        self._decided: dict[_Identity, bool] = {}  # by the identity that markers have
        self._added: set[tuple[int, int, TopicPartition]] = set()
        self._owners: set[_Identity] = set()  # that the log has given to anybody
        self._looked_at: Counter[PartitionKey] = Counter()
        self.unasked: set[_Identity] = set()
        """The identities whose transaction a coordinator has aborted by itself."""
        self.clients: list[ClientTransaction] = []
        self._asked: dict[_Identity, set[bool]] = {}
        self._marked: set[tuple[TopicPartition, int, int]] = set()
        self.sinks: SinkGhost | None = None
        self._has_failed = False  # the report looks at what was read until then

    # ---- the log

    def catch_up(self) -> None:
        """Take in what is committed by now."""
        topic = self._cluster.image.topics_by_name.get(TRANSACTION_STATE)
        for number in () if topic is None or self._has_failed else topic.partitions:
            assert topic is not None
            ghost = self._cluster.shadows.ghost(topic.topic_id, number)
            while self._batches[number] < len(ghost.committed):
                batch = ghost.committed[self._batches[number]]
                self._batches[number] += 1
                try:
                    self._take(number, ghost, batch)
                except Violation:
                    self._has_failed = True
                    raise

    def _take(self, number: int, ghost: PartitionGhost, batch: Batch) -> None:
        original = ghost.contents.of(batch.mark)
        for key, value in zip(original.keys, original.values, strict=True):
            assert key is not None
            record = self._codec.decode(key, value)
            assert record is not None
            if self.sinks is not None:
                self.sinks.replay(number, record)
            if not isinstance(record.key, TransactionLogKey):
                assert self.sinks is not None
                self.sinks.take(number, record)
                continue
            if record == PROOF:
                self._sometimes["transactions: a coordinator shows that it leads"] += 1
                continue
            name = record.key.transactional_id
            self._numbers[name] = number
            before = self._newest.pop(name, None)
            if record.value is None:
                if before is None or before.state not in _IDLE:
                    raise Violation("I12", f"{name} is forgotten in the middle of {before}")
                continue
            assert isinstance(record.value, TransactionLogValue)
            now = self._newest[name] = transaction_of(record.key, record.value)
            self._follow(before, now)

    def _follow(self, before: Transaction | None, now: Transaction) -> None:
        state = _S.EMPTY if before is None else before.state
        if state not in _MAY_FOLLOW[now.state] and not self._is_overwrite(state, now):
            raise Violation("I12", f"{now} follows {before}")
        if before is not None:
            same_id = before.identity.producer_id == now.identity.producer_id
            if same_id and now.identity.epoch < before.identity.epoch:
                raise Violation("I2", f"{now} follows {before}")
        self._sometimes[f"transactions: {now.state.shown} in the log"] += 1
        self._owners.add(tuple(now.owner))
        if now.state is _S.ONGOING:
            self._added.update((*now.identity, partition) for partition in now.partitions)
        elif now.state.is_prepared:
            self._decide(now)
        elif now.state.is_complete:
            assert before is not None
            if self.sinks is not None:
                self.sinks.completed(before)
            for partition in before.partitions:
                self._must_be_marked(partition, before)

    def _is_overwrite(self, state: TransactionState, now: Transaction) -> bool:
        """Whether a commit has nothing but partitions that are overwritten."""
        if state not in _IDLE or now.state is not _S.PREPARE_COMMIT or self.sinks is None:
            return False
        name = now.transactional_id
        return is_of_a_sink(name) and self.sinks.may_begin_with_its_end(name)

    def owner(self, transactional_id: str) -> _Identity:
        """The identity under which the next records of that id are written."""
        known = self._newest.get(transactional_id)
        if known is None:
            raise Violation("S3", f"{transactional_id} is given, and is not in the log")
        return known.owner.producer_id, known.owner.epoch

    def _decide(self, now: Transaction) -> None:
        identity = (now.identity.producer_id, now.identity.epoch)
        commits = now.state.commits
        if self._decided.setdefault(identity, commits) != commits:
            raise Violation("I12", f"{now} was decided otherwise before")
        if is_of_a_sink(now.transactional_id):
            assert self.sinks is not None
            self.sinks.ended(now)
            return
        ended = (identity[0], identity[1] - 1)
        asked = self._asked.get(ended, set())
        if commits and True not in asked:
            raise Violation("I12", f"{now}: nobody has asked to commit it")
        if not commits and False not in asked:
            self.unasked.add(ended)
            late = now.updated_ms - now.started_ms >= now.timeout_ms
            self._sometimes[f"transactions: {'timed out' if late else 'fenced'}"] += 1

    def _must_be_marked(self, partition: TopicPartition, prepared: Transaction) -> None:
        topic = self._cluster.image.topics_by_name.get(partition.topic)
        if topic is None:
            return
        ghost = self._cluster.shadows.ghost(topic.topic_id, partition.partition)
        identity = tuple(prepared.identity)
        if not any((pid, epoch) == identity for pid, epoch, _ in ghost.transactions.markers):
            raise Violation("I12", f"{prepared} is complete, and {partition} has no marker")

    # ---- partitions

    def marked(
        self, broker: str, partition: TopicPartition, producer_id: int, epoch: int, ends: Marker
    ) -> None:
        """A broker is about to append a marker."""
        self.catch_up()
        place = (partition, producer_id, epoch)
        if place in self._marked:
            self._sometimes["transactions: marker sent again"] += 1
        self._marked.add(place)
        decided = self._decided.get((producer_id, epoch))
        if decided != ends.commits:
            raise Violation(
                "I12",
                f"{broker} writes {ends} of producer {producer_id} epoch {epoch} to {partition}, "
                f"and decided is {decided}",
            )
        if self.sinks is not None and ends.commits:
            self.sinks.marks(broker, partition, (producer_id, epoch))

    def look(self) -> None:
        """Check the transactions that have begun since the last look: each in a partition that is
        in it."""
        image = self._cluster.image
        for name in (self._cluster.TOPIC, CONSUMER_OFFSETS):
            topic = image.topics_by_name.get(name)
            for number in () if topic is None else topic.partitions:
                assert topic is not None
                begun = self._cluster.shadows.ghost(topic.topic_id, number).transactions.begun
                key = (topic.topic_id, number)
                if self._looked_at[key] == len(begun):
                    continue
                self.catch_up()
                for each in begun[self._looked_at[key] :]:
                    partition = TopicPartition(name, number)
                    if (each.producer_id, each.epoch, partition) not in self._added:
                        raise Violation("I12", f"{partition}: {each} is in no transaction")
                self._looked_at[key] = len(begun)
        if self.sinks is not None:
            self.sinks.progress.look()

    # ---- answers

    def asked(self, identity: _Identity, *, commits: bool) -> None:
        """A producer asks for the end of its transaction."""
        asked = self._asked.setdefault(identity, set())
        if commits in asked:
            self._sometimes["transactions: end asked for again"] += 1
        asked.add(commits)

    def answered_begun(self, broker: str, identity: _Identity) -> None:
        """I10: a coordinator has given an identity to an instance."""
        self.catch_up()
        if identity not in self._owners:
            raise Violation("I10", f"{broker} gives {identity}, which is not committed")

    def answered_ended(self, broker: str, identity: _Identity, *, commits: bool) -> None:
        """I10: it has told that a transaction has ended."""
        self.catch_up()
        decided = self._decided.get((identity[0], identity[1] + 1))
        if decided != commits:
            raise Violation(
                "I10", f"{broker} says that {identity} has ended, {commits=}; decided is {decided}"
            )

    def answered_added(self, broker: str, identity: _Identity, partition: TopicPartition) -> None:
        """I10: it has told that a partition is in the transaction."""
        self.catch_up()
        if (*identity, partition) not in self._added:
            raise Violation("I10", f"{broker} has not committed that {partition} is in {identity}")

    def outcome(self, identity: _Identity) -> bool | None:
        """The decision about the transaction of that instance; None: there was none."""
        self.catch_up()
        return self._decided.get((identity[0], identity[1] + 1))

    def is_ousted(self, identity: _Identity) -> bool:
        """Whether a coordinator has ended the transaction of that instance by itself."""
        self.catch_up()
        return identity in self.unasked

    def has_prepared(self) -> bool:
        """Whether a transaction is decided, and not complete as yet."""
        self.catch_up()
        return any(each.state.is_prepared for each in self._newest.values())

    def status(self, ghost: PartitionGhost, offset: int) -> str:
        """The status of a record for a reader of committed ones. One that reads at a leader whose
        log has the marker may hear of a decision before the marker is committed.
        """
        status = ghost.transactions.status(offset)
        if status != OPEN:
            return status
        begun = ghost.transactions.open_at(offset)
        assert begun is not None
        commits = self.outcome((begun.producer_id, begun.epoch))
        if commits is None:
            return OPEN
        self._sometimes["transactions: decision read before its marker"] += 1
        return COMMITTED if commits else ABORTED

    # ---- memory

    def check_memory(self, broker: str, number: int, coordinator: TransactionCoordinator) -> None:
        """I14."""
        self.catch_up()
        wanted = {
            name: record_of(each).value
            for name, each in self._newest.items()
            if self._numbers[name] == number
        }
        known = {name: record_of(each).value for name, each in coordinator.transactions.items()}
        if wanted != known:
            raise Violation("I14", f"{broker} has {known}, the log says {wanted}")
        if self.sinks is not None:
            self.sinks.check_memory(broker, number, coordinator)

    # ---- the end

    @property
    def waits_for(self) -> list[str]:
        """L1: every transaction has ended, in its partitions as well."""
        self.catch_up()
        found = [
            f"{name} to end: {each.state.shown} {each.identity}"
            for name, each in self._newest.items()
            if each.state not in _IDLE
        ]
        for key, ghost in self._cluster.shadows.ghosts.items():
            found += [f"{each} to end in {key}" for each in ghost.transactions.open]
        return found

    def check_history(self, outputs: dict[bytes, Input]) -> None:
        """C, by what stands in the topic at the end; `outputs`: what each was made of."""
        seen: dict[bytes, int] = {}
        topic = self._cluster.topic()
        assert topic is not None
        for number in topic.partitions:
            newest: dict[bytes, int] = {}
            ghost = self._cluster.shadows.ghost(topic.topic_id, number)
            for batch in ghost.committed:
                if ghost.transactions.status(batch.base) != COMMITTED:
                    continue
                for value in ghost.contents.of(batch.mark).values:
                    assert value is not None
                    seen[value] = seen.get(value, 0) + 1
                    name, _, count = value.rpartition(b".")
                    if int(count) <= newest.get(name, -1):
                        raise Violation("C", f"{value!r} of {number} is behind {newest[name]}")
                    newest[name] = int(count)
        for each in self.clients:
            self._check_client(each, [seen.get(value, 0) for value in each.values])
        self._check_outputs(outputs, seen)

    def _check_outputs(self, outputs: dict[bytes, Input], seen: dict[bytes, int]) -> None:
        """Each record is transformed once, and all are before the position of the group."""
        groups = self._cluster.groups
        counted = Counter(
            (each.topic_partition, each.offset)
            for value, each in outputs.items()
            if seen.get(value)
        )
        twice = [place for place, times in counted.items() if times > 1]
        if twice:
            raise Violation("C", f"{twice} are transformed more than once")
        topic = self._cluster.topic()
        assert topic is not None
        if groups is None:
            return
        for number in topic.partitions:
            tp = TopicPartition(topic.name, number)
            committed = groups.ghost.position("y0g", tp)
            end = 0 if committed is None else committed.offset
            done = {offset for where, offset in counted if where == tp}
            wanted = set(self._inputs(topic.topic_id, number, end))
            if done != wanted:
                raise Violation(
                    "C", f"{tp}: up to {end} transformed is {done - wanted}, not {wanted - done}"
                )
            self._sometimes["transactions: records transformed"] += len(done)

    def _inputs(self, topic_id: TopicId, number: int, end: int) -> Iterator[int]:
        """The offsets below `end` of what transformers are to transform."""
        ghost = self._cluster.shadows.ghost(topic_id, number)
        for batch in ghost.committed:
            original = ghost.contents.of(batch.mark)
            if ghost.transactions.is_hidden(batch.base, read_committed=True):
                continue
            for offset, value in enumerate(original.values, batch.base):
                if offset < end and not (value or b"").startswith(OWN):
                    yield offset

    def _check_client(self, client: ClientTransaction, times: list[int]) -> None:
        wanted: set[int] = {0, 1}
        if client.told is not None:
            wanted = {1} if client.told else {0}
        elif not client.asked_commit:
            wanted = {0}
        if not set(times) <= wanted or len(set(times)) > 1:
            raise Violation("C", f"{client}: readers see its records {times} times")
        if client.values:
            what = {True: "committed", False: "aborted", None: "unknown to its producer"}
            self._sometimes[f"transactions: {what[client.told]}"] += 1
            if client.told is None and times[0]:
                self._sometimes["transactions: committed, and its producer does not know"] += 1
