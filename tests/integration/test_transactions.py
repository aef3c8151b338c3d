"""Transactions of running brokers, by raw calls: commits, aborts, fences, time-outs and deaths."""

from __future__ import annotations

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from pylog import errors
from pylog.clock import SYSTEM_CLOCK
from pylog.local import LocalCluster
from pylog.records.builder import encode_batch
from pylog.rpc.v1 import group_pb2, log_pb2, transaction_pb2
from tests.fakes.raw_client import RawClient
from tests.fakes.raw_transactions import RawProducer, RawTransactions, until_it_works
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration

CONFIG = {
    "transaction.state.log.num.partitions": "6",
    "offsets.topic.num.partitions": "6",
    "min.insync.replicas": "2",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=3, config=CONFIG) as running:
        yield running
        for log in sorted((running.data_dir / "logs").iterdir()):
            text = log.read_text()
            assert "Traceback" not in text, text[-5000:]


@pytest.fixture(scope="module")
def world(cluster: LocalCluster) -> Iterator[RawTransactions]:
    with RawClient(cluster.bootstrap_servers) as client:
        yield RawTransactions(client)


@pytest.fixture
def topic(world: RawTransactions, request: pytest.FixtureRequest) -> str:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    world.raw.create_topic(name, partitions=3, replicas=3)
    return name


def producer(world: RawTransactions, name: str, **options: Any) -> RawProducer:
    made = RawProducer(world, name, **options)
    made.init()
    return made


def complete(world: RawTransactions, transactional_id: str, state: str) -> None:
    eventually(
        30, lambda: world.describe(transactional_id).state == state, f"{transactional_id} {state}"
    )


def test_a_commit_is_seen_whole_on_all_partitions(world: RawTransactions, topic: str) -> None:
    one = producer(world, topic)
    for partition in range(3):
        one.send(topic, b"a", b"b", partition=partition)
    assert [world.committed(topic, p) for p in range(3)] == [[], [], []]
    assert world.all_written(topic) == [b"a", b"b"]
    assert world.fetch(topic, committed=True).last_stable_offset == 0
    described = world.describe(topic)
    assert described.state == "Ongoing"
    assert {each.partition for each in described.partitions} == {0, 1, 2}
    epoch = one.epoch
    one.commit()
    assert one.epoch == epoch + 1
    complete(world, topic, "CompleteCommit")
    assert [world.committed(topic, p) for p in range(3)] == [[b"a", b"b"]] * 3
    assert world.fetch(topic, committed=True).high_watermark == 3, "a marker has an offset"


def test_an_abort_is_never_seen_and_the_next_transaction_is(
    world: RawTransactions, topic: str
) -> None:
    one = producer(world, topic)
    one.send(topic, b"no")
    one.abort()
    one.send(topic, b"yes")
    assert world.committed(topic) == []
    one.commit()
    complete(world, topic, "CompleteCommit")
    assert world.committed(topic) == [b"yes"]
    assert world.all_written(topic) == [b"no", b"yes"]


def test_many_transactions_in_a_row(world: RawTransactions, topic: str) -> None:
    one = producer(world, topic)
    for number in range(20):
        for partition in range(2):
            one.send(topic, b"%d" % number, partition=partition)
        one.end(committed=number % 3 != 0)
    complete(world, topic, "CompleteCommit")
    expected = [b"%d" % number for number in range(20) if number % 3]
    assert [world.committed(topic, p) for p in range(2)] == [expected, expected]


def test_the_next_transaction_begins_while_the_last_one_is_being_told(
    world: RawTransactions, topic: str
) -> None:
    """Nothing is asked in between: the first batch waits for the markers of the last end."""
    one = producer(world, topic)
    server, leader = world.coordinator(topic)[1], world.raw.log(world.leader(topic))
    for number in range(60):
        batch = encode_batch(
            [b"%d" % number], producer_id=one.producer_id, producer_epoch=one.epoch,
            base_sequence=0, transactional=True,
        )  # fmt: skip
        request = log_pb2.ProduceRequest(
            correlation=1, acks=-1, timeout_ms=10_000, transactional_id=topic,
            batches=[log_pb2.PartitionBatch(topic=topic, batch=batch)],
        )  # fmt: skip
        (ack,) = leader.Produce(request, timeout=30).acks
        assert ack.error.code == 0, ack.error.message
        end = transaction_pb2.EndTxnRequest(
            transactional_id=topic, producer_id=one.producer_id, producer_epoch=one.epoch,
            committed=True,
        )  # fmt: skip
        ended = world.transactions(server).EndTxn(end, timeout=30)
        assert ended.error.code == 0, ended.error.message
        one.producer_id, one.epoch = ended.producer_id, ended.producer_epoch
    complete(world, topic, "CompleteCommit")
    assert world.committed(topic) == [b"%d" % number for number in range(60)]


