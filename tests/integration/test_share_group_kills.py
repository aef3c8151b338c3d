"""A share group at work while its brokers are killed: what was accepted is never delivered again,
nothing is delivered too often, and nothing is lost.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator

import grpc
import pytest

from pylog import AdminClient, ConfigResource, LocalCluster
from pylog.clock import SYSTEM_CLOCK
from pylog.records.builder import encode_batch
from pylog.rpc.v1 import group_pb2, log_pb2, share_pb2
from tests.fakes.raw_client import RawClient
from tests.fakes.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.slow]

TOPIC, GROUP = "work", "workers"
PARTITIONS, RECORDS, MEMBERS, LIMIT = 2, 10_000, 5, 5
ACCEPT, RELEASE, REJECT = 1, 2, 3
CONFIG = {
    "group.share.record.lock.duration.ms": "3000",
    "group.share.min.record.lock.duration.ms": "1000",
    "offsets.topic.num.partitions": "2",
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.snapshot.update.records.per.snapshot": "20",
    "share.coordinator.state.topic.prune.interval.ms": "1000",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(3, config=CONFIG) as running:
        yield running
        for log in sorted((running.data_dir / "logs").iterdir()):
            text = log.read_text()
            assert "Traceback" not in text, text[-5000:]
            assert "a defect" not in text


class Ledger:
    """The records that all members have seen, and their acknowledgements. A tick is a moment in the
    order of events."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.tick = 0
        self.accepted: dict[tuple[int, int], int] = {}
        self.rejected: set[tuple[int, int]] = set()
        self.delivered: Counter[tuple[int, int]] = Counter()
        self.counts: dict[tuple[int, int], int] = {}
        self.violations: list[str] = []
        self.said: set[tuple[int, int]] = set()
        """The records for which an acknowledgement that ends them was sent, answered or not."""

    def now(self) -> int:
        with self.lock:
            self.tick += 1
            return self.tick

    def got(self, since: int, record: tuple[int, int], count: int) -> None:
        with self.lock:
            self.delivered[record] += 1
            self.counts[record] = max(count, self.counts.get(record, 0))
            if self.accepted.get(record, since) < since:
                self.violations.append(f"{record} was delivered after it was accepted")
            if count > LIMIT:
                self.violations.append(f"{record} was delivered {count} times")

    def done(self, record: tuple[int, int], type_: int) -> None:
        with self.lock:
            self.tick += 1
            if type_ == ACCEPT:
                self.accepted.setdefault(record, self.tick)
            elif type_ == REJECT:
                self.rejected.add(record)

    def sends(self, record: tuple[int, int], type_: int) -> None:
        if type_ != RELEASE:
            with self.lock:
                self.said.add(record)

    @property
    def over(self) -> set[tuple[int, int]]:
        """Records that may be done: acknowledged, or delivered as often as they may be."""
        spent = {record for record, count in self.counts.items() if count >= LIMIT}
        return self.said | spent


class Worker(threading.Thread):
    """A member that fetches one partition."""

    def __init__(self, raw: RawClient, ledger: Ledger, number: int, topic_id: str) -> None:
        super().__init__(name=f"worker-{number}", daemon=True)
        self.raw = raw
        self.ledger = ledger
        self.rng = random.Random(number)
        self.partition = number % PARTITIONS
        self.topic_id = topic_id
        self.stopped = threading.Event()
        self.fault: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.stopped.is_set():
                try:
                    self.session(self.leader())
                except (grpc.RpcError, LookupError):
                    SYSTEM_CLOCK.sleep(0.1)
        except BaseException as error:  # noqa: BLE001 -- the test tells it
            self.fault = error

    def leader(self) -> str:
        for server in range(len(self.raw.servers)):
            try:
                return self.raw.leader(TOPIC, self.partition, server=server)
            except (grpc.RpcError, ValueError, IndexError):
                continue
        raise LookupError("nobody knows the leader")

    def session(self, server: str) -> None:
        """One share session, until something is wrong with it."""
        stub = self.raw.share(server)
        request = share_pb2.ShareFetchRequest(
            group_id=GROUP, member_id=self.name, max_wait_ms=200, min_bytes=1, max_bytes=1 << 20,
            max_records=self.rng.choice((50, 300)), batch_size=500,
            acquire_mode=share_pb2.RECORD_LIMIT,
        )  # fmt: skip
        item = request.partitions.add(topic_id=self.topic_id, partition=self.partition)
        acks: dict[int, int] = {}
        while not self.stopped.is_set():
            since = self.ledger.now()
            answer = stub.ShareFetch(request, timeout=20)
            if answer.error.code:
                return
            request.share_session_epoch += 1
            got = []
            for data in answer.partitions:
                if not data.acknowledge_error.code:
                    for offset, type_ in acks.items():
                        self.ledger.done((self.partition, offset), type_)
                for each in data.acquired:
                    for offset in range(each.first_offset, each.last_offset + 1):
                        self.ledger.got(since, (self.partition, offset), each.delivery_count)
                        got.append(offset)
                if data.error.code:
                    return
            del item.acknowledgements[:]
            draw = self.rng.choices((ACCEPT, RELEASE, REJECT), (90, 8, 2), k=len(got))
            acks = dict(zip(got, draw, strict=True))
            for offset, type_ in acks.items():
                self.ledger.sends((self.partition, offset), type_)
                item.acknowledgements.add(
                    first_offset=offset, last_offset=offset, types=bytes((type_,))
                )


