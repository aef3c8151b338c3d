"""The producer's sender against replica managers with real logs, cranked by hand.

Covers one partition, t-0. Connections carry requests to brokers and answers back, each in order; a
test says when either goes on, what is refused, lost or forgotten. Every record that was ever
committed is noted, so that deleted ones still count.
"""

from __future__ import annotations

import shutil
from collections import deque
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from pylog import errors
from pylog.client.sending.producer_batch import Batch
from pylog.client.sending.send_events import (
    Ack,
    BatchDone,
    BatchFailed,
    Disconnect,
    Effect,
    RequestProducerId,
    SendRequest,
)
from pylog.client.sending.send_settings import SenderSettings
from pylog.model import BrokerId, Offset
from pylog.records.batch import iter_headers
from pylog.records.builder import encode_batch
from pylog.records.reader import decode_columns
from pylog_broker.log_dirs import directories_of
from pylog_broker.replication.effects import ProduceDone
from pylog_broker.replication.offset_messages import DeleteRecords
from tests.fakes.broker_group import T0, WALL_MS, BrokerGroup
from tests.fakes.sender_world import World

MEMBERS = (1, 2, 3)


@dataclass(slots=True)
class OnTheWire:
    """A request on its way. `token` is set when it has arrived, `refusal` if it was turned away at
    the broker's door.
    """

    request: SendRequest
    batch: bytes
    token: object | None = None
    refusal: Ack | None = None


@dataclass(slots=True)
class Fate:
    """The course of a batch, in numbers that rise with each event; -1: not yet."""

    batch: Batch
    value: bytes
    sent: int = -1
    done: int = -1
    failed: int = -1
    error: errors.PylogError | None = None
    offset: int = -1


