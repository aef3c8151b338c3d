"""A share consumer's core against brokers that a dumb twin plays: answers are lost and late,
sessions are evicted, leaders move. No acknowledged accept is delivered again, each commit is
answered, and when faults end every record is accepted.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from pylog import errors
from pylog.client.answers import Answer
from pylog.client.cluster.metadata import (
    Address,
    BrokerInfo,
    ClusterMetadata,
    ClusterSnapshot,
    PartitionInfo,
    TopicInfo,
)
from pylog.client.fetching.fetch_events import RefreshMetadata
from pylog.client.membership.group_identity import GroupIdentity, MembershipSettings
from pylog.client.membership.messages import CoordinatorFound, FindCoordinator
from pylog.client.sharing.ack_ranges import offsets_of
from pylog.client.sharing.acknowledgements import CommitResults
from pylog.client.sharing.messages import (
    AcquiredRange,
    PartitionShared,
    ShareAcknowledge,
    ShareAnswer,
    SharedPartition,
    ShareFetch,
    ShareHeartbeat,
    ShareHeartbeatAnswer,
)
from pylog.client.sharing.share_core import ShareCore
from pylog.client.sharing.share_requests import ShareSettings
from pylog.model import AcknowledgeType, TopicPartition
from pylog.records.record import Record

PARTITIONS = 3
RECORDS = 12
BROKERS = (1, 2)
ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
Place = tuple[int, int]


@dataclass
class Session:
    """A broker's state of the member."""

    epoch: int = 0
    partitions: set[int] = field(default_factory=set)


class Cluster:
    """Two brokers, and what became of each record."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.leaders = [rng.choice(BROKERS) for _ in range(PARTITIONS)]
        self.epoch = 1
        self.sessions: dict[int, Session | None] = dict.fromkeys(BROKERS)
        self.held: dict[Place, int] = {}  # by which broker's session
        self.done: set[Place] = set()
        self.counts: dict[Place, int] = {}

    def drop(self, broker: int) -> None:
        """The member's session there is over."""
        self.sessions[broker] = None
        self.held = {place: b for place, b in self.held.items() if b != broker}

    def move(self) -> None:
        """Another broker leads a partition."""
        partition = self.rng.randrange(PARTITIONS)
        self.leaders[partition] = self.rng.choice(BROKERS)
        self.epoch += 1
        self.held = {place: b for place, b in self.held.items() if place[0] != partition}

    def snapshot(self) -> ClusterSnapshot:
        brokers = tuple(BrokerInfo(number, Address("h", number)) for number in BROKERS)
        partitions = tuple(PartitionInfo(leader, self.epoch) for leader in self.leaders)
        return ClusterSnapshot("c", 1, brokers, None, (TopicInfo("t", "id", False, partitions),))

    def handle(self, request: ShareFetch | ShareAcknowledge) -> ShareAnswer:
        """As a broker does, at once."""
        session = self.sessions[request.broker]
        if isinstance(request, ShareFetch) and request.epoch == 0:
            assert not request.acks
            self.drop(request.broker)
            session = self.sessions[request.broker] = Session()
        elif session is None:
            return ShareAnswer(code=errors.ShareSessionNotFound.code)
        elif request.epoch != -1:
            assert request.epoch == session.epoch + 1, "epochs follow each other"
            session.epoch += 1
        told: dict[int, PartitionShared] = {}
        for place, ranges in request.acks:
            told[place.partition] = self._acknowledge(request.broker, place, ranges)
        if request.epoch == -1:
            self.drop(request.broker)
        elif isinstance(request, ShareFetch):
            session.partitions |= {place.partition for place in request.added}
            session.partitions -= {place.partition for place in request.forgotten}
            self._acquire(request, session, told)
        return ShareAnswer(tuple(told.values()), 30_000)

    def _acknowledge(self, broker: int, place: SharedPartition, ranges: Any) -> PartitionShared:
        answer = PartitionShared("id", place.partition)
        acks = {(place.partition, offset): kind for offset, kind in offsets_of(ranges)}
        if self.leaders[place.partition] != broker:
            return answer._replace(ack_code=errors.NotLeaderOrFollower.code)
        if any(self.held.get(each) != broker for each in acks):
            return answer._replace(ack_code=errors.InvalidRecordState.code)
        if self.rng.random() < 0.1:
            return answer._replace(ack_code=errors.CoordinatorNotAvailable.code)
        for each, kind in acks.items():
            if kind == RENEW:
                continue
            del self.held[each]
            if kind in (ACCEPT, REJECT):
                self.done.add(each)
        return answer

    def _acquire(
        self, request: ShareFetch, session: Session, told: dict[int, PartitionShared]
    ) -> None:
        left = request.max_records
        for partition in sorted(session.partitions):
            answer = told.get(partition, PartitionShared("id", partition))
            if self.leaders[partition] != request.broker:
                leader = self.leaders[partition] if self.rng.random() < 0.5 else -1
                told[partition] = answer._replace(
                    code=errors.NotLeaderOrFollower.code, leader=leader, leader_epoch=self.epoch
                )
                continue
            free = [
                offset
                for offset in range(RECORDS)
                if (partition, offset) not in self.done and (partition, offset) not in self.held
            ][:left]
            left -= len(free)
            for offset in free:
                self.held[partition, offset] = request.broker
                self.counts[partition, offset] = self.counts.get((partition, offset), 0) + 1
            if free:
                ranges = tuple(AcquiredRange(at, at, self.counts[partition, at]) for at in free)
                told[partition] = answer._replace(acquired=ranges, batches=b"x")


