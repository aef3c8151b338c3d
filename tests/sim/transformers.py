"""Applications that read, transform and send: what they have read is committed by the transaction
that has what they made of it.

One group and one transactional id belong together, as one instance after the other takes all
partitions. Each record that readers of committed records see counts once, whichever process
crashes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from pylog import errors
from pylog.client.consumer.collecting import Parts
from pylog.client.membership.messages import OffsetFetch, OffsetsFetched
from pylog.client.membership.wire import GroupWire
from pylog.client.sending.transaction_events import CommitOffsets, OperationDone, TransactionRequest
from pylog.client.sending.transaction_state import TransactionState
from pylog.model import (
    CONSUMER_OFFSETS,
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    TopicId,
    TopicPartition,
)
from pylog.rpc import apis
from pylog_broker.coordinator.runtime.runtime import partition_for
from tests.sim.consumers import ConsumerApp
from tests.sim.coordinator_shell import Refused, UnaryCall
from tests.sim.group_ghost import CommitRequest
from tests.sim.rpc import Rpc
from tests.sim.transaction_ghost import OWN
from tests.sim.transactional_producers import THINK_MS, TransactionalApp

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster
    from tests.sim.transaction_apps import TransactionApps

FETCH_MS = 1_500
INPUTS_MAX = 5


class Input(NamedTuple):
    """A record that was read."""

    topic_partition: TopicPartition
    topic_id: TopicId
    offset: int
    value: bytes


class _Reader(ConsumerApp):
    """Reads for a transformer, from where it is told to."""

    def __init__(self, cluster: Cluster, owner: Transformer) -> None:
        name = f"{owner.name} reader"
        super().__init__(cluster, name, roams=False, reset="none", read_committed=True)
        self._owner = owner
        self.reads_all = False
        self.inputs: deque[Input] = deque()
        self.is_placed = False

    def go_to(self, places: dict[TopicPartition, int]) -> None:
        """Read from there on."""
        self.inputs.clear()
        self.is_placed = True
        for tp, offset in places.items():
            partition = self.positions.partitions[tp]
            self._forget_place(tp)
            self.positions.seek(partition, offset)
        self._begin_at_places(self._topic_id)
        self.look()

    @property
    def partitions(self) -> list[TopicPartition]:
        """All that it knows of."""
        return sorted(self.positions.partitions)

    def place(self, tp: TopicPartition) -> int:
        """The offset up to which it has read."""
        return self._read[tp].position

    def _take(self, parts: Parts) -> None:
        taken = [
            Input(tp, self._read[tp].topic_id, each.offset, each.value or b"")
            for tp, records in parts
            for each in records
        ]
        super()._take(parts)
        self.inputs += taken

    def _raise_faults(self) -> None:
        """One that has lost its place asks its group for it."""
        for partition in self.positions.partitions.values():
            if partition.error is not None and not partition.buffer:
                self._owner.lost_place()
                return

    @property
    def waits_for(self) -> list[str]:
        return []


class Transformer(TransactionalApp):
    """One instance of it."""

    def __init__(
        self,
        cluster: Cluster,
        apps: TransactionApps,
        name: str,
        transactional_id: str,
        timeout_ms: int,
    ) -> None:
        self.group_id = f"{transactional_id}g"
        super().__init__(cluster, apps, name, transactional_id, timeout_ms)
        assert cluster.groups is not None
        self._group_ghost = cluster.groups.ghost
        self.reader = _Reader(cluster, self)
        self._wire = GroupWire(name, FETCH_MS, require_stable=True)
        self._fetches: dict[int, Rpc] = {}
        self._taken: list[Input] = []
        self._begun_at: dict[TopicPartition, int] = {}
        self._commits = 0
        self.outputs: dict[bytes, Input] = apps.outputs

    def start(self) -> None:
        """Read, too."""
        super().start()
        self.reader.start()

    def crash(self) -> None:
        super().crash()
        self.reader.leave()

    def lost_place(self) -> None:
        """The reader does not know where to go on."""
        self.reader.is_placed = False

    # ---- places

    def _begin(self) -> None:
        if not self.alive or self._has_said_last:
            return
        if not self.reader.is_placed or set(self.reader.partitions) != set(self._begun_at):
            self._ask_for_places(self._begin)
            return
        super()._begin()

    def _ask_for_places(self, then: Callable[[], None]) -> None:
        """Ask for the group's committed offsets; an open transaction of it has to be ended
        first."""
        partitions = tuple(self.reader.partitions)
        image = self.cluster.image
        topic = image.topics_by_name.get(CONSUMER_OFFSETS)
        if not partitions:
            self.timer(30, then)
            return
        if topic is None:
            self._placed(partitions, OffsetsFetched())
            self.timer(1, then)
            return
        number = partition_for(self.group_id, len(topic.partitions))
        process = self.cluster.process(topic.partitions[number].leader)
        if process is None or process.groups is None:
            self.timer(30, then)
            return
        broker = process.broker_id
        rpc = self._fetches.get(broker)
        if rpc is None or not rpc.open or rpc.server is not process:
            rpc = self._fetches[broker] = Rpc(self.cluster.net, self, process)
        request = OffsetFetch(broker, self.group_id, partitions)

        def answered(answer: Any) -> None:
            if answer is not None and not isinstance(answer, Refused):
                told: Any = self._wire.answer(request, answer)
                self._placed(partitions, told)
            self.timer(20, then)

        message = self._wire.message(request, lambda _name: "")
        call = UnaryCall(apis.OFFSET_FETCH.key, message, self.name)
        rpc.request(process.groups.serve, call, answered, FETCH_MS)

    def _placed(self, partitions: tuple[TopicPartition, ...], told: OffsetsFetched) -> None:
        faults = [each.code for each in told.partitions if each.code]
        if told.code or faults:
            name = errors.ERRORS_BY_CODE[told.code or faults[0]].__name__
            self.cluster.sometimes[f"transactions: OffsetFetch answered {name}"] += 1
            return
        self.cluster.sometimes["transactions: place fetched"] += 1
        places = dict.fromkeys(partitions, 0)
        for each in told.partitions:
            if each.committed is not None:
                places[each.topic_partition] = each.committed.offset
        self._begun_at = places
        self.reader.go_to(places)

    # ---- transactions

    def _go_on(self, left: int) -> None:
        """Transform some records, commit how far it has read, then end it."""
        if not self.alive:
            return
        if self.now_ms() < self._stalled_until_ms:
            self.timer(20, self._go_on, left)
            return
        if self.transactions.state is not TransactionState.IN_TRANSACTION:
            self._end(commits=False)
            return
        buffer = self._buffer()
        assert buffer is not None
        inputs = self.reader.inputs
        for _ in range(min(len(inputs), INPUTS_MAX)):
            each = inputs.popleft()
            self._taken.append(each)
            if each.value.startswith(OWN):
                continue
            number = self._number
            self._add(buffer, b"%d" % (number % 10), None, is_deletion=False)
            if self._number == number:
                inputs.appendleft(self._taken.pop())  # no room
                break
            self.outputs[f"{self.name}.{number}".encode()] = each
        self._step(self.sender.poll(self.now_ms()))
        wait_ms = self.rng.expovariate(1.0 / THINK_MS)
        self.timer(wait_ms, self._send_offsets)

    def _send_offsets(self) -> None:
        if not self.alive:
            return
        if self.now_ms() < self._stalled_until_ms:
            self.timer(20, self._send_offsets)
            return
        if self.transactions.state is not TransactionState.IN_TRANSACTION:
            self._end(commits=False)
            return
        self._commits += 1
        tag = f"{self.name}/{self._commits}"
        offsets: dict[TopicPartition, int] = {}
        for each in self._taken:
            offsets[each.topic_partition] = each.offset + 1
        self._note(tag, offsets)
        committed = {tp: OffsetAndMetadata(offset, tag) for tp, offset in offsets.items()}
        try:
            self.transactions.send_offsets(ConsumerGroupMetadata(self.group_id), committed)
        except errors.PylogError as error:
            self._hears(error)
            return
        self._step(self.sender.poll(self.now_ms()))

    def _note(self, tag: str, offsets: dict[TopicPartition, int]) -> None:
        ghost: Any = self._group_ghost
        for each in self._taken:
            tp = each.topic_partition
            ghost.processed(self, tp, each.topic_id, self._begun_at[tp], each.offset + 1)
        asked = CommitRequest(
            tag,
            self.name,
            self.group_id,
            "",
            -1,
            self.cluster.scheduler.now_us,
            offsets,
            frozenset(),
        )
        for each in self._taken[:1]:
            ghost.commits(self, asked, each.topic_id)

    def _operation_done(self, effect: OperationDone) -> None:
        if effect.operation.call != "send_offsets_to_transaction()":
            super()._operation_done(effect)
            return
        self.timer(self.rng.random() * 2, self._offsets_sent, effect)

    def _offsets_sent(self, effect: OperationDone) -> None:
        self.transactions.collected(effect.operation)
        if effect.error is not None:
            self._hears(effect.error)
            return
        self.cluster.sometimes["transactions: offsets sent"] += 1
        wait_ms = self.rng.expovariate(1.0 / THINK_MS)
        self.timer(wait_ms, self._decide)

    def _decide(self) -> None:
        if not self.alive:
            return
        if self.now_ms() < self._stalled_until_ms:
            self.timer(20, self._decide)
            return
        self._end(commits=self._is_last or self.rng.random() < 0.75)

    def _end(self, *, commits: bool) -> None:
        if not commits:
            self.reader.is_placed = False  # what was read has to be read again
        self._taken = []
        super()._end(commits=commits)

    def _ask_coordinator(self, request: TransactionRequest) -> None:
        if isinstance(request, CommitOffsets):
            self.cluster.sometimes["transactions: offsets asked to be kept"] += 1
        super()._ask_coordinator(request)