@dataclass(slots=True)
class ProducerOverBrokers:
    """Brokers 1 to 3, of which two must be in sync, and a producer that knows who leads."""

    root: Path
    log_start: int = 0
    group: BrokerGroup = field(init=False)
    world: World = field(init=False)
    fates: dict[Batch, Fate] = field(default_factory=dict)
    history: dict[int, bytes] = field(default_factory=dict)
    """Offset -> value of whatever was committed."""
    _wires: dict[int, deque[OnTheWire]] = field(default_factory=dict)
    _clock: count[int] = field(default_factory=count)
    _ids: count[int] = field(default_factory=lambda: count(100))

    def __post_init__(self) -> None:
        self.group = BrokerGroup(self.root, 3)
        self.group.create_topic(MEMBERS, min_isr=2)
        self.group.run()
        for number in range(self.log_start):
            self.group.produce(1, b"old-%d" % number)
            self.group.run()
        if self.log_start:
            self.delete()
        self.world = World(settings=SenderSettings(delivery_timeout_ms=20_000))
        self._wires = {member: deque() for member in MEMBERS}

    # ---- the producer ---------------------------------------------------------------------------

    def send(self, records: int = 1) -> Batch:
        """Add a batch, which goes out as soon as it may."""
        batch = self.world.add(T0, records)
        self.fates[batch] = Fate(batch, b"%d" % len(self.fates))
        self.perform(self.world.poll())
        return batch

    def perform(self, effects: list[Effect]) -> None:
        """Carry out what the sender decided."""
        for effect in effects:
            match effect:
                case SendRequest(broker, _, (batch,)):
                    fate = self.fates[batch]
                    if fate.sent < 0:
                        fate.sent = next(self._clock)
                    encoded = encode_batch(
                        [fate.value] * batch.count,
                        producer_id=batch.producer_id,
                        producer_epoch=batch.producer_epoch,
                        base_sequence=batch.base_sequence,
                        timestamps=WALL_MS,
                    )
                    self._wires[broker].append(OnTheWire(effect, encoded))
                case BatchDone(batch, offset, _):
                    self.fates[batch].done, self.fates[batch].offset = next(self._clock), offset
                case BatchFailed(batch, error):
                    self.fates[batch].failed, self.fates[batch].error = next(self._clock), error
                case RequestProducerId():
                    number = next(self._ids)
                    self.perform(self.world.sender.on_producer_id(self.world.now_ms, number, 0))
                case Disconnect(broker):
                    self._wires[broker].clear()

    def pass_time(self, ms: int) -> None:
        """For producer and brokers."""
        self.group.advance(ms)
        self.perform(self.world.poll(ms))
        self._note()

    def learn_leader(self) -> None:
        """The producer hears who leads."""
        record = self.group.record()
        self.world.lead(record.leader, 2, 1, epoch=record.leader_epoch)
        self.perform(self.world.sender.on_metadata(self.world.now_ms))

    # ---- connections ----------------------------------------------------------------------------

    def arrive(self, broker: int, *, refusal: type[errors.PylogError] | None = None) -> bool:
        """The next request arrives, and is turned away with `refusal`; False: there is none."""
        waiting = next((w for w in self._wires[broker] if w.token is None), None)
        if waiting is None:
            return False
        waiting.token = waiting
        if refusal is not None:
            waiting.refusal = Ack(refusal.code, "turned away")
        else:
            waiting.token = self.group.produce(broker, batch=waiting.batch)
            self.group.run()
            self._note()
        return True

    def answer(self, broker: int) -> bool:
        """The next answer goes back; False: none is there."""
        wire = self._wires[broker]
        ack = self._ack(wire[0]) if wire else None
        if ack is None:
            return False
        correlation = wire.popleft().request.correlation
        self.perform(self.world.acks(broker, correlation, ack))
        return True

    def _ack(self, waiting: OnTheWire) -> Ack | None:
        if waiting.refusal is not None:
            return waiting.refusal
        done = self.group.answers.get(waiting.token)
        if done is None:
            return None
        assert isinstance(done, ProduceDone)
        (ack,) = done.acks
        if ack.failure is None:
            return Ack(0, base_offset=ack.base_offset)
        return Ack(
            ack.failure.code,
            ack.failure.message,
            base_offset=ack.base_offset,
            leader=ack.current_leader,
            leader_epoch=ack.current_leader_epoch,
        )

    def disconnect(self, broker: int, *, arriving: int = 0) -> None:
        """The connection breaks; the first so many requests that were on their way arrive."""
        for _ in range(arriving):
            self.arrive(broker)
        self._wires[broker].clear()
        self.perform(self.world.sender.on_disconnected(self.world.now_ms, broker, "reset"))

    # ---- the cluster ----------------------------------------------------------------------------

    @property
    def leader(self) -> int:
        return int(self.group.record().leader)

    def shrink(self) -> None:
        """Only the leader is in sync."""
        self.group.set_isr(self.leader)
        self.group.tell()
        self.group.run()

    def hold_replication(self) -> None:
        """Followers hear nothing from the leader until `restore`; what comes waits for them."""
        followers = (BrokerId(member) for member in MEMBERS if member != self.leader)
        self.group.cut_links |= {(follower, BrokerId(self.leader)) for follower in followers}

    def restore(self) -> None:
        """All are in sync."""
        self.group.cut_links.clear()
        for _ in range(20):
            if set(self.group.record().isr) == set(MEMBERS):
                break
            self.group.advance(1_000)
        assert set(self.group.record().isr) == set(MEMBERS), self.group.record()
        self._note()

    def elect(self, broker: int) -> bool:
        """A replica that is in sync becomes the leader; False: that one is not."""
        if broker == self.leader or broker not in self.group.record().isr:
            return False
        self.group.elect(broker)
        self.group.tell()
        self.group.run()
        self._note()
        return True

    def delete(self) -> None:
        """DeleteRecords of all that is committed."""
        _, high_watermark, _ = self.group.marks(self.leader)
        self.group.send(self.leader, DeleteRecords(((T0, Offset(high_watermark)),), 10_000))
        self.group.run()

    def rebuild(self, broker: int) -> None:
        """A follower loses its disk and begins anew, from where the log begins."""
        assert broker != self.leader
        self.group.set_isr(*(member for member in self.group.record().isr if member != broker))
        self.group.tell()
        self.group.run()
        self.group.stop(BrokerId(broker))
        for directory in directories_of(str(self.root), BrokerId(broker), self.group.log_dirs):
            shutil.rmtree(directory)
        self.group.start(BrokerId(broker))
        self.group.run()

    def lose_state(self) -> None:
        """The leader forgets its producers, as after `producer.id.expiration.ms`."""
        log = self.group.logs[BrokerId(self.leader)].get(T0)
        assert log is not None
        log.expire_producers(WALL_MS + 1_000, 1)

    def may_forget(self) -> bool:
        """Whether a log that forgets stored batches would still tell those sent again from new
        ones. It would take one of sequence 0, which begins a producer, in Kafka too; so ids live
        longer than any batch is retried.
        """
        lane = self.world.sender.dispatcher.lanes.get(T0)
        return lane is None or lane.has_begun or not lane.unresolved

    def is_known(self) -> bool:
        """Whether the leader's log knows a producer."""
        log = self.group.logs[BrokerId(self.leader)].get(T0)
        assert log is not None
        return len(log.producers) > 0

    # ---- what is stored -------------------------------------------------------------------------

    def _note(self) -> None:
        start, high_watermark, _ = self.group.marks(self.leader)
        stored = self.group.stored(self.leader)
        for position, header in iter_headers(stored):
            if header.base_offset < start or header.last_offset >= high_watermark:
                continue
            value = decode_columns(stored, position, header).values()[0]
            assert value is not None
            before = self.history.setdefault(header.base_offset, value)
            assert before == value, f"offset {header.base_offset} was {before!r}, is {value!r}"

    @property
    def committed(self) -> list[bytes]:
        """The producer's values in the order of the log, also those deleted since."""
        ours = (self.history[offset] for offset in sorted(self.history))
        return [value for value in ours if not value.startswith(b"old")]

    def settle(self) -> None:
        """Faults end: whatever is left is acknowledged or fails."""
        self.restore()
        for _ in range(200):
            self.learn_leader()
            for broker in MEMBERS:
                while self.arrive(broker) or self.answer(broker):
                    pass
            if all(fate.done >= 0 or fate.failed >= 0 for fate in self.fates.values()):
                return
            self.pass_time(200)
        raise AssertionError("batches are neither acknowledged nor failed")

    def check(self) -> None:
        """Check all that holds in every run; call `settle` before."""
        committed = self.committed
        assert len(set(committed)) == len(committed), f"stored twice: {committed}"
        done = [fate.value for fate in self.fates.values() if fate.done >= 0]
        kept = [value for value in committed if value in set(done)]
        assert kept == done, f"acknowledged in the order {done}, stored {kept}"
        for fate in self.fates.values():
            if fate.done >= 0:
                assert self.history.get(fate.offset) == fate.value
            if isinstance(fate.error, errors.OutOfOrderSequenceNumber):
                self._check_behind(fate)

    def _check_behind(self, lost: Fate) -> None:
        """Nothing that was sent behind a batch lost for its order, and before that was told, is
        acknowledged, unless the lost one is stored before it.
        """
        committed = self.committed
        for fate in self.fates.values():
            if fate.done >= 0 and lost.sent < fate.sent < lost.failed:
                assert lost.value in committed, f"{fate.value!r} is behind a hole"
                assert committed.index(lost.value) < committed.index(fate.value)