def test_a_new_instance_fences_the_old_one(world: RawTransactions, topic: str) -> None:
    old = producer(world, topic)
    old.send(topic, b"old")
    new = producer(world, topic)
    assert new.producer_id == old.producer_id
    assert new.epoch == old.epoch + 2
    with pytest.raises(errors.InvalidProducerEpoch):
        old.send(topic, b"late")
    with pytest.raises(errors.InvalidProducerEpoch):
        old.send(topic, b"late", partition=1)
    with pytest.raises(errors.ProducerFenced):
        old.commit()
    new.send(topic, b"new")
    new.commit()
    complete(world, topic, "CompleteCommit")
    assert world.committed(topic) == [b"new"]
    assert world.all_written(topic, 1) == []


def test_an_end_is_asked_for_again(world: RawTransactions, topic: str) -> None:
    one = producer(world, topic)
    one.send(topic, b"a")
    first = one.end_once(committed=True)
    assert one.end_once(committed=True) == first
    with pytest.raises(errors.InvalidTxnState):
        one.end_once(committed=False)
    one.end(committed=True)
    with pytest.raises(errors.InvalidTxnState):
        one.commit()


def test_a_late_batch_does_not_open_a_transaction_again(world: RawTransactions, topic: str) -> None:
    one = producer(world, topic)
    one.send(topic, b"a")
    late = encode_batch(
        [b"late"], producer_id=one.producer_id, producer_epoch=one.epoch, base_sequence=1,
        transactional=True,
    )  # fmt: skip
    one.commit()
    complete(world, topic, "CompleteCommit")
    for partition in (0, 1):
        ack = one.send_once(topic, partition, late)
        assert ack.error.code == errors.InvalidProducerEpoch.code
    one.send(topic, b"b")
    assert one.send_once(topic, 0, late).error.code == errors.InvalidProducerEpoch.code
    one.commit()
    complete(world, topic, "CompleteCommit")
    assert world.all_written(topic) == [b"a", b"b"]
    assert world.fetch(topic, 1, committed=True).last_stable_offset == 0


def test_a_transaction_that_is_left_open_is_aborted(world: RawTransactions, topic: str) -> None:
    one = producer(world, topic, timeout_ms=3_000)
    one.send(topic, b"left")
    complete(world, topic, "CompleteAbort")
    assert world.committed(topic) == []
    data = world.fetch(topic, committed=True)
    assert data.last_stable_offset == data.high_watermark == 2
    with pytest.raises(errors.InvalidTxnState, match="longer than its time-out of 3000 ms"):
        one.commit()
    one.abort()
    one.send(topic, b"again")
    one.commit()
    complete(world, topic, "CompleteCommit")
    assert world.committed(topic) == [b"again"]


def test_version_1_adds_its_partitions_itself(world: RawTransactions, topic: str) -> None:
    one = producer(world, topic)
    one.version = 1
    with pytest.raises(errors.InvalidTxnState, match=r"was not added|says of"):
        one.send(topic, b"a")
    one.add(topic, 0)
    one.send(topic, b"a")
    with pytest.raises(errors.InvalidTxnState):
        one.send(topic, b"a", partition=1)
    epoch = one.epoch
    one.commit()
    assert one.epoch == epoch
    complete(world, topic, "CompleteCommit")
    one.add(topic, 0)
    one.send(topic, b"b")
    one.commit()
    complete(world, topic, "CompleteCommit")
    assert world.committed(topic) == [b"a", b"b"]