def test_a_group_at_work_while_brokers_are_killed(cluster: LocalCluster, raw: RawClient) -> None:
    raw.create_topic(TOPIC, PARTITIONS, 3)
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        name = ConfigResource("group", GROUP)
        admin.incremental_alter_configs({name: {"share.auto.offset.reset": "earliest"}})
    topic_id = raw.metadata(TOPIC).topics[0].topic_id
    join(raw)
    for partition in range(PARTITIONS):
        for _ in range(RECORDS // 500):
            batch = encode_batch([b"v"] * 500, timestamps=SYSTEM_CLOCK.wall_ms())
            ack = raw.produce(raw.leader(TOPIC, partition), TOPIC, batch, partition)
            assert ack.error.code == 0, ack.error
    ledger = Ledger()
    workers = [Worker(raw, ledger, number, topic_id) for number in range(MEMBERS)]
    for worker in workers:
        worker.start()
    for broker in cluster.brokers:
        SYSTEM_CLOCK.sleep(0.5)
        cluster.kill(broker)
        SYSTEM_CLOCK.sleep(0.5)
        cluster.start(broker)
    try:
        eventually(120, lambda: lags(raw) == [0] * PARTITIONS or bool(ledger.violations), "it ends")
    finally:
        for worker in workers:
            worker.stopped.set()
        for worker in workers:
            worker.join(30)
    assert [worker.fault for worker in workers] == [None] * MEMBERS
    assert ledger.violations == []
    everything = {(p, offset) for p in range(PARTITIONS) for offset in range(RECORDS)}
    assert everything - ledger.over == set()
    assert len(ledger.accepted) > 0.8 * len(everything)
    eventually(30, lambda: any(start > 0 for start in log_starts(raw)), "state is pruned")


def log_starts(raw: RawClient) -> list[int]:
    """The log start offsets of the partitions of the topic that has the group's state."""
    starts = []
    for partition in range(2):
        request = log_pb2.ListOffsetsRequest()
        request.partitions.add(
            topic="__share_group_state",
            partition=partition,
            timestamp_ms=-2,
            current_leader_epoch=-1,
        )
        server = raw.leader("__share_group_state", partition)
        (found,) = raw.log(server).ListOffsets(request, timeout=20).partitions
        starts.append(found.offset)
    return starts


def lags(raw: RawClient) -> list[int]:
    """The lags of the partitions; empty while they cannot be told."""
    request = share_pb2.DescribeShareGroupOffsetsRequest()
    request.groups.add(group_id=GROUP, all=True)
    for server in raw.servers[1:]:
        try:
            (answer,) = raw.share(server).DescribeShareGroupOffsets(request, timeout=20).groups
        except grpc.RpcError:
            continue
        if not answer.error.code:
            return [each.lag for each in answer.offsets]
    return []


def join(raw: RawClient) -> None:
    """A member has the group's state made."""

    def joined() -> bool:
        for server in raw.servers[1:]:
            request = share_pb2.ShareGroupHeartbeatRequest(group_id=GROUP, member_id="worker-0")
            request.subscribed_topics.names.append(TOPIC)
            answer = raw.share(server).ShareGroupHeartbeat(request, timeout=20)
            if not answer.error.code and answer.assignment.topics:
                return True
        ask_for_coordinator(raw)
        return False

    eventually(40, joined, "the group has its state")


def ask_for_coordinator(raw: RawClient) -> None:
    raw.group(raw.servers[1]).FindCoordinator(
        group_pb2.FindCoordinatorRequest(keys=[GROUP]), timeout=10
    )
