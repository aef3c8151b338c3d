"""Transactions of a producer against real servers in this process, and a dumb coordinator."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from pylog import errors
from pylog.aio import AsyncProducer
from pylog.client.consumer.consumer import Consumer
from pylog.client.producer.producer import Producer
from pylog.model import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition
from pylog.records.batch import iter_headers
from tests.fakes.fake_cluster import FakeCluster

GROUP = ConsumerGroupMetadata("g")


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as running:
        running.create_topic("t", 3)
        running.create_topic("one")
        yield running


def producer(cluster: FakeCluster, name: str = "a", **config: Any) -> Producer:
    given = {"linger_ms": 0, "max_block_ms": 5_000, "retry_backoff_ms": 10, **config}
    return Producer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id=name, **given
    )  # fmt: skip


def committed(cluster: FakeCluster, *topics: str) -> list[bytes]:
    """The records that readers of committed records see now; of one partition in its order."""
    found = []
    with Consumer(
        bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed"
    ) as consumer:
        for topic in topics or ("one",):
            for number in consumer.partitions_for(topic):
                tp = TopicPartition(topic, number)
                consumer.assign([tp])
                consumer.seek_to_beginning(tp)
                end = consumer.end_offsets([tp])[tp]
                while consumer.position(tp) < end:
                    found += [record.value for record in consumer.poll(1)]
    return found


def in_transaction(p: Producer, *steps: Callable[[], object]) -> None:
    with p.transaction():
        for step in steps:
            step()


def stops() -> None:
    raise ZeroDivisionError


def test_a_block_commits_and_an_exception_aborts(cluster: FakeCluster) -> None:
    with producer(cluster) as p:
        p.init_transactions()
        with p.transaction():
            p.send("one", b"1")
            p.send("one", b"2")
        with pytest.raises(ZeroDivisionError):
            in_transaction(p, lambda: p.send("one", b"3").result(5), stops)
        with p.transaction():
            p.send("one", b"4")
        times = p.metrics()
        assert all(times[f"txn-{call}-time-ns-total"] > 0 for call in ("init", "commit", "abort"))
    assert committed(cluster) == [b"1", b"2", b"4"]
    epochs = [
        header.producer_epoch
        for header, _ in cluster.topics["one"].partitions[0].batches
        if not header.is_control
    ]
    assert epochs == [0, 1, 2] or epochs == [0, 0, 1, 2]  # the first two may go together


def test_every_batch_says_that_it_is_of_the_transaction(cluster: FakeCluster) -> None:
    table = pa.table({"value": [b"%d" % n for n in range(1_000)], "key": [b"k"] * 1_000})
    with producer(cluster, compression_type="lz4") as p:
        p.init_transactions()
        with p.transaction():
            p.send("t", b"x", partition=0)
            p.send_arrow("t", table, partition=1).result(5)
            p.send("t", b"y", partition=2, headers={"h": "1"}).result(5)
    assert {request.transactional_id for request in cluster.produce_requests} == {"a"}
    for request in cluster.produce_requests:
        for item in request.batches:
            ((_, header),) = iter_headers(item.batch)
            assert header.is_transactional
    assert len(committed(cluster, "t")) == 1_002


def test_outside_of_a_transaction_nothing_is_sent(cluster: FakeCluster) -> None:
    table = pa.table({"value": [b"x"]})
    with producer(cluster) as p:
        for advice in ("init_transactions", "begin_transaction"):
            with pytest.raises(errors.InvalidTxnState, match=f"'a'.*{advice}"):
                p.send("one", b"x")
            with pytest.raises(errors.InvalidTxnState, match=advice):
                p.send("one", b"x", key=b"k", on_delivery=lambda *_: None)
            with pytest.raises(errors.InvalidTxnState, match=advice):
                p.send_arrow("one", table)
            if advice == "init_transactions":
                p.init_transactions()
        with p.transaction():
            p.send("one", b"in")
            p.send("one", b"too")
        with pytest.raises(errors.InvalidTxnState):
            p.send("one", b"after")
    assert committed(cluster) == [b"in", b"too"]


def test_a_producer_without_a_name_has_no_transactions(cluster: FakeCluster) -> None:
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as p:
        for call in (p.init_transactions, p.begin_transaction, p.commit_transaction, p.transaction):
            with pytest.raises(errors.InvalidTxnState, match="transactional_id"):
                call()


def test_offsets_are_committed_with_the_records(cluster: FakeCluster) -> None:
    cluster.groups.coordinators["g"] = 2
    read = TopicPartition("t", 1)
    with producer(cluster) as p:
        p.init_transactions()
        with p.transaction():
            p.send("one", b"1")
            p.send_offsets_to_transaction({read: 5}, GROUP)
            assert cluster.transactions.committed == {}
        assert cluster.transactions.committed == {("g", read): 5}
        later = {read: OffsetAndMetadata(7, "x")}
        with pytest.raises(ZeroDivisionError):
            in_transaction(p, lambda: p.send_offsets_to_transaction(later, GROUP), stops)
        assert cluster.transactions.committed == {("g", read): 5}
        with p.transaction():
            with pytest.raises(errors.InvalidRequest, match="group_metadata"):
                p.send_offsets_to_transaction({read: 7}, "g")  # type: ignore[arg-type]
            with pytest.raises(errors.OffsetOutOfRange):
                p.send_offsets_to_transaction({read: -1}, GROUP)
            p.send_offsets_to_transaction({}, GROUP)


def test_a_newer_producer_fences(cluster: FakeCluster) -> None:
    with producer(cluster) as old, producer(cluster) as new:
        old.init_transactions()
        old.begin_transaction()
        old.send("one", b"old").result(5)
        new.init_transactions()
        with pytest.raises(errors.ProducerFenced) as error:
            old.send("one", b"late").result(5)
        assert error.value.fatal
        for call in (old.commit_transaction, old.abort_transaction, old.begin_transaction):
            with pytest.raises(errors.ProducerFenced):
                call()
        with pytest.raises(errors.ProducerFenced):
            old.send("one", b"more")
        with new.transaction():
            new.send("one", b"new")
    assert committed(cluster) == [b"new"]


def test_a_fenced_producer_cannot_commit(cluster: FakeCluster) -> None:
    with producer(cluster) as old, producer(cluster) as new:
        old.init_transactions()
        with pytest.raises(errors.ProducerFenced):
            in_transaction(old, lambda: old.send("one", b"o").result(5), new.init_transactions)
    assert committed(cluster) == []


def test_a_record_that_fails_fails_the_commit_and_is_gone_with_the_abort(
    cluster: FakeCluster,
) -> None:
    with producer(cluster) as p:
        p.init_transactions()
        p.begin_transaction()
        p.send("one", b"1").result(5)
        cluster.produce_faults.append(errors.InvalidRecord.code)
        with pytest.raises(errors.InvalidRecord):
            p.send("one", b"2").result(5)
        with pytest.raises(errors.TransactionAbortable, match="INVALID_RECORD") as error:
            p.send("one", b"3")
        assert error.value.abortable
        with pytest.raises(errors.TransactionAbortable):
            p.commit_transaction()
        p.abort_transaction()
        with p.transaction():
            p.send("one", b"4")
        cluster.produce_faults.append(errors.InvalidRecord.code)
        with pytest.raises(errors.TransactionAbortable), p.transaction():
            p.send("one", b"5")  # nobody looks at the handle
        with p.transaction():
            p.send("one", b"6")
    assert committed(cluster) == [b"4", b"6"]


def test_a_record_that_send_refuses_fails_the_commit(cluster: FakeCluster) -> None:
    with producer(cluster, max_request_size=1_000) as p:
        p.init_transactions()
        p.begin_transaction()
        p.send("one", b"1")
        with pytest.raises(errors.MessageTooLarge):
            p.send("one", bytes(2_000))
        with pytest.raises(errors.TransactionAbortable, match="MESSAGE_TOO_LARGE"):
            p.commit_transaction()
        p.abort_transaction()
        with p.transaction():
            p.send("one", b"2")
            with pytest.raises(errors.SerializationFailed):
                p.send("one", 5)  # it is no record, and is left out knowingly
    assert committed(cluster) == [b"2"]


def test_a_commit_whose_answer_is_lost_is_told_again(cluster: FakeCluster) -> None:
    with producer(cluster) as p:
        p.init_transactions()
        cluster.transactions.lost["EndTxn"] = 2
        with p.transaction():
            p.send("one", b"1")
        with p.transaction():
            p.send("one", b"2")
    assert committed(cluster) == [b"1", b"2"]
    assert cluster.transactions.asked.count("EndTxn") == 4


def test_a_coordinator_that_moves_is_followed(cluster: FakeCluster) -> None:
    with producer(cluster) as p:
        p.init_transactions()
        cluster.groups.coordinators["txn:a"] = 2
        with p.transaction():
            p.send("one", b"1")
        cluster.groups.coordinators["txn:a"] = 1
        cluster.transactions.faults["EndTxn"] = deque([errors.CoordinatorLoadInProgress.code])
        with p.transaction():
            p.send("one", b"2")
    assert committed(cluster) == [b"1", b"2"]


def test_a_call_that_takes_too_long_goes_on_and_is_made_again(cluster: FakeCluster) -> None:
    with producer(cluster, max_block_ms=1_500, retry_backoff_max_ms=50) as p:
        p.init_transactions()
        p.begin_transaction()
        p.send("one", b"1")
        busy = [errors.CoordinatorLoadInProgress.code] * 10_000
        cluster.transactions.faults["EndTxn"] = deque(busy)
        with pytest.raises(errors.RequestTimedOut, match=r"commit_transaction\(\).*LOAD"):
            p.commit_transaction()
        with pytest.raises(errors.InvalidTxnState, match="has not ended yet"):
            p.abort_transaction()
        cluster.transactions.faults.clear()
        p.commit_transaction()
        with p.transaction():
            p.send("one", b"2")
    assert committed(cluster) == [b"1", b"2"]


def test_close_aborts_what_is_open(cluster: FakeCluster) -> None:
    with producer(cluster, linger_ms=1_000) as p:
        p.init_transactions()
        p.begin_transaction()
        stored = p.send("one", b"1")
        p.flush()
        lingering = p.send("one", b"2")
    assert stored.exception(0) is None
    assert type(lingering.exception(0)) is errors.TransactionAborted
    assert committed(cluster) == []
    assert cluster.topics["one"].partitions[0].stable is None  # it holds nobody back
    for call in (p.begin_transaction, p.commit_transaction):
        with pytest.raises(errors.ClientClosed):
            call()


def test_close_waits_for_a_commit_that_is_under_way(cluster: FakeCluster) -> None:
    p = producer(cluster, max_block_ms=1_000, retry_backoff_max_ms=50)
    p.init_transactions()
    p.begin_transaction()
    p.send("one", b"1").result(5)
    cluster.transactions.faults["EndTxn"] = deque([errors.CoordinatorLoadInProgress.code] * 40)
    with pytest.raises(errors.RequestTimedOut):
        p.commit_transaction()
    p.close(timeout=10)
    assert committed(cluster) == [b"1"]


def test_a_producer_that_is_closed_tells_who_waits(cluster: FakeCluster) -> None:
    p = producer(cluster)
    busy = [errors.CoordinatorLoadInProgress.code] * 10_000
    cluster.transactions.faults["InitProducerId"] = deque(busy)
    told: list[BaseException] = []

    def init() -> None:
        try:
            p.init_transactions()
        except errors.PylogError as error:
            told.append(error)

    thread = threading.Thread(target=init)
    thread.start()
    while "InitProducerId" not in cluster.transactions.asked:
        threading.Event().wait(0.01)
    p.close(timeout=0)
    thread.join(5)
    assert [type(error) for error in told] == [errors.ClientClosed]


def test_another_decision_completes_a_prepared_transaction(cluster: FakeCluster) -> None:
    two_phase = {"transaction_two_phase_commit_enable": True}
    with producer(cluster, **two_phase) as first:
        first.init_transactions()
        first.begin_transaction()
        first.send("one", b"1")
        state = str(first.prepare_transaction())
        with pytest.raises(errors.InvalidTxnState, match="prepared"):
            first.send("one", b"more")
    assert committed(cluster) == []  # closing has left it alone
    with producer(cluster, **two_phase) as second:
        second.init_transactions(keep_prepared_txn=True)
        with pytest.raises(errors.InvalidTxnState):
            second.begin_transaction()
        with pytest.raises(errors.InvalidRequest, match="complete_transaction"):
            second.complete_transaction("nonsense")
        second.complete_transaction(state)
        with second.transaction():
            second.send("one", b"2")
        second.begin_transaction()
        second.send("one", b"3")
        second.prepare_transaction()
        second.complete_transaction("7:7")
    assert committed(cluster) == [b"1", b"2"]


def test_calls_of_transactions_inside_a_callback_are_refused(cluster: FakeCluster) -> None:
    told: list[BaseException] = []
    with producer(cluster) as p:
        p.init_transactions()
        with p.transaction():

            def callback(*_: Any) -> None:
                try:
                    p.commit_transaction()
                except errors.PylogError as error:
                    told.append(error)

            p.send("one", b"1", on_delivery=callback).result(5)
    assert [type(error) for error in told] == [errors.WrongThread]


def test_several_threads_send_in_one_transaction(cluster: FakeCluster) -> None:
    with producer(cluster, linger_ms=2) as p:
        p.init_transactions()
        for number in range(5):
            with p.transaction():
                threads = [
                    threading.Thread(
                        target=lambda n=number, t=t: [
                            p.send("t", b"%d.%d.%d" % (n, t, i), key=b"%d" % i) for i in range(300)
                        ]
                    )
                    for t in range(3)
                ]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
    wanted = [b"%d.%d.%d" % (n, t, i) for n in range(5) for t in range(3) for i in range(300)]
    assert sorted(committed(cluster, "t")) == sorted(wanted)


def test_the_asyncio_twin(cluster: FakeCluster) -> None:
    read = TopicPartition("t", 1)

    async def fail(p: AsyncProducer) -> None:
        async with p.transaction():
            await p.send("one", b"2")
            stops()

    async def run() -> None:
        async with AsyncProducer(
            bootstrap_servers=cluster.bootstrap_servers, transactional_id="a"
        ) as p:
            await p.init_transactions()
            async with p.transaction():
                await p.send("one", b"1")
                await p.send_offsets_to_transaction({read: 3}, GROUP)
            with pytest.raises(ZeroDivisionError):
                await fail(p)
            await p.begin_transaction()
            await p.send("one", b"3")
            await p.abort_transaction()
            await p.begin_transaction()
            await p.send("one", b"4")
            await p.commit_transaction()
            with pytest.raises(errors.InvalidTxnState):
                await p.send("one", b"5")

    asyncio.run(run())
    assert committed(cluster) == [b"1", b"4"]
    assert cluster.transactions.committed == {("g", read): 3}


def test_a_call_of_the_twin_that_is_cancelled_goes_on_and_holds_no_thread(
    cluster: FakeCluster,
) -> None:
    async def cancel(call: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(call)
        done, _ = await asyncio.wait({task}, timeout=0.02)
        assert not done
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()

    async def run() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
        async with AsyncProducer(
            bootstrap_servers=cluster.bootstrap_servers,
            transactional_id="a",
            request_timeout_ms=500,
        ) as p:
            await p.init_transactions()
            async with p.transaction():
                await p.send_and_wait("one", b"0")
            await p.begin_transaction()
            cluster.produce_faults.append("hang")
            await p.send("one", b"1")
            for _ in range(4):
                await cancel(p.commit_transaction())
            await asyncio.wait_for(asyncio.to_thread(lambda: None), 0.3)
            transactions = p._inner._of_transactions()._transactions
            assert transactions.pending is not None
            await asyncio.wrap_future(transactions.pending.waiter)
            await p.commit_transaction()  # it has ended meanwhile: the same call hears of it
            async with p.transaction():
                await p.send("one", b"2")

    asyncio.run(run())
    assert committed(cluster) == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    ("settings", "named"),
    [
        ({"transactional_id": ""}, "transactional_id"),
        ({"transactional_id": "a", "acks": 1}, "acks"),
        ({"transactional_id": "a", "enable_idempotence": False}, "enable_idempotence"),
        (
            {"transactional_id": "a", "max_in_flight_requests_per_connection": 6},
            "max_in_flight_requests_per_connection",
        ),
        ({"transaction_timeout_ms": 1_000}, "transactional_id"),
        ({"transactional_id": "a", "transaction_timeout_ms": 0}, "transaction_timeout_ms"),
        (
            {
                "transactional_id": "a",
                "transaction_timeout_ms": 1_000,
                "transaction_two_phase_commit_enable": True,
            },
            "transaction_timeout_ms",
        ),
        ({"transaction_two_phase_commit_enable": True}, "transactional_id"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings: dict[str, Any], named: str) -> None:
    with pytest.raises(errors.InvalidConfig, match=named):
        Producer(bootstrap_servers="127.0.0.1:1", **settings)