def test_bad_requests_have_named_errors(world: RawTransactions, topic: str) -> None:
    for timeout_ms in (0, -1, 900_001):
        with pytest.raises(errors.InvalidTransactionTimeout):
            producer(world, topic, timeout_ms=timeout_ms)
    with pytest.raises(errors.InvalidRequest, match="250 characters; the limit is 249"):
        producer(world, "x" * 250)
    stranger = RawProducer(world, topic)
    stranger.producer_id, stranger.epoch = 4_711, 0
    with pytest.raises(errors.InvalidProducerIdMapping):
        stranger.commit()
    with pytest.raises(errors.InvalidProducerIdMapping):
        stranger.send(topic, b"a")
    for stranger.epoch in (-2, 1 << 15):
        with pytest.raises(errors.InvalidRequest, match="from -1 to 32767"):
            stranger.commit()
        with pytest.raises(errors.InvalidRequest, match="from -1 to 32767"):
            stranger.commit_offsets("g", topic, 1)
        with pytest.raises(errors.InvalidRequest, match="from -1 to 32767"):
            stranger.init()
    one = producer(world, topic)
    with pytest.raises(errors.InvalidTxnState):
        one.commit()
    one.version = 1
    answer = one.add("nowhere", 0)
    assert [each.error.code for each in answer.partitions] == [3]
    one.version = 7
    with pytest.raises(errors.InvalidRequest, match="there are 1 and 2"):
        one.commit()
    plain = encode_batch([b"x"], producer_id=one.producer_id, producer_epoch=one.epoch,
                         base_sequence=0, transactional=True)  # fmt: skip
    ack = world.raw.produce(world.leader(topic), topic, plain)
    assert ack.error.code == errors.InvalidTxnState.code, "no transactional id"


def test_administrators_look_at_transactions(world: RawTransactions, topic: str) -> None:
    one = producer(world, topic)
    one.send(topic, b"a")
    leader = world.leader(topic)
    asked = transaction_pb2.DescribeProducersRequest(
        partitions=[transaction_pb2.TxnPartition(topic=topic)]
    )
    (described,) = world.transactions(leader).DescribeProducers(asked, timeout=10).partitions
    (active,) = described.producers
    assert (active.producer_id, active.producer_epoch) == (one.producer_id, one.epoch)
    assert active.current_txn_start_offset == 0
    _, server = world.coordinator(topic)
    wanted = transaction_pb2.ListTransactionsRequest(
        states=["ongoing", "nonsense"], transactional_id_pattern=topic
    )
    listed = world.transactions(server).ListTransactions(wanted, timeout=10)
    assert list(listed.unknown_states) == ["nonsense"]
    assert [(each.transactional_id, each.state) for each in listed.transactions] == [
        (topic, "Ongoing")
    ]
    marker = transaction_pb2.TxnMarker(
        producer_id=one.producer_id, producer_epoch=one.epoch, coordinator_epoch=0,
        partitions=[
            transaction_pb2.TxnPartition(topic=topic),
            transaction_pb2.TxnPartition(topic="__transaction_state"),
        ],
    )  # fmt: skip
    written = world.transactions(leader).WriteTxnMarkers(
        transaction_pb2.WriteTxnMarkersRequest(markers=[marker]), timeout=10
    )
    (result,) = written.markers
    assert [each.error.code for each in result.partitions] == [0, errors.InvalidTopic.code]
    data = world.fetch(topic, committed=True)
    assert data.last_stable_offset == 2
    assert world.committed(topic) == []
    with pytest.raises(errors.TransactionalIdNotFound):
        world.describe("no-such-id")


def position(world: RawTransactions, group: str, topic: str, *, stable: bool = False) -> Any:
    request = group_pb2.OffsetFetchRequest(
        group_id=group, member_epoch=-1, require_stable=stable,
        partitions=[group_pb2.PartitionName(topic=topic)],
    )  # fmt: skip

    def ask() -> Any:
        _, server = world.coordinator(group, group_pb2.COORDINATOR_GROUP)
        return world.groups(server).OffsetFetch(request, timeout=10)

    (found,) = until_it_works(ask).offsets
    return found.error.code or found.offset


@pytest.mark.parametrize("version", [1, 2])
def test_offsets_count_when_the_transaction_commits(
    world: RawTransactions, topic: str, version: int
) -> None:
    one = producer(world, topic)
    one.version = version
    unstable = errors.UnstableOffsetCommit.code
    for committed, offset, before in ((False, 5, -1), (True, 7, -1), (False, 9, 7), (True, 11, 7)):
        if version == 1:
            request = transaction_pb2.AddOffsetsToTxnRequest(
                transactional_id=topic, producer_id=one.producer_id, producer_epoch=one.epoch,
                group_id=topic,
            )  # fmt: skip
            until_it_works(
                lambda request=request: one._coordinator().AddOffsetsToTxn(request, timeout=10)
            )
        answer = one.commit_offsets(topic, topic, offset)
        assert [each.error.code for each in answer.partitions] == [0]
        assert position(world, topic, topic) == before
        assert position(world, topic, topic, stable=True) == unstable
        one.end(committed=committed)
        complete(world, topic, "CompleteCommit" if committed else "CompleteAbort")
        assert position(world, topic, topic, stable=True) == (offset if committed else before)