class User:
    """A program in the explicit mode, over the core."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.cluster = Cluster(self.rng)
        self.metadata = ClusterMetadata()
        self.metadata.update(self.cluster.snapshot())
        settings = ShareSettings(max_poll_records=7, strict=self.rng.random() < 0.5)
        self.core = ShareCore(
            settings, MembershipSettings(), GroupIdentity("g", member_id="me"), self.metadata,
            self.rng.random, explicit=True,
        )  # fmt: skip
        self.now_ms = 0
        self.in_flight: list[tuple[Any, ShareAnswer | None]] = []
        self.commits: list[tuple[Answer[CommitResults], set[Place]]] = []
        self.accepted: set[Place] = set()
        self.core.subscribe(("t",))

    # ---- what brokers and time do -------------------------------------------------------------

    def look(self) -> None:
        """Poll the core, and have the brokers handle what it sends."""
        for effect in self.core.poll(self.now_ms).effects:
            match effect:
                case FindCoordinator():
                    self.core.on_answer(self.now_ms, effect, CoordinatorFound(1))
                    self.look()
                case ShareHeartbeat(epoch=0):
                    target = (("id", "t", tuple(range(PARTITIONS))),)
                    answer = ShareHeartbeatAnswer(1, 5_000, target)
                    self.core.on_answer(self.now_ms, effect, answer)
                    self.look()
                case ShareFetch() | ShareAcknowledge():
                    others = {request.broker for request, _ in self.in_flight}
                    is_last = effect.epoch == -1  # it may come while a fetch waits for records
                    assert is_last or effect.broker not in others, "one request at a time"
                    self.in_flight.append((effect, self.cluster.handle(effect)))
                case RefreshMetadata():
                    self.metadata.update(self.cluster.snapshot())
                    self.core.on_metadata(self.now_ms)
                case _:
                    pass

    def answer(self, *, faults: bool) -> None:
        """A request has its answer, or the connection breaks, before or after it was handled."""
        if not self.in_flight:
            return
        request, answer = self.in_flight.pop(self.rng.randrange(len(self.in_flight)))
        assert answer is not None
        if faults and self.rng.random() < 0.1:
            self.cluster.drop(request.broker)
            self.core.on_no_answer(self.now_ms, request, errors.BrokerUnreachable("gone"))
            return
        self.core.on_answer(self.now_ms, request, answer)

    # ---- what the program does ----------------------------------------------------------------

    def work(self) -> None:
        """Decide about all that is in hand, commit, and take what comes next."""
        hand = self.core.hand
        for place, records in hand.take_renewed():
            self._decide(place, records, renews=False)
        parcels = hand.take_decided()
        wanted = {
            (parcel.partition.partition, offset)
            for parcel in parcels
            for offset, kind in offsets_of(parcel.ranges)
            if kind == ACCEPT
        }
        answer = self.core.commit(self.now_ms, parcels, 1_000_000)
        self.commits.append((answer, wanted))
        if hand.renews:
            return
        self.core.on_user_poll(self.now_ms, [], wants=True)
        acquired = self.core.requests.take(self.now_ms)
        if acquired is None:
            return
        number = acquired.partition.partition
        offsets = [each.first_offset for each in acquired.ranges]
        again = self.accepted & {(number, offset) for offset in offsets}
        assert not again, "an acknowledged accept is delivered again"
        records = [Record.of("t", number, offset) for offset in offsets]
        hand.add(acquired, records)
        self._decide(acquired.partition, records)

    def _decide(
        self, place: SharedPartition, records: list[Record], *, renews: bool = True
    ) -> None:
        kinds = (ACCEPT, ACCEPT, ACCEPT, RELEASE, *((RENEW,) if renews else ()))
        for record in records:
            kind = self.rng.choice(kinds)
            self.core.hand.decide(place.topic_partition, record.offset, kind)

    def settle(self) -> None:
        """Note what commits say."""
        left = []
        for answer, wanted in self.commits:
            if not answer.done:
                left.append((answer, wanted))
                continue
            results = answer.result()
            for number, offset in wanted:
                if results[TopicPartition("t", number)] is None:
                    assert (number, offset) in self.cluster.done
                    self.accepted.add((number, offset))
        self.commits = left

    def step(self, *, faults: bool) -> None:
        self.now_ms += self.rng.choice((0, 1, 50, 400))
        act = self.rng.random()
        if faults and act < 0.04:
            self.cluster.move()
        elif faults and act < 0.08:
            self.cluster.drop(self.rng.choice(BROKERS))
        elif act < 0.55:
            self.answer(faults=faults)
        else:
            self.work()
        self.look()
        self.settle()


@pytest.mark.parametrize("seed", range(30))
def test_whatever_happens_records_are_accepted_once(seed: int) -> None:
    user = User(seed)
    for _ in range(150):
        user.step(faults=True)
    for number in range(2_000):
        user.step(faults=False)
        if number % 200 == 199:
            user.cluster.held.clear()  # locks end, as of what was acknowledged with a lost one
        if len(user.cluster.done) == PARTITIONS * RECORDS and not user.commits[:-1]:
            break
    assert len(user.cluster.done) == PARTITIONS * RECORDS
    user.core.requests.close()
    for _ in range(20):
        user.now_ms += 400
        user.look()
        user.answer(faults=False)
    user.settle()
    assert user.commits == []
    assert user.core.requests.close().done
    assert user.cluster.held == {}
