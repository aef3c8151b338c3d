"""Producers and a reader: they drive the cluster as the product's clients do, and remember.

An idempotent producer has at most five batches in flight on one ordered connection, sends again
from the first unanswered one after any trouble, and looks for the leader anew. What it was told is
its history; `check_history` compares that with what is committed.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from broker.replication.messages import (
    Fetch,
    FetchDone,
    PartitionAck,
    PartitionBatch,
    PartitionData,
    PartitionFetch,
    Produce,
    ProduceDone,
)
from pylog import errors
from pylog.model import BrokerId, Offset, ProducerId, TopicId, TopicPartition
from pylog.records.batch import iter_headers, read_header
from pylog.records.builder import encode_batch
from tests.sim.contents import Original
from tests.sim.ghost import Batch, PartitionGhost, Violation
from tests.sim.rpc import Actor, Machine, Rpc, unary

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster

IN_FLIGHT_MAX = 5
UNSENT_MAX = 50
QUIET_MS = (500, 4_000)


@dataclass(slots=True)
class Sent:
    """One batch of a producer and what became of it."""

    batch: bytes
    crc: int
    sequence: int
    count: int
    told: int = -1  # the offset of the "ok"
    done: bool = False


class Client(Actor):
    """What producers and readers share: finding the leader and keeping a connection to it."""

    def __init__(
        self, cluster: Cluster, name: str, topic_id: TopicId, topic_partition: TopicPartition
    ) -> None:
        super().__init__(Machine(name, cluster.scheduler, 0))
        self.cluster = cluster
        self.topic_id = topic_id
        self.topic_partition = topic_partition
        self.rng: random.Random = cluster.scheduler.rng(name)
        self.rpc: Rpc | None = None
        self.looking = False

    @property
    def ghost(self) -> PartitionGhost:
        """The ghost state of the client's partition."""
        return self.cluster.shadows.ghost(self.topic_id, self.topic_partition.partition)

    def retire(self) -> None:
        """The topic is gone: ask for nothing any more."""
        self.disconnect()
        self.alive = False

    def find_leader(self) -> None:
        """Ask any broker who leads, until one answers that can be reached."""
        if self.looking:
            return
        self.looking = True
        self._ask()

    def _ask(self) -> None:
        number = self.rng.choice(sorted(self.cluster.brokers))
        unary(
            self.cluster.net,
            self,
            lambda: self.cluster.brokers[number].process,
            lambda process, value, answer: answer(process.leader_of(value)),
            self.topic_partition,
            self._told_leader,
            200 + self.rng.random() * 200,
        )

    def _told_leader(self, leader: BrokerId | None) -> None:
        process = self.cluster.process(leader) if leader is not None and leader >= 0 else None
        if process is None:
            self.timer(20 + self.rng.random() * 80, self._ask)
            return
        self.looking = False
        if self.rpc is not None and self.rpc.open and self.rpc.server is process:
            self.connected()
            return
        self.disconnect()
        self.rpc = Rpc(self.cluster.net, self, process)
        self.connected()

    def disconnect(self) -> None:
        """Give the connection up; what was asked on it has an unknown outcome."""
        rpc, self.rpc = self.rpc, None
        if rpc is not None and rpc.open:
            rpc.close()

    def start(self) -> None:
        """Begin."""
        raise NotImplementedError

    def connected(self) -> None:
        """There is a connection to who is said to lead."""
        raise NotImplementedError