def test_offsets_are_refused_to_a_zombie(world: RawTransactions, topic: str) -> None:
    old = producer(world, topic)
    old.commit_offsets(topic, topic, 5)
    producer(world, topic)
    with pytest.raises((errors.ProducerFenced, errors.InvalidProducerEpoch)):
        old.commit_offsets(topic, topic, 6)
    with pytest.raises(errors.IllegalGeneration):
        producer(world, topic).commit_offsets(f"{topic}-none", topic, 6, generation=3)
    assert position(world, topic, topic, stable=True) == -1


# ---- deaths --------------------------------------------------------------------------------------


def in_sync(world: RawTransactions, topic: str) -> bool:
    return all(len(world.raw.partition(topic, p).isr) == 3 for p in range(3))


def restart(cluster: LocalCluster, world: RawTransactions, broker: int, topic: str) -> None:
    cluster.start(broker)
    for name in (topic, "__transaction_state"):
        eventually(30, lambda name=name: in_sync(world, name), f"{name} is in sync")


def test_the_coordinator_dies_with_an_open_transaction(
    cluster: LocalCluster, world: RawTransactions, topic: str
) -> None:
    one = producer(world, topic)
    one.send(topic, b"a")
    broker, _ = world.coordinator(topic)
    cluster.kill(broker)
    one.send(topic, b"b", partition=1)
    one.commit()
    complete(world, topic, "CompleteCommit")
    assert [world.committed(topic, p) for p in range(2)] == [[b"a"], [b"b"]]
    restart(cluster, world, broker, topic)


def test_the_coordinator_dies_with_a_decision_that_nobody_was_told_of(
    cluster: LocalCluster, world: RawTransactions, topic: str
) -> None:
    one = producer(world, topic)
    broker, _ = world.coordinator(topic)
    led = [p for p in range(3) if world.leader_id(topic, p) != broker]
    for partition in led:
        one.send(topic, b"x", partition=partition)
    frozen = world.leader_id(topic, led[0])
    cluster.pause(frozen)
    try:
        one.end_once(committed=True)
    finally:
        cluster.kill(broker)
        cluster.resume(frozen)
    complete(world, topic, "CompleteCommit")
    one.end(committed=True)
    assert all(world.committed(topic, p) == [b"x"] for p in led)
    restart(cluster, world, broker, topic)


def test_the_leader_dies_in_the_middle(
    cluster: LocalCluster, world: RawTransactions, topic: str
) -> None:
    one = producer(world, topic)
    one.send(topic, b"a")
    leader = world.leader_id(topic)
    cluster.kill(leader)
    one.send(topic, b"b")
    one.commit()
    one.send(topic, b"no")
    one.abort()
    complete(world, topic, "CompleteAbort")
    assert world.committed(topic) == [b"a", b"b"]
    restart(cluster, world, leader, topic)
    assert world.committed(topic) == [b"a", b"b"]


def test_the_coordinator_dies_before_the_first_batch(
    cluster: LocalCluster, world: RawTransactions, topic: str
) -> None:
    one = producer(world, topic)
    broker, _ = world.coordinator(topic)
    cluster.kill(broker)
    one.send(topic, b"a")
    one.commit()
    complete(world, topic, "CompleteCommit")
    assert world.committed(topic) == [b"a"]
    restart(cluster, world, broker, topic)


def test_the_coordinator_dies_while_a_new_instance_waits_for_an_abort(
    cluster: LocalCluster, world: RawTransactions, topic: str
) -> None:
    old = producer(world, topic)
    broker, _ = world.coordinator(topic)
    others = [p for p in range(3) if world.leader_id(topic, p) != broker]
    for partition in others:
        old.send(topic, b"no", partition=partition)
    new = RawProducer(world, topic)
    with ThreadPoolExecutor(1) as pool:
        begins = pool.submit(new.init)
        eventually(30, lambda: world.describe(topic).producer_epoch > old.epoch, "it is fenced")
        cluster.kill(broker)
        begins.result(60)
    assert (new.producer_id, new.epoch > old.epoch + 1) == (old.producer_id, True)
    new.send(topic, b"yes", partition=others[0])
    new.commit()
    complete(world, topic, "CompleteCommit")
    assert world.committed(topic, others[0]) == [b"yes"]
    for partition in others[1:]:
        data = world.fetch(topic, partition, committed=True)
        assert data.last_stable_offset == data.high_watermark
    restart(cluster, world, broker, topic)


