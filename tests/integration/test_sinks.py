"""Sinks of queries over running brokers, by raw calls: attempts, decisions, runs, and deaths."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import grpc
import pytest

from pylog import AdminClient, errors
from pylog.aio import AsyncAdminClient
from pylog.cli.main import main
from pylog.client.admin.sink_types import WrittenRange
from pylog.clock import SYSTEM_CLOCK
from pylog.local import LocalCluster
from pylog.rpc.v1 import sink_pb2
from tests.fakes.raw_client import RawClient
from tests.fakes.raw_sinks import RawSink
from tests.fakes.raw_transactions import RawProducer, RawTransactions, until_it_works
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration

NEXT_RUN = "run-2"
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


@pytest.fixture
def sink(world: RawTransactions, topic: str) -> RawSink:
    return RawSink(world, topic)


def sees(world: RawTransactions, topic: str, *partitions: list[bytes]) -> None:
    """A committed reader sees these, and waits for nobody."""

    def is_so() -> bool:
        for number, values in enumerate(partitions):
            data = world.fetch(topic, number, committed=True)
            if data.last_stable_offset != data.high_watermark:
                return False
            if world.committed(topic, number) != values:
                return False
        return True

    eventually(30, is_so, f"{topic} has {partitions}")


# ---- batches ------------------------------------------------------------------------------------


def test_a_batch_of_three_tasks_counts_once_and_whole(
    world: RawTransactions, topic: str, sink: RawSink
) -> None:
    writers = [
        sink.staged(0, topic, [b"%d" % task], partition=task, task=task) for task in range(3)
    ]
    assert [world.committed(topic, p) for p in range(3)] == [[], [], []]
    assert [world.all_written(topic, p) for p in range(3)] == [[b"0"], [b"1"], [b"2"]]
    receipt = [sink_pb2.SinkRange(topic=topic, partition=p) for p in range(3)]
    decided = sink.decide(0, *writers, rows=3, receipt=receipt)
    assert decided.is_new
    assert list(decided.decision.receipt) == receipt
    sees(world, topic, [b"0"], [b"1"], [b"2"])
    again = sink.decide(0, *writers, rows=3, receipt=receipt)
    assert (again.decision, again.is_new) == (decided.decision, False)
    with pytest.raises(errors.SinkBatchDecided, match="two writes of one batch need a sinkId each"):
        sink.begin(0, attempt=9)
    replayed = sink.begin(0, run=NEXT_RUN)
    assert (replayed.decided, replayed.HasField("member")) == (decided.decision, False)
    sink.decide(1, run=NEXT_RUN)
    with pytest.raises(errors.SinkBatchDecided, match="the checkpoint is older than the sink"):
        sink.begin(0, run=NEXT_RUN)
    sees(world, topic, [b"0"], [b"1"], [b"2"])


def test_attempts_that_lose_are_never_seen(
    world: RawTransactions, topic: str, sink: RawSink
) -> None:
    """One is prepared, and one writes yet when the batch is decided."""
    lost = sink.staged(0, topic, [b"lost"], attempt=1)
    late = sink.writer(0, attempt=2)
    late.send(topic, b"late")
    silent = sink.writer(0, attempt=3)
    won = sink.staged(0, topic, [b"won"], attempt=4)
    sink.decide(0, won)
    sees(world, topic, [b"won"])
    for writer in (lost, late, silent, won):
        with pytest.raises((errors.ProducerFenced, errors.InvalidProducerEpoch)):
            writer.send(topic, b"too late")
        with pytest.raises(errors.InvalidTxnState, match="was aborted"):
            sink.prepare(writer)
    sees(world, topic, [b"won"])
    assert world.all_written(topic) == [b"lost", b"late", b"won"]


def test_batches_take_their_ids_from_the_pool(
    world: RawTransactions, topic: str, sink: RawSink
) -> None:
    used = set()
    for batch in range(8):
        writers = [
            sink.staged(batch, topic, [b"%d" % batch], partition=task, task=task)
            for task in range(2)
        ]
        used |= {(each.transactional_id, each.producer_id) for each in writers}
        sink.decide(batch, *writers)
        sees(world, topic, *[[b"%d" % each for each in range(batch + 1)]] * 2)
    assert len(used) == 2


def test_an_aborted_batch_is_written_again_by_the_same_run(
    world: RawTransactions, topic: str, sink: RawSink
) -> None:
    no = sink.staged(0, topic, [b"no"])
    assert sink.abort(0) == 1
    assert sink.abort(0) == 0
    sees(world, topic, [])
    with pytest.raises(errors.InvalidTxnState):
        sink.decide(0, no)
    sink.decide(0, sink.staged(0, topic, [b"yes"], attempt=1))
    assert sink.abort(0) == 0, "a decision stands"
    sees(world, topic, [b"yes"])


def test_a_batch_without_rows(world: RawTransactions, topic: str, sink: RawSink) -> None:
    assert sink.decide(0, rows=0).is_new
    assert not sink.decide(0, rows=0).is_new
    sink.decide(1, sink.staged(1, topic, [b"a"]))
    sees(world, topic, [b"a"])


# ---- runs ---------------------------------------------------------------------------------------


def test_a_new_run_ends_what_the_one_before_left_open(
    world: RawTransactions, topic: str, sink: RawSink
) -> None:
    prepared = sink.staged(0, topic, [b"no"], task=0)
    writing = sink.writer(0, task=1)
    writing.send(topic, b"no", partition=1)
    new = sink.staged(0, topic, [b"yes"], partition=2, run=NEXT_RUN)
    sees(world, topic, [], [])
    for refused in (
        lambda: sink.begin(0, task=2),
        lambda: sink.decide(0, prepared),
        lambda: sink.decide(1),
    ):
        with pytest.raises(errors.SinkRunSuperseded, match=f"run {NEXT_RUN} writes to sink"):
            refused()
    with pytest.raises(errors.InvalidTxnState, match="a newer run has begun"):
        sink.renew(writing)
    with pytest.raises((errors.ProducerFenced, errors.InvalidProducerEpoch)):
        writing.send(topic, b"no", partition=1)
    sink.decide(0, new, run=NEXT_RUN)
    sees(world, topic, [], [], [b"yes"])


# ---- time ---------------------------------------------------------------------------------------


def test_a_prepared_attempt_is_aborted_when_nobody_decides(
    world: RawTransactions, topic: str, sink: RawSink
) -> None:
    no = sink.staged(0, topic, [b"no"], timeout_ms=500)
    sees(world, topic, [])
    with pytest.raises(errors.InvalidTxnState, match="waited for too long"):
        sink.decide(0, no)


def test_an_attempt_lives_as_long_as_it_is_renewed() -> None:
    config = {"sink.attempt.lease.ms": "4000"}
    with LocalCluster(config=config) as small, RawClient(small.bootstrap_servers) as client:
        world = RawTransactions(client)
        client.create_topic("t", partitions=2)
        sink = RawSink(world, "q")
        assert sink.begin(0).lease_ms == 4000
        kept, left = sink.writer(0, task=1), sink.writer(0, task=2)
        kept.send("t", b"kept")
        left.send("t", b"left", partition=1)

        def left_is_aborted() -> bool:
            sink.renew(kept)
            data = world.fetch("t", 1, committed=True)
            return bool(data.last_stable_offset == data.high_watermark)

        eventually(30, left_is_aborted, "who is not renewed is aborted")
        with pytest.raises(errors.InvalidTxnState, match="did not report for too long"):
            sink.renew(left)
        sink.prepare(kept)
        sink.decide(0, kept)
        sees(world, "t", [b"kept"], [])


# ---- looking after them --------------------------------------------------------------------------


def test_a_sink_is_listed_and_forgotten(world: RawTransactions, topic: str, sink: RawSink) -> None:
    receipt = [sink_pb2.SinkRange(topic=topic, partition=0, first_offset=0, last_offset=0)]
    done = sink.staged(0, topic, [b"a"])
    decided = sink.decide(0, done, receipt=receipt).decision
    sees(world, topic, [b"a"])
    sink.staged(1, topic, [b"b"], partition=1)
    (listed,) = sink.listed()
    assert (listed.sink, listed.run_id, listed.last) == (sink.key, "run-1", decided)
    assert (listed.open_attempts, listed.prepared_attempts) == (1, 1)
    assert 0 < listed.held_since_ms <= listed.prepared_since_ms
    sink.forget()
    sees(world, topic, [b"a"], [])
    assert sink.listed() == []
    with pytest.raises(errors.InvalidRequest, match="has no sink"):
        sink.forget()
    sink.decide(0, sink.staged(0, topic, [b"a again"]))
    sees(world, topic, [b"a", b"a again"], [])


def test_administrators_look_at_sinks(
    cluster: LocalCluster, world: RawTransactions, topic: str, sink: RawSink
) -> None:
    receipt = [sink_pb2.SinkRange(topic=topic, partition=1, first_offset=3, last_offset=7)]
    sink.decide(4, receipt=receipt, rows=5, keep_ms=86_400_000)
    staged = sink.staged(5, topic, [b"b"])
    sink.writer(5, task=1)
    other = RawSink(world, f"{topic}-too", "topic/orders")
    other.decide(0)
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
        listed = [each for each in admin.list_sinks() if each.query_id.startswith(topic)]
        (mine,) = admin.list_sinks(topic, "orders", receipts=True)
        assert listed == [
            replace(mine, last=replace(mine.last, receipt=())),  # type: ignore[type-var]
            *admin.list_sinks(sink_id="topic/orders"),
        ]
        assert (mine.coordinator, mine.run_id) == (sink.coordinator()[0], "run-1")
        assert (mine.open_attempts, mine.prepared_attempts) == (2, 1)
        assert mine.held_since_ms is not None
        assert mine.prepared_since_ms is not None
        last = mine.last
        assert last is not None
        assert (last.batch_id, last.row_count, last.checksum) == (4, 5, 5)
        assert last.expires_ms == last.decided_ms + 86_400_000
        assert last.receipt == (WrittenRange(topic, 1, 3, 7),)
        (named,) = [
            each
            for each in admin.list_transactions("Ongoing")
            if each.transactional_id == staged.transactional_id
        ]
        assert (named.query_id, named.sink_id) == (topic, "orders")
        with pytest.raises(errors.InvalidRequest, match="`pylog sinks abort` ends"):
            admin.abort_transaction(staged.transactional_id)
        assert admin.abort_sink(topic, "orders") == 2
        assert admin.abort_sink(topic, "orders") == 0
        sees(world, topic, [])
        admin.forget_sink(topic, "orders")
        assert admin.list_sinks(topic) == []
        with pytest.raises(errors.InvalidRequest, match="has no sink 'orders'"):
            admin.forget_sink(topic, "orders")
        with pytest.raises(errors.InvalidRequest, match="has a slash"):
            admin.forget_sink("a/b", "orders")

    async def in_asyncio() -> None:
        given = {"bootstrap_servers": cluster.bootstrap_servers}
        async with AsyncAdminClient(**given) as admin:
            (left,) = await admin.list_sinks(f"{topic}-too")
            assert left.sink_id == "topic/orders"
            assert await admin.abort_sink(left.query_id, left.sink_id) == 0
            await admin.forget_sink(left.query_id, left.sink_id)
            assert await admin.list_sinks(left.query_id) == []

    asyncio.run(in_asyncio())


def test_the_command_line_looks_at_sinks(
    cluster: LocalCluster,
    world: RawTransactions,
    topic: str,
    sink: RawSink,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def run(*words: str) -> str:
        assert main([*words, "-b", cluster.bootstrap_servers]) == 0
        return capsys.readouterr().out

    receipt = [sink_pb2.SinkRange(topic=topic, partition=1, first_offset=3, last_offset=7)]
    sink.decide(4, receipt=receipt, rows=5)
    sink.staged(5, topic, [b"b"])
    (shown,) = json.loads(run("sinks", "list", "--json", "--query", topic, "--receipts"))
    assert (shown["query_id"], shown["sink_id"], shown["last"]["batch_id"]) == (topic, "orders", 4)
    assert shown["last"]["receipt"] == [
        {"topic": topic, "partition": 1, "first_offset": 3, "last_offset": 7}
    ]
    table = run("sinks", "list", "--sink", "orders", "--receipts")
    assert topic in table
    assert f"{topic}-1: 3 to 7" in table
    assert topic in run("transactions", "list", "--state", "Ongoing")
    assert run("sinks", "abort", topic, "orders") == "1 attempt aborted\n"
    assert json.loads(run("sinks", "abort", "--json", topic, "orders"))["aborted"] == 0
    assert run("sinks", "forget", topic, "orders", "--yes") == (
        f"forgot sink orders of query {topic}\n"
    )
    assert json.loads(run("sinks", "list", "--json", "--query", topic)) == []
    unknown = ["sinks", "forget", topic, "x", "--yes", "-b", cluster.bootstrap_servers]
    assert main(unknown) == 1
    assert "has no sink 'x'" in capsys.readouterr().err


def test_producers_do_not_get_at_the_ids_of_a_sink(
    world: RawTransactions, topic: str, sink: RawSink
) -> None:
    staged = sink.staged(0, topic, [b"a"])
    for disturbs in (
        RawProducer(world, sink.first_id).init,
        staged.commit,
        staged.abort,
        lambda: staged.add(topic, 1),
    ):
        with pytest.raises(errors.InvalidRequest, match="belong to the sinks of queries"):
            disturbs()
    sink.decide(0, staged)
    sees(world, topic, [b"a"])


def test_another_broker_sends_a_request_on_its_way(
    world: RawTransactions, topic: str, sink: RawSink
) -> None:
    sink.begin(0)
    broker, _ = sink.coordinator()
    other = next(each.id for each in world.raw.metadata().brokers if each.id != broker)
    answer = sink.ask_once(world.address(other), "DecideSinkBatch", sink.decision(0))
    assert answer.error.code == errors.NotCoordinator.code


# ---- deaths --------------------------------------------------------------------------------------


def restart(cluster: LocalCluster, world: RawTransactions, broker: int, topic: str) -> None:
    cluster.start(broker)

    def in_sync(name: str, partitions: int) -> bool:
        return all(len(world.raw.partition(name, p).isr) == 3 for p in range(partitions))

    for name, partitions in ((topic, 3), ("__transaction_state", 6)):
        eventually(30, lambda name=name, n=partitions: in_sync(name, n), f"{name} is in sync")


def test_the_coordinator_dies_between_prepare_and_decision(
    cluster: LocalCluster, world: RawTransactions, topic: str, sink: RawSink
) -> None:
    lost = sink.staged(0, topic, [b"no"], attempt=1)
    won = [sink.staged(0, topic, [b"yes"], partition=p, task=1 + p) for p in range(3)]
    broker, _ = sink.coordinator()
    cluster.kill(broker)
    assert sink.decide(0, *won).is_new
    sees(world, topic, [b"yes"], [b"yes"], [b"yes"])
    with pytest.raises(errors.InvalidTxnState):
        sink.prepare(lost)
    restart(cluster, world, broker, topic)
    sees(world, topic, [b"yes"], [b"yes"], [b"yes"])


def test_the_coordinator_dies_with_a_decision_whose_markers_are_missing(
    cluster: LocalCluster, world: RawTransactions, topic: str, sink: RawSink
) -> None:
    sink.begin(0)
    broker, _ = sink.coordinator()
    led = next(p for p in range(3) if world.leader_id(topic, p) != broker)
    lost = sink.staged(0, topic, [b"no"], partition=led, attempt=1)
    won = sink.staged(0, topic, [b"yes"], partition=led, attempt=2)
    frozen = world.leader_id(topic, led)
    cluster.pause(frozen)
    try:
        decided = sink.decide(0, won)
    finally:
        cluster.kill(broker)
        cluster.resume(frozen)
    again = sink.decide(0, won)
    assert (again.decision, again.is_new) == (decided.decision, False)
    sees(world, topic, *[[b"yes"] if p == led else [] for p in range(3)])
    with pytest.raises((errors.ProducerFenced, errors.InvalidProducerEpoch)):
        lost.send(topic, b"too late", partition=led)
    restart(cluster, world, broker, topic)


def test_the_coordinator_dies_with_a_decision_that_nobody_has_copied(
    cluster: LocalCluster, world: RawTransactions, topic: str, sink: RawSink
) -> None:
    """Nobody was answered: the same decision is made again, and counts once."""
    won = sink.staged(0, topic, [b"yes"])
    broker, server = sink.coordinator()
    others = [each.id for each in world.raw.metadata().brokers if each.id != broker]
    for each in others:
        cluster.pause(each)
    try:
        with suppress(grpc.RpcError):
            answer = sink.ask_once(server, "DecideSinkBatch", sink.decision(0, won), seconds=2)
            assert answer.error.code, "it cannot be committed"
    finally:
        cluster.kill(broker)
        for each in others:
            cluster.resume(each)
    decided = sink.decide(0, won)
    again = sink.decide(0, won)
    assert (again.decision, again.is_new) == (decided.decision, False)
    sees(world, topic, [b"yes"])
    restart(cluster, world, broker, topic)
    sees(world, topic, [b"yes"])


def test_the_leader_dies_while_an_attempt_writes(
    cluster: LocalCluster, world: RawTransactions, topic: str, sink: RawSink
) -> None:
    writer = sink.writer(0)
    writer.send(topic, b"a")
    leader = world.leader_id(topic)
    cluster.kill(leader)
    writer.send(topic, b"b")
    sink.prepare(writer)
    sink.decide(0, writer)
    sees(world, topic, [b"a", b"b"])
    restart(cluster, world, leader, topic)
    sees(world, topic, [b"a", b"b"])


def test_all_brokers_start_again_with_a_prepared_batch(
    cluster: LocalCluster, world: RawTransactions, topic: str, sink: RawSink
) -> None:
    first = sink.decide(0, sink.staged(0, topic, [b"a"])).decision
    won = sink.staged(1, topic, [b"b"])
    lost = sink.writer(1, task=1)
    lost.send(topic, b"no", partition=1)
    brokers = [each.id for each in world.raw.metadata().brokers]
    for broker in brokers:
        cluster.kill(broker)
    for broker in brokers:
        cluster.start(broker)
    (listed,) = until_listed(sink)
    assert (listed.last, listed.open_attempts, listed.prepared_attempts) == (first, 2, 1)
    sink.decide(1, won)
    sees(world, topic, [b"a", b"b"], [])


def until_listed(sink: RawSink) -> list[sink_pb2.ListedSink]:
    """The sink, when its coordinator answers again."""
    request = sink_pb2.ListSinksRequest(query_id=sink.key.query_id)

    def ask() -> sink_pb2.ListSinksResponse:
        answer: sink_pb2.ListSinksResponse = sink.ask_once(
            sink.coordinator()[1], "ListSinks", request
        )
        if not answer.error.code and not answer.sinks:
            raise LookupError("it is not loaded yet")
        return answer

    return list(until_it_works(ask).sinks)


class Query:
    """Writes each batch by a task for each partition, some of which are attempted twice; after a
    failure it starts again, as another run, with the batch that it does not know to count.
    """

    def __init__(self, world: RawTransactions, topic: str, number: int, seed: int) -> None:
        self.topic = topic
        self.sink = RawSink(world, f"{topic}-{number}")
        self.number = number
        self.rng = random.Random(f"{seed} {number}")
        self.runs = 0
        self.attempts = itertools.count()

    def value(self, batch: int) -> bytes:
        return b"%d-%d" % (self.number, batch)

    def run(self, batches: int) -> None:
        batch = 0
        while batch < batches:
            try:
                self.write(batch)
            except (errors.PylogError, grpc.RpcError):
                self.runs += 1
                assert self.runs < 100
            else:
                batch += 1

    def write(self, batch: int) -> None:
        run = f"run-{self.runs}"
        if self.sink.begin(batch, 0, next(self.attempts), run).HasField("decided"):
            return
        won = []
        for task in range(3):
            for _ in range(self.rng.choice((1, 1, 2))):
                staged = self.sink.staged(
                    batch, self.topic, [self.value(batch)], partition=task, task=task,
                    attempt=next(self.attempts), run=run,
                )  # fmt: skip
            won.append(staged)
        self.sink.decide(batch, *won, run=run, rows=3)


def test_batches_count_once_whatever_dies(
    cluster: LocalCluster, world: RawTransactions, topic: str
) -> None:
    """Two queries, while one broker after the other is killed."""
    seed = random.randrange(1 << 32)
    rng = random.Random(seed)
    queries = [Query(world, topic, number, seed) for number in range(2)]
    batches = 15
    with ThreadPoolExecutor(2) as pool:
        running = [pool.submit(query.run, batches) for query in queries]
        while not all(each.done() for each in running):
            broker = rng.choice(cluster.brokers)
            cluster.kill(broker)
            SYSTEM_CLOCK.sleep(rng.uniform(0, 2))
            restart(cluster, world, broker, topic)
        for each in running:
            each.result()
    for query in queries:
        query.sink.abort(batches, run=f"run-{query.runs}")

    def nobody_waits() -> bool:
        found = [world.fetch(topic, partition, committed=True) for partition in range(3)]
        return all(each.last_stable_offset == each.high_watermark for each in found)

    eventually(40, nobody_waits, f"all has ended, seed {seed}")
    for partition in range(3):
        seen = world.committed(topic, partition)
        for query in queries:
            mine = [value for value in seen if value and value.startswith(b"%d-" % query.number)]
            assert mine == [query.value(batch) for batch in range(batches)], f"seed {seed}"
