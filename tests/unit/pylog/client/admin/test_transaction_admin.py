"""Transactions as the admin client and the command line describe and abort them."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable, Iterator

import pytest

from pylog import AdminClient, Producer, errors
from pylog.aio import AsyncAdminClient
from pylog.cli.main import main
from pylog.client.admin.transaction_types import (
    FencedProducer,
    HangingTransaction,
    ProducerState,
    TransactionDescription,
    TransactionListing,
)
from pylog.model import TopicPartition
from tests.fakes.fake_cluster import FakeCluster

T1 = TopicPartition("t", 1)
HANGS = TopicPartition("t", 2)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    """`open` holds a transaction in t-1, `done` has committed one; in t-2 one hangs."""
    with FakeCluster(2) as running:
        running.create_topic("t", 3)
        running.create_topic("empty")
        running.groups.coordinators["txn:open"] = 2
        given = {"bootstrap_servers": running.bootstrap_servers, "linger_ms": 0}
        with Producer(transactional_id="done", **given) as done:
            done.init_transactions()
            with done.transaction():
                done.send("t", b"x", partition=0)
        running.transactions.hanging[HANGS, 77] = 12
        stays = Producer(transactional_id="open", **given)
        stays.init_transactions()
        stays.begin_transaction()
        stays.send("t", b"x", partition=1).result(5)
        yield running
        stays.close()


@pytest.fixture
def admin(cluster: FakeCluster) -> Iterator[AdminClient]:
    with AdminClient(
        bootstrap_servers=cluster.bootstrap_servers,
        retry_backoff_ms=10,
        default_api_timeout_ms=5_000,
    ) as client:
        yield client


def test_all_brokers_are_asked_for_their_transactional_ids(admin: AdminClient) -> None:
    done = TransactionListing("done", 1, 1_000, "CompleteCommit")
    opened = TransactionListing("open", 2, 1_001, "Ongoing")
    assert admin.list_transactions() == [done, opened]
    assert admin.list_transactions("ongoing") == [opened]
    assert admin.list_transactions(["Empty", "CompleteCommit"]) == [done]
    assert admin.list_transactions(producer_ids=1_001) == [opened]
    assert admin.list_transactions(producer_ids=[5]) == []
    assert admin.list_transactions(pattern="d.*") == [done]


def test_a_broker_that_cannot_answer_is_named(cluster: FakeCluster, admin: AdminClient) -> None:
    code = errors.ClusterAuthorizationFailed.code
    cluster.transactions.faults["ListTransactions"] = deque([code])
    with pytest.raises(errors.PartialFailure) as partly:
        admin.list_transactions()
    assert len(partly.value.errors) == len(partly.value.results) == 1


def test_transactions_are_described_by_their_coordinators(
    cluster: FakeCluster, admin: AdminClient
) -> None:
    busy = errors.CoordinatorLoadInProgress.code
    cluster.transactions.faults["DescribeTransactions"] = deque([busy, busy])
    assert admin.describe_transactions(["open", "done"]) == {
        "open": TransactionDescription("open", 2, "Ongoing", 1_001, 0, 60_000, 1_000, (T1,)),
        "done": TransactionDescription("done", 1, "CompleteCommit", 1_000, 1, 60_000, None),
    }
    with pytest.raises(errors.TransactionalIdNotFound, match="'nope'"):
        admin.describe_transactions("nope")
    with pytest.raises(errors.PartialFailure) as partly:
        admin.describe_transactions(["nope", "open"])
    assert set(partly.value.results) == {"open"}


def test_producers_are_told_by_the_leaders(admin: AdminClient) -> None:
    opened = ProducerState(1_001, 0, 0, 1_000, None, 0)
    hangs = ProducerState(77, 0, 0, 1_000, None, 12)
    assert admin.describe_producers([T1, HANGS]) == {T1: [opened], HANGS: [hangs]}
    assert admin.describe_producers(("t", 0)) == {("t", 0): []}
    with pytest.raises(errors.UnknownTopicOrPartition):
        admin.describe_producers(("t", 9))


def test_only_what_no_coordinator_knows_hangs(admin: AdminClient) -> None:
    hangs = HangingTransaction(HANGS, ProducerState(77, 0, 0, 1_000, None, 12))
    assert admin.find_hanging_transactions() == [hangs]
    assert admin.find_hanging_transactions("t", older_than_ms=0) == [hangs]
    assert admin.find_hanging_transactions(["empty"]) == []
    assert admin.find_hanging_transactions(older_than_ms=2**41) == []
    with pytest.raises(errors.UnknownTopicOrPartition):
        admin.find_hanging_transactions("nope")


def test_a_hanging_transaction_is_aborted_in_its_partition(admin: AdminClient) -> None:
    with pytest.raises(errors.InvalidTxnState, match="offset 5 is open"):
        admin.abort_transaction(HANGS, start_offset=5)
    admin.abort_transaction(HANGS, start_offset=12)
    assert admin.find_hanging_transactions() == []
    with pytest.raises(errors.InvalidTxnState, match="producer 77 is open"):
        admin.abort_transaction(HANGS, producer_id=77)


def test_the_transaction_of_an_id_is_aborted_by_fencing_its_producer(admin: AdminClient) -> None:
    admin.abort_transaction("open")
    assert admin.describe_transactions("open")["open"].state == "Empty"
    with pytest.raises(errors.TransactionalIdNotFound):
        admin.abort_transaction("nope")
    assert [one.transactional_id for one in admin.list_transactions()] == ["done", "open"]


def test_producers_are_fenced(cluster: FakeCluster, admin: AdminClient) -> None:
    busy = errors.ConcurrentTransactions.code
    cluster.transactions.faults["InitProducerId"] = deque([busy])
    assert admin.fence_producers(["done", "new"]) == {
        "done": FencedProducer(1_000, 2), "new": FencedProducer(1_002, 0)}  # fmt: skip


def test_the_asyncio_twin(cluster: FakeCluster) -> None:
    async def run() -> list[str]:
        async with AsyncAdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            await admin.abort_transaction(HANGS, producer_id=77)
            assert await admin.find_hanging_transactions() == []
            return [one.transactional_id for one in await admin.list_transactions()]

    assert asyncio.run(run()) == ["done", "open"]


def test_wrong_arguments_are_named(admin: AdminClient) -> None:
    for call, words in (
        (lambda: admin.list_transactions("Sleeping"), "Ongoing"),
        (lambda: admin.list_transactions(producer_ids=[-1]), "producer_ids"),
        (lambda: admin.list_transactions(older_than_ms=-5), "older_than_ms"),
        (lambda: admin.list_transactions(pattern=5), "pattern"),  # type: ignore[arg-type]
        (lambda: admin.describe_transactions([""]), "transactional id"),
        (lambda: admin.describe_transactions(5), "transactional"),  # type: ignore[arg-type]
        (lambda: admin.abort_transaction(T1), "start_offset or producer_id"),
        (lambda: admin.abort_transaction("open", start_offset=1), "start_offset"),
        (lambda: admin.find_hanging_transactions(older_than_ms=-1), "older_than_ms"),
    ):
        with pytest.raises(errors.InvalidRequest, match=words):
            call()


# ---- the command line --------------------------------------------------------------------------


Shell = Callable[..., str]


@pytest.fixture
def shell(cluster: FakeCluster, capsys: pytest.CaptureFixture[str]) -> Shell:
    def run(*words: str, status: int = 0) -> str:
        servers = ",".join(cluster.bootstrap_servers)
        assert main(["-b", servers, "transactions", *words]) == status
        told = capsys.readouterr()
        return told.out + told.err

    return run


def test_the_command_line_lists_and_describes(shell: Shell) -> None:
    assert "open" in shell("list")
    listed = json.loads(shell("list", "--json", "--state", "Ongoing"))
    assert listed == [
        {
            "transactional_id": "open",
            "coordinator": 2,
            "producer_id": 1_001,
            "state": "Ongoing",
            "query_id": None,
            "sink_id": None,
        }
    ]
    (described,) = json.loads(shell("describe", "open", "--json"))
    assert (described["state"], described["partitions"]) == ("Ongoing", ["t-1"])
    assert "t-1" in shell("describe", "open", "done")
    (found,) = json.loads(shell("producers", "t", "--partition", "2", "--json"))
    assert (found["producer_id"], found["start_offset"]) == (77, 12)
    assert "1001" in shell("producers", "t")


def test_the_command_line_finds_and_aborts(shell: Shell) -> None:
    (found,) = json.loads(shell("find-hanging", "--json"))
    assert (found["topic"], found["partition"], found["start_offset"]) == ("t", 2, 12)
    assert "77" in shell("find-hanging", "--topic", "t")
    where = ("--topic", "t", "--partition", "2")
    assert shell("abort", *where, "--start-offset", "12") == "aborted the transaction of t-2\n"
    assert json.loads(shell("find-hanging", "--json")) == []
    assert json.loads(shell("abort", "open", "--json")) == {"transactional_id": "open"}
    assert json.loads(shell("list", "--json", "--state", "Ongoing")) == []
    for wrong in (
        (),
        where,
        ("open", *where),
        (*where, "--start-offset", "1", "--producer-id", "2"),
    ):
        assert "give a transactional id" in shell("abort", *wrong, status=2)
    assert "--older-than" in shell("find-hanging", "--older-than", "soon", status=2)
