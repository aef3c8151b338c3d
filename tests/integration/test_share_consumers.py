"""Share consumers of a running cluster: the records that each gets, and their acknowledgement."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from pylog import (
    AcknowledgeType,
    AdminClient,
    LocalCluster,
    NewTopic,
    Producer,
    Record,
    ShareConsumer,
    errors,
)
from pylog.aio import AsyncShareConsumer
from pylog.client.share_consumer import share_consumer
from pylog.clock import SYSTEM_CLOCK
from pylog.model import TopicPartition

pytestmark = pytest.mark.integration

LOCK_MS = 1_500
COUNT = 100
ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
CONFIG = {
    "offsets.topic.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "500",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(3, config=CONFIG) as running:
        yield running
        for log in sorted((running.data_dir / "logs").iterdir()):
            text = log.read_text()
            assert "Traceback" not in text, text[-5000:]
            assert "a defect" not in text, text[-5000:]


@pytest.fixture(scope="module")
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


class Jobs:
    """A topic with records, and a group of its own that begins at the first one."""

    def __init__(self, cluster: LocalCluster, admin: AdminClient, name: str) -> None:
        self.cluster = cluster
        self.admin = admin
        self.name = name
        self.group = f"{name}-group"

    def make(self, partitions: int = 1, replicas: int = 1, **settings: str) -> None:
        self.admin.create_topics([NewTopic(self.name, partitions, replicas)])
        wanted = {"share.auto.offset.reset": "earliest", **settings}
        self.admin.incremental_alter_configs({("group", self.group): wanted})

    def fill(self, count: int = COUNT, partitions: int = 1) -> None:
        with Producer(bootstrap_servers=self.cluster.bootstrap_servers) as producer:
            for number in range(count):
                producer.send(self.name, b"%d" % number, partition=number % partitions)

    def consumer(self, **config: Any) -> ShareConsumer:
        servers = self.cluster.bootstrap_servers
        return ShareConsumer(self.name, bootstrap_servers=servers, group_id=self.group, **config)

    def lag(self) -> int:
        return sum(lag.lag or 0 for lag in self.admin.group_lag(self.group)[self.group].values())


@pytest.fixture
def jobs(cluster: LocalCluster, admin: AdminClient, request: pytest.FixtureRequest) -> Jobs:
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)
    return Jobs(cluster, admin, name)


@pytest.fixture
def filled(jobs: Jobs) -> Jobs:
    jobs.make(**{"share.record.lock.duration.ms": str(LOCK_MS)})
    jobs.fill()
    return jobs


def take(consumer: ShareConsumer, count: int = 1) -> list[Record]:
    """At least so many records."""
    taken: list[Record] = []
    deadline_ms = SYSTEM_CLOCK.monotonic_ms() + 30_000
    while len(taken) < count:
        assert SYSTEM_CLOCK.monotonic_ms() < deadline_ms, f"{len(taken)} of {count} records"
        taken += consumer.poll(1.0)
    return taken


def numbers(records: list[Record]) -> list[int]:
    return sorted(int(record.value) for record in records)


# ---- who gets what -----------------------------------------------------------------------------


def test_three_consumers_on_one_partition_get_each_record_once(jobs: Jobs) -> None:
    jobs.make()
    jobs.fill(3_000)
    got: list[Record] = []
    by_consumer: Counter[int] = Counter()
    lock = threading.Lock()

    def work(number: int) -> None:
        with jobs.consumer(max_poll_records=50, share_acquire_mode="record_limit") as consumer:
            while len(got) < 3_000:
                records = consumer.poll(0.2)
                with lock:
                    got.extend(records)
                    by_consumer[number] += len(records)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert numbers(got) == list(range(3_000))
    assert {record.delivery_count for record in got} == {1}
    assert all(by_consumer[number] for number in range(3)), by_consumer
    assert jobs.lag() == 0


def test_a_strict_limit_is_kept(filled: Jobs) -> None:
    with filled.consumer(max_poll_records=7, share_acquire_mode="record_limit") as consumer:
        sizes = [len(take(consumer)) for _ in range(5)]
        with filled.consumer(max_poll_records=1, share_acquire_mode="record_limit") as other:
            assert numbers(take(other)) == [35]
    assert sizes == [7] * 5


def test_a_poll_accepts_what_the_last_one_returned(filled: Jobs) -> None:
    with filled.consumer(max_poll_records=10, share_acquire_mode="record_limit") as consumer:
        take(consumer)
        take(consumer)
        assert filled.lag() == 90
        consumer.commit()
        assert filled.lag() == 80


def test_an_iteration_accepts_a_record_when_the_next_one_is_taken(filled: Jobs) -> None:
    consumer = filled.consumer()
    seen = []
    for record in consumer:
        seen.append(record)
        if len(seen) == 30:
            break
    consumer.close()
    assert numbers(seen) == list(range(30))
    with filled.consumer() as other:
        again = take(other)
        assert numbers(again) == list(range(29, COUNT))
        counts = {record.offset: record.delivery_count for record in again}
        assert (counts[29], counts[30]) == (2, 1)  # one was in the program's hands


def test_a_block_that_ends_well_accepts_and_one_that_fails_does_not(filled: Jobs) -> None:
    def fail() -> None:
        with filled.consumer() as consumer:
            assert numbers(take(consumer)) == list(range(COUNT))
            raise RuntimeError("the program fails")

    with pytest.raises(RuntimeError, match="the program fails"):
        fail()
    with filled.consumer() as consumer:
        again = take(consumer)
        assert numbers(again) == list(range(COUNT))
        assert {record.delivery_count for record in again} == {2}
    assert filled.lag() == 0


def test_what_an_iteration_leaves_a_poll_returns(filled: Jobs) -> None:
    with filled.consumer() as consumer:
        first = [record for _, record in zip(range(10), consumer, strict=False)]
        rest = take(consumer)
        assert numbers(first) + numbers(rest) == list(range(COUNT))
        assert consumer.commit() == {TopicPartition(filled.name, 0): None}


def test_records_of_a_poll_that_is_interrupted_are_not_accepted(
    filled: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with filled.consumer() as consumer:
        with monkeypatch.context() as patched:
            patched.setattr(share_consumer, "grouped", interrupted)
            with pytest.raises(KeyboardInterrupt):
                consumer.poll(30)
        again = take(consumer, COUNT)
        assert numbers(again) == list(range(COUNT))
        assert {record.delivery_count for record in again} == {2}


def test_without_framed_connections_it_is_the_same(filled: Jobs) -> None:
    with filled.consumer(client_transport="grpc") as consumer:
        assert numbers(take(consumer, COUNT)) == list(range(COUNT))
        assert consumer.commit() == {TopicPartition(filled.name, 0): None}
    assert filled.lag() == 0


def test_through_the_gateway_it_is_the_same(filled: Jobs) -> None:
    with filled.consumer(client_routing="gateway") as consumer:
        assert numbers(take(consumer, COUNT)) == list(range(COUNT))
    assert filled.lag() == 0


# ---- what becomes of a record ------------------------------------------------------------------


def explicit(jobs: Jobs, **config: Any) -> ShareConsumer:
    return jobs.consumer(share_acknowledgement_mode="explicit", **config)


def test_a_released_record_comes_again_and_a_rejected_one_does_not(filled: Jobs) -> None:
    with explicit(filled) as consumer:
        for record in take(consumer, COUNT):
            kind = {0: RELEASE, 1: REJECT}.get(int(record.value) % 3, ACCEPT)
            consumer.acknowledge(record, kind)
        assert consumer.commit() == {TopicPartition(filled.name, 0): None}
        again = take(consumer, 34)
        assert numbers(again) == list(range(0, COUNT, 3))
        assert {record.delivery_count for record in again} == {2}
        for record in again:
            consumer.acknowledge(record)
        assert not consumer.poll(0.5)
    assert filled.lag() == 0


def test_a_record_is_delivered_as_often_as_its_group_says(filled: Jobs) -> None:
    counts: Counter[int] = Counter()
    with explicit(filled) as consumer:
        for _ in range(5):
            for record in take(consumer, COUNT):
                counts[record.offset] += 1
                assert record.delivery_count == counts[record.offset]
                consumer.acknowledge(record, RELEASE)
        assert not consumer.poll(1.0)
    assert set(counts.values()) == {5}
    assert filled.lag() == 0


def test_a_lock_ends_and_a_late_commit_is_told(filled: Jobs) -> None:
    with explicit(filled) as slow, explicit(filled) as other:
        late = take(slow, COUNT)
        assert slow.acquisition_lock_timeout_ms() == LOCK_MS
        again = take(other, COUNT)
        assert numbers(again) == list(range(COUNT))
        assert {record.delivery_count for record in again} == {2}
        for record in late:
            slow.acknowledge(record)
        [fault] = slow.commit().values()
        assert isinstance(fault, errors.InvalidRecordState)
        for record in again:
            other.acknowledge(record)
        assert list(other.commit().values()) == [None]


def test_a_renewed_record_is_returned_again_and_stays_locked(filled: Jobs) -> None:
    with explicit(filled, max_poll_records=1, share_acquire_mode="record_limit") as consumer:
        [record] = take(consumer)
        begin_ms = SYSTEM_CLOCK.monotonic_ms()
        while SYSTEM_CLOCK.monotonic_ms() - begin_ms < 2 * LOCK_MS:
            consumer.acknowledge(record, RENEW)
            [again] = take(consumer)
            assert again == record
            assert again.delivery_count == 1
            SYSTEM_CLOCK.sleep(LOCK_MS / 3000)
        consumer.acknowledge(record)
        assert list(consumer.commit().values()) == [None]
        assert filled.lag() == COUNT - 1


def test_a_poll_with_records_left_is_refused(filled: Jobs) -> None:
    with explicit(filled) as consumer:
        records = take(consumer)
        for record in records[1:]:
            consumer.acknowledge(record)
        with pytest.raises(errors.InvalidRequest, match="1 records that were returned are not"):
            consumer.poll(0)
        consumer.acknowledge(records[0])
        with pytest.raises(errors.InvalidRequest, match="acknowledged already"):
            consumer.acknowledge(records[1])
        assert not consumer.poll(0.2)


def test_closing_releases_at_once(jobs: Jobs) -> None:
    jobs.make(**{"share.record.lock.duration.ms": "60000"})  # longer than take() waits
    jobs.fill()
    with explicit(jobs) as waiting:
        consumer = jobs.consumer()
        take(consumer, COUNT)
        assert not waiting.poll(0.2)
        consumer.close()
        again = take(waiting, COUNT)
        assert numbers(again) == list(range(COUNT))
        for record in again:
            waiting.acknowledge(record)


def test_the_callback_hears_what_became_of_acknowledgements(filled: Jobs) -> None:
    told: list[tuple[dict[TopicPartition, set[int]], errors.PylogError | None]] = []
    with filled.consumer() as consumer:
        consumer.set_acknowledgement_commit_callback(lambda *what: told.append(what))
        take(consumer, COUNT)
        consumer.commit_async()
        while not told:
            consumer.poll(0.1)
    assert told == [({TopicPartition(filled.name, 0): set(range(COUNT))}, None)]


def test_a_record_that_cannot_be_deserialized_is_released_by_itself(jobs: Jobs) -> None:
    jobs.make(**{"share.delivery.count.limit": "2"})
    with Producer(bootstrap_servers=jobs.cluster.bootstrap_servers) as producer:
        for value in (b"1", b"two", b"3"):
            producer.send(jobs.name, value)
    got: list[tuple[int, int | None]] = []
    faults: list[bytes] = []
    with jobs.consumer(value_deserializer=lambda _topic, data: int(data)) as consumer:
        deadline_ms = SYSTEM_CLOCK.monotonic_ms() + 30_000
        while (len(faults) < 2 or len(got) < 2) and SYSTEM_CLOCK.monotonic_ms() < deadline_ms:
            try:
                got += ((r.value, r.delivery_count) for r in consumer.poll(0.5))
            except errors.SerializationFailed as error:
                faults.append(error.record.value)
    assert (got, faults) == ([(1, 1), (3, 1)], [b"two", b"two"])
    assert jobs.lag() == 0


def test_records_whose_deserializer_is_slower_than_their_lock_are_returned(jobs: Jobs) -> None:
    jobs.make(**{"share.record.lock.duration.ms": "1000", "share.delivery.count.limit": "2"})
    jobs.fill(20)

    def slow(_topic: str, data: bytes) -> bytes:
        SYSTEM_CLOCK.sleep(0.1)
        return data

    with explicit(jobs, value_deserializer=slow) as consumer:
        records = take(consumer)
        for record in records:
            consumer.acknowledge(record)
        [fault] = consumer.commit().values()
    assert numbers(records) == list(range(20))
    assert isinstance(fault, errors.InvalidRecordState)


# ---- faults ------------------------------------------------------------------------------------


def test_a_killed_leader_costs_no_record(jobs: Jobs, cluster: LocalCluster) -> None:
    jobs.make(replicas=3)
    jobs.fill(500)
    accepted: set[int] = set()
    with explicit(jobs, max_poll_records=20, share_acquire_mode="record_limit") as consumer:
        for record in take(consumer):
            consumer.acknowledge(record)
            accepted.add(int(record.value))
        assert list(consumer.commit().values()) == [None]
        leader = jobs.admin.describe_topics(jobs.name)[jobs.name].partitions[0].leader
        cluster.kill(leader)
        try:
            deadline_ms = SYSTEM_CLOCK.monotonic_ms() + 60_000
            while len(accepted) < 500 and SYSTEM_CLOCK.monotonic_ms() < deadline_ms:
                records = list(consumer.poll(1.0))
                for record in records:
                    assert int(record.value) not in accepted
                    consumer.acknowledge(record)
                results = consumer.commit()
                if records and list(results.values()) == [None]:
                    accepted |= {int(record.value) for record in records}
        finally:
            cluster.start(leader)
    assert accepted == set(range(500))


def test_a_topic_that_is_not_there_is_told(cluster: LocalCluster) -> None:
    servers = cluster.bootstrap_servers
    with (
        ShareConsumer("nowhere", bootstrap_servers=servers, group_id="g") as consumer,
        pytest.raises(errors.UnknownTopicOrPartition, match="nowhere"),
    ):
        consumer.poll(20.0)


def test_a_group_of_another_type_is_refused(filled: Jobs) -> None:
    partition = TopicPartition(filled.name, 0)
    filled.admin.alter_group_offsets("taken", {partition: 0})
    servers = filled.cluster.bootstrap_servers
    with ShareConsumer(filled.name, bootstrap_servers=servers, group_id="taken") as consumer:
        with pytest.raises(errors.GroupIdNotFound, match="no share group"):
            consumer.poll(20.0)
        consumer.unsubscribe()


# ---- threads and tasks -------------------------------------------------------------------------


def test_a_second_thread_is_told_off_and_may_wake_up(filled: Jobs) -> None:
    with filled.consumer() as consumer:
        consumer.unsubscribe()
        consumer.subscribe([filled.name])
        take(consumer, COUNT)
        begun, raised = threading.Event(), []

        def poll() -> None:
            begun.set()
            try:
                consumer.poll(30)
            except errors.WokenUp as error:
                raised.append(error)

        thread = threading.Thread(target=poll)
        thread.start()
        begun.wait()
        while not consumer._turn.user:
            SYSTEM_CLOCK.sleep(0.001)
        with pytest.raises(errors.WrongThread):
            consumer.poll(0)
        consumer.wakeup()
        thread.join(10)
        assert len(raised) == 1
    with pytest.raises(errors.ClientClosed):
        consumer.poll(0)
    consumer.close()


def test_the_same_for_asyncio(filled: Jobs) -> None:
    async def work() -> tuple[list[int], dict[TopicPartition, errors.PylogError | None]]:
        servers, seen = filled.cluster.bootstrap_servers, []
        async with AsyncShareConsumer(
            filled.name, bootstrap_servers=servers, group_id=filled.group
        ) as consumer:
            async for record in consumer:
                seen.append(int(record.value))
                if len(seen) == COUNT // 2:
                    break
            seen += [int(record.value) for record in await consumer.poll(5.0)]
            results = await consumer.commit()
            assert not await consumer.poll(0.2)
        return seen, results

    seen, results = asyncio.run(work())
    assert seen == list(range(COUNT))
    assert results == {TopicPartition(filled.name, 0): None}


def test_records_that_come_end_a_wait_at_once(jobs: Jobs) -> None:
    jobs.make()

    async def work() -> float:
        servers = jobs.cluster.bootstrap_servers
        async with AsyncShareConsumer(
            jobs.name, bootstrap_servers=servers, group_id=jobs.group
        ) as consumer:
            assert not await consumer.poll(3.0)
            waiting = asyncio.create_task(consumer.poll(20.0))
            await asyncio.to_thread(jobs.fill, 1)
            begin_ms = SYSTEM_CLOCK.monotonic_ms()
            assert len(await waiting) == 1
            return SYSTEM_CLOCK.monotonic_ms() - begin_ms

    assert asyncio.run(work()) < 1_000


def test_groups_that_are_empty_are_set_and_deleted(filled: Jobs) -> None:
    partition = TopicPartition(filled.name, 0)
    with filled.consumer() as consumer:
        take(consumer, COUNT)
        with pytest.raises(errors.NonEmptyGroup):
            filled.admin.alter_share_group_offsets(filled.group, {partition: 5})
    assert filled.lag() == 0
    filled.admin.alter_share_group_offsets(filled.group, {partition: 95})
    assert filled.admin.list_share_group_offsets(filled.group)[partition].start_offset == 95  # type: ignore[union-attr]
    with filled.consumer() as consumer:
        assert numbers(take(consumer)) == list(range(95, COUNT))
    filled.admin.delete_share_group_offsets(filled.group, filled.name)
    assert filled.admin.list_share_group_offsets(filled.group) == {}
    filled.admin.delete_groups(filled.group)
    with pytest.raises(errors.GroupIdNotFound):
        filled.admin.describe_groups(filled.group)