class ProducerClient(Client):
    """Writes batches until it is told to stop. Without `idempotent`: acks=1 and no producer id."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        topic_id: TopicId,
        topic_partition: TopicPartition,
        *,
        idempotent: bool,
    ) -> None:
        super().__init__(cluster, name, topic_id, topic_partition)
        self.acks = -1 if idempotent else 1
        self.producer_id = ProducerId(-1)
        self.history: list[Sent] = []
        self.waiting: deque[Sent] = deque()  # not answered yet, in order of sequence
        self.in_flight = 0
        self.attempt = 0  # answers of an earlier attempt are of no interest
        self.stopped = False
        self._sequence = 0
        self._number = 0
        self._idempotent = idempotent

    def start(self) -> None:
        """Get an id, then begin to write."""
        if not self._idempotent:
            self._write()
            self.find_leader()
            return
        number = self.rng.choice(sorted(self.cluster.brokers))
        unary(
            self.cluster.net,
            self,
            lambda: self.cluster.brokers[number].process,
            lambda process, _value, answer: process.new_producer_id(answer),
            None,
            self._got_id,
            500,
        )

    def _got_id(self, producer_id: ProducerId | None) -> None:
        if producer_id is None:
            self.timer(100, self.start)
            return
        self.producer_id = producer_id
        self.cluster.note_producer_id(producer_id)
        self._write()
        self.find_leader()

    def _write(self) -> None:
        if self.stopped:
            return
        if len(self.waiting) < UNSENT_MAX:
            self._make_batch()
            self._pump()
        wait_ms = self.rng.expovariate(1.0 / self.cluster.swarm.produce_interval_ms)
        if self.rng.random() < self.cluster.swarm.quiet_share:
            wait_ms += self.rng.randint(*QUIET_MS)
        self.timer(wait_ms, self._write)

    def _make_batch(self) -> None:
        count = self.rng.randint(1, self.cluster.swarm.records_max)
        values: list[bytes | None] = [
            f"{self.name}.{self._number + index}".encode() for index in range(count)
        ]
        self._number += count
        keys: list[bytes | None] = [None] * count
        upkeep = self.cluster.swarm.upkeep
        if upkeep is not None:
            keys = [b"%d" % self.rng.randrange(upkeep.keys) for _ in range(count)]
            values = [None if self.rng.random() < upkeep.tombstone_share else v for v in values]
        now_ms = self.cluster.wall_ms()
        batch = encode_batch(
            values,
            keys=keys,
            # a header makes each batch unlike all others, whatever its keys and values
            headers=[((self.name, b"%d" % self._number),), *[()] * (count - 1)],
            timestamps=now_ms,
            producer_id=self.producer_id,
            producer_epoch=0 if self._idempotent else -1,
            base_sequence=self._sequence if self._idempotent else -1,
        )
        sent = Sent(batch, read_header(batch).crc, self._sequence, count)
        home = (self.topic_id, self.topic_partition.partition)
        original = Original(home, tuple(keys), tuple(values), now_ms)
        self.cluster.shadows.contents.sent(sent.crc, original)
        self._sequence += count
        self.history.append(sent)
        self.waiting.append(sent)

    def connected(self) -> None:
        self.attempt += 1
        self.in_flight = 0
        self._pump()

    def _pump(self) -> None:
        rpc = self.rpc
        if rpc is None or not rpc.open or self.looking:
            if not self.looking:
                self.find_leader()
            return
        process = self.cluster.server(rpc)
        while self.in_flight < min(IN_FLIGHT_MAX, len(self.waiting)):
            sent = self.waiting[self.in_flight]
            self.in_flight += 1
            request = Produce(
                self.acks,
                self.cluster.swarm.request_timeout_ms,
                (PartitionBatch(self.topic_partition, self.topic_id, sent.batch),),
            )
            attempt = self.attempt
            rpc.request(
                process.serve_produce,
                request,
                partial(self._answered, sent, attempt),
                self.cluster.swarm.request_timeout_ms + 1_000,
            )
            if self.rpc is not rpc:
                return

    def _answered(self, sent: Sent, attempt: int, done: ProduceDone | None) -> None:
        if attempt != self.attempt:
            return
        ack = None if done is None else done.acks[0]
        if ack is not None and (ack.failure is None or self._was_there(ack)):
            self._acknowledged(sent, ack)
            return
        if not self._idempotent:
            # written or not, nobody promised anything; a retry would be another batch
            self.in_flight -= 1
            self.waiting.remove(sent)
        self._again(sent, ack)

    def _was_there(self, ack: PartitionAck) -> bool:
        return ack.failure is not None and ack.failure.code == errors.DuplicateSequenceNumber.code

    def _acknowledged(self, sent: Sent, ack: PartitionAck) -> None:
        if self._idempotent and self.waiting[0] is not sent:
            raise Violation("C", f"{self.name}: answers out of order at {sent.sequence}")
        self.in_flight -= 1
        self.waiting.remove(sent)
        sent.done = True
        sent.told = ack.base_offset
        if self.acks == -1:
            self.cluster.sometimes["acknowledged"] += 1
        self.cluster.scheduler.note("acked", self.name, sent.sequence, ack.base_offset)
        self._pump()

    def _again(self, sent: Sent, ack: PartitionAck | None) -> None:
        """Nothing of this attempt counts any more: look for the leader, send again in order."""
        code = None if ack is None or ack.failure is None else ack.failure.code
        why = None if ack is None or ack.failure is None else ack.failure.message
        self.cluster.scheduler.note("nack", self.name, sent.sequence, code, why)
        if code is not None and not _may_retry(code):
            raise Violation("C", f"{self.name}: refused with {ack}")
        if self._is_forgotten and code == errors.OutOfOrderSequenceNumber.code:
            # what it sent before is neither there nor missed: the product's client gives up, too
            self.attempt += 1
            self.waiting.clear()
            self.stopped = True
            return
        self.attempt += 1
        self.in_flight = 0
        self.disconnect()
        self.timer(20 + self.rng.random() * 100, self.find_leader)

    @property
    def _is_forgotten(self) -> bool:
        """Whether what it waits for was deleted, or compacted away, before it heard of it."""
        ghost = self.ghost
        if self.producer_id in ghost.sequences.forgotten:
            return True
        first = self.waiting[0].crc if self.waiting else None
        for batch in ghost.committed:
            if batch.crc == first:
                return batch.base < ghost.deleted_to or self._is_compacted_away(batch)
        return False

    def _is_compacted_away(self, batch: Batch) -> bool:
        """Whether compaction took a committed batch before its producer heard of it. A leader that
        was started since knows but the producer's last one, which stays: as in Kafka's snapshots.
        """
        ghost = self.ghost
        if not ghost.may_compact or ghost.record is None:
            return False
        there = ghost.shadow(ghost.record.leader).batches
        if any(b.base == batch.base for b in there):
            return False
        return any(b.producer_id == self.producer_id for b in there)

    def check_history(self) -> None:
        """Every "ok" is committed exactly once at the offset told; nothing is there twice."""
        places: dict[int, list[int]] = {}
        for batch in self.ghost.committed:
            places.setdefault(batch.crc, []).append(batch.base)
        for sent in self.history if self._idempotent and not self._is_forgotten else ():
            found = places.get(sent.crc, [])
            if len(found) > 1:
                raise Violation("C", f"{self.name}: sequence {sent.sequence} is at {found}")
            if sent.done and not found:
                raise Violation("C", f"{self.name}: acknowledged {sent.sequence} is lost")
            if sent.done and sent.told >= 0 and found != [sent.told]:
                raise Violation(
                    "C", f"{self.name}: {sent.sequence} was told {sent.told}, is at {found}"
                )


def _may_retry(code: int) -> bool:
    # out of order is what a deposed leader says, who missed what its successor acknowledged
    kind = errors.ERRORS_BY_CODE[code]
    return issubclass(kind, errors.RetriableError) or kind is errors.OutOfOrderSequenceNumber


class ReaderClient(Client):
    """Reads one partition from the start; every batch that it gets must be committed."""

    def __init__(
        self, cluster: Cluster, name: str, topic_id: TopicId, topic_partition: TopicPartition
    ) -> None:
        super().__init__(cluster, name, topic_id, topic_partition)
        self.position = 0
        self.waiting = False

    def start(self) -> None:
        """Begin to read."""
        self.find_leader()

    def connected(self) -> None:
        self._poll()

    def _poll(self) -> None:
        rpc = self.rpc
        if rpc is None or not rpc.open:
            self.find_leader()
            return
        if self.waiting:
            return
        self.waiting = True
        swarm = self.cluster.swarm
        wanted = PartitionFetch(
            self.topic_partition, self.topic_id, Offset(self.position), swarm.fetch_max_bytes
        )
        rpc.request(
            self.cluster.server(rpc).serve_fetch,
            Fetch(swarm.fetch_wait_ms, 1, swarm.fetch_max_bytes, (wanted,)),
            self._fetched,
            swarm.fetch_wait_ms + 1_000,
        )

    def _fetched(self, done: FetchDone | None) -> None:
        self.waiting = False
        data = None if done is None else done.partitions[0]
        if data is None or data.failure is not None:
            code = None if data is None or data.failure is None else data.failure.code
            if code == errors.OffsetOutOfRange.code and data is not None:
                self._out_of_range(data)
            self.cluster.scheduler.note("read fails", self.name, code)
            self.disconnect()
            self.timer(50 + self.rng.random() * 100, self.find_leader)
            return
        if data.log_start_offset > self.position:
            raise Violation(
                "C", f"{self.name} at {self.position} is served from {data.log_start_offset} on"
            )
        for position, header in iter_headers(data.records):
            if header.last_offset < self.position:
                continue
            raw = bytes(data.records[position : position + header.size])
            batch, _ = self.ghost.identify(header, raw)
            if self.ghost.committed_at(header.base_offset) != batch:
                raise Violation("I6", f"{self.name} reads {header}, which is not committed")
            self._skipped(header.base_offset)
            self.position = header.last_offset + 1
            self.cluster.sometimes["read"] += 1
        self.timer(1 + self.rng.random() * 20, self._next)

    def _next(self) -> None:
        self._poll()

    def _out_of_range(self, data: PartitionData) -> None:
        """Only what is deleted, or not there yet at a new leader, is out of range."""
        self.cluster.sometimes["reader out of range"] += 1
        start = data.log_start_offset
        if start <= self.position <= data.high_watermark:
            raise Violation(
                "C",
                f"{self.name} at {self.position} is out of range of "
                f"[{start}, {data.high_watermark}]",
            )
        if start > self.position:
            self.position = start

    def _skipped(self, offset: int) -> None:
        """What lies between the position and the next batch must be compacted away."""
        now_ms = self.cluster.true_ms()
        for missing in range(self.position, offset):
            if not self.ghost.may_compact or self.ghost.why_not_gone(missing, now_ms):
                raise Violation("C", f"{self.name} at {self.position} is given {offset}")


class WandererClient(ReaderClient):
    """Reads here and there, also where records are deleted already."""

    def _next(self) -> None:
        self.position = self.rng.randint(0, self.ghost.committed_end)
        self.timer(self.rng.random() * 500, self._poll)

    def _skipped(self, offset: int) -> None:
        """It may stand in a gap that another record closed since."""