def test_a_time_out_goes_on_under_the_next_coordinator(
    cluster: LocalCluster, world: RawTransactions, topic: str
) -> None:
    one = producer(world, topic, timeout_ms=4_000)
    one.send(topic, b"left")
    broker, _ = world.coordinator(topic)
    cluster.kill(broker)
    complete(world, topic, "CompleteAbort")
    assert world.committed(topic) == []
    assert world.fetch(topic, committed=True).last_stable_offset == 2
    restart(cluster, world, broker, topic)


def test_the_group_coordinator_dies_with_pending_offsets(
    cluster: LocalCluster, world: RawTransactions, topic: str
) -> None:
    one = producer(world, topic)
    one.commit_offsets(topic, topic, 5)
    broker, _ = world.coordinator(topic, group_pb2.COORDINATOR_GROUP)
    cluster.kill(broker)
    assert position(world, topic, topic) == -1
    assert position(world, topic, topic, stable=True) == errors.UnstableOffsetCommit.code
    one.commit_offsets(topic, topic, 6)
    one.commit()
    complete(world, topic, "CompleteCommit")
    assert position(world, topic, topic, stable=True) == 6
    restart(cluster, world, broker, topic)
    assert position(world, topic, topic, stable=True) == 6


class Writer:
    """Writes one value to all partitions in each transaction, and knows what became of it."""

    def __init__(self, world: RawTransactions, topic: str, number: int, seed: int) -> None:
        self.topic = topic
        self.producer = RawProducer(world, f"{topic}-{number}", timeout_ms=20_000)
        self.name = number
        self.rng = random.Random(f"{seed} {number}")
        self.committed: set[bytes] = set()
        self.aborted: set[bytes] = set()
        self.unknown: set[bytes] = set()

    def run(self, count: int) -> None:
        self.begin_again()
        for number in range(count):
            self.write(b"%d-%d" % (self.name, number))

    def write(self, value: bytes) -> None:
        commits = self.rng.random() < 0.75
        ending = False
        try:
            for partition in self.rng.sample(range(3), 3):
                self.producer.send(self.topic, value, partition=partition)
            ending = True
            self.producer.end(committed=commits)
        except (errors.PylogError, grpc.RpcError):
            (self.unknown if ending and commits else self.aborted).add(value)
            self.begin_again()
        else:
            (self.committed if commits else self.aborted).add(value)

    def all_values(self) -> set[bytes]:
        return self.committed | self.aborted | self.unknown

    @staticmethod
    def order(value: bytes | None) -> int:
        return int((value or b"").partition(b"-")[2])

    def begin_again(self) -> None:
        """A new instance: whatever was open is aborted first."""
        self.producer.producer_id, self.producer.epoch = -1, -1
        self.producer.init()
        self.producer.sequences.clear()


def test_transactions_are_whole_whatever_dies(
    cluster: LocalCluster, world: RawTransactions, topic: str
) -> None:
    """Three writers, while one broker after the other is killed."""
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    writers = [Writer(world, topic, number, seed) for number in range(3)]
    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(writer.run, 25) for writer in writers]
        while not all(each.done() for each in running):
            broker = rng.choice(cluster.brokers)
            cluster.kill(broker)
            SYSTEM_CLOCK.sleep(rng.uniform(0, 2))
            restart(cluster, world, broker, topic)
        for each in running:
            each.result()
    for writer in writers:
        transactional_id = writer.producer.transactional_id
        eventually(
            40,
            lambda name=transactional_id: not world.describe(name).partitions,
            f"{transactional_id} has ended",
        )
    seen = [world.committed(topic, partition) for partition in range(3)]
    for partition in range(3):
        data = world.fetch(topic, partition, committed=True)
        assert data.last_stable_offset == data.high_watermark
        assert len(seen[partition]) == len(set(seen[partition])), f"twice, seed {seed}"
    assert sum(len(writer.committed) for writer in writers) > 20
    assert set(seen[0]) == set(seen[1]) == set(seen[2]), f"a torn transaction, seed {seed}"
    for writer in writers:
        mine = {value for value in seen[0] if value is not None and value in writer.all_values()}
        assert writer.committed <= mine <= writer.committed | writer.unknown
        order = [value for value in seen[0] if value in mine]
        assert order == sorted(order, key=writer.order)
