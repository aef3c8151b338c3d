"""Users' mistakes, by the clients and the command line: an error that names each, in time."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, Producer, TopicPartition, errors
from pylog.clock import SYSTEM_CLOCK
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration

REFUSED = "127.0.0.1:1"
NO_NAME = "no-such-host.invalid:9092"
UNREACHABLE = f"{REFUSED},{NO_NAME}"
# A shared machine may stand still that long; a call that has forgotten its limit takes a minute.
STALL_S = 5


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster() as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        client.create_topics(NewTopic("there"))
        client.create_topics(NewTopic("small", config={"max.message.bytes": "2000"}))
        yield client


@pytest.fixture(scope="module")
def producer(cluster: LocalCluster, admin: AdminClient) -> Iterator[Producer]:
    with Producer(bootstrap_servers=cluster.bootstrap_servers, max_block_ms=1_000) as p:
        yield p


def within(seconds: float, error: type[errors.PylogError], call: Callable[[], object]) -> str:
    """The text of the error that the call raises in that time, but for a stall of the machine."""
    begin_ms = SYSTEM_CLOCK.monotonic_ms()
    with pytest.raises(error) as caught:
        call()
    assert SYSTEM_CLOCK.monotonic_ms() - begin_ms < (seconds + STALL_S) * 1000
    return str(caught.value)


def pylog(*arguments: str, stdin: bytes = b"x\n") -> tuple[int, str]:
    """Exit status and standard error of the command."""
    done = subprocess.run(
        [sys.executable, "-m", "pylog.cli.main", *arguments],
        input=stdin,
        capture_output=True,
        timeout=30,
        check=False,
    )
    return done.returncode, done.stderr.decode()


# ---- a topic or partition that does not exist ---------------------------------------------------


def test_a_producer_says_which_topic_is_unknown(producer: Producer) -> None:
    unknown = errors.UnknownTopicOrPartition
    assert "nope" in within(5, unknown, lambda: producer.send("nope", b"x"))
    assert "nope" in within(5, unknown, lambda: producer.partitions_for("nope"))
    text = within(5, unknown, lambda: producer.send("there", b"x", partition=3))
    assert text == "topic there has partitions 0 to 0; there is no partition 3"


def test_a_consumer_says_which_topic_or_partition_is_unknown(cluster: LocalCluster) -> None:
    servers = cluster.bootstrap_servers
    unknown = errors.UnknownTopicOrPartition
    settings = {"bootstrap_servers": servers, "default_api_timeout_ms": 1_000}
    with Consumer("nope", **settings) as consumer:
        assert "nope" in within(5, unknown, lambda: consumer.poll(20))
    with Consumer(**settings) as consumer:
        consumer.assign([("nope", 0)])
        assert "nope" in within(5, unknown, lambda: consumer.poll(20))
        assert "nope" in within(5, unknown, lambda: consumer.position(("nope", 0)))
        assert "nope" in within(5, unknown, lambda: consumer.end_offsets([("nope", 0)]))
    with Consumer(**settings) as consumer:
        consumer.assign([("there", 9)])
        text = within(5, unknown, lambda: consumer.poll(20))
        assert text == "topic there has partitions 0 to 0; there is no partition 9"


def test_an_admin_client_says_which_topic_is_unknown(admin: AdminClient) -> None:
    unknown = errors.UnknownTopicOrPartition
    nope = TopicPartition("nope", 0)
    for call in (
        lambda: admin.describe_topics("nope", timeout=1),
        lambda: admin.delete_topics("nope", timeout=1),
        lambda: admin.list_offsets({nope: "latest"}, timeout=1),
        lambda: admin.delete_records({nope: 1}, timeout=1),
    ):
        assert "nope" in within(5, unknown, call)
    text = within(5, unknown, lambda: admin.list_offsets({TopicPartition("there", 7): "latest"}))
    assert "no partition 7" in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["produce", "nope"], "UNKNOWN_TOPIC_OR_PARTITION: topic nope"),
        (["consume", "nope", "--max-messages", "1"], "UNKNOWN_TOPIC_OR_PARTITION: topic nope"),
        (["topics", "describe", "nope"], "UNKNOWN_TOPIC_OR_PARTITION: topic nope"),
        (["topics", "delete", "nope"], "UNKNOWN_TOPIC_OR_PARTITION: topic nope: it does not exist"),
        (["topics", "create", "there"], "TOPIC_ALREADY_EXISTS: topic there"),
        (["topics", "create", "../x"], "INVALID_TOPIC: "),
        (["topics", "create", "y", "--partitions", "0"], "INVALID_PARTITIONS: "),
        (["topics", "create", "y", "--replication-factor", "5"], "INVALID_REPLICATION_FACTOR: "),
        (["topics", "create", "y", "--config", "retention.mss=5"], "did you mean retention.ms?"),
    ],
)
def test_the_command_line_names_what_is_wrong(
    cluster: LocalCluster, admin: AdminClient, arguments: list[str], says: str
) -> None:
    status, text = pylog("-b", cluster.bootstrap_servers, "--api-timeout", "2", *arguments)
    assert status == 1
    assert says in text
    stored = ["0 of 1 lines"] if arguments[0] == "produce" else []  # always told
    assert text.count("\n") == 1 + len(stored)
    assert all(count in text for count in stored)


# ---- a wrong option -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("client", "settings", "says"),
    [
        (Producer, {"lingerms": 5}, r"lingerms.*linger_ms"),
        (Producer, {"acks": 7}, "acks"),
        (Producer, {"compression_type": "zip"}, "compression_type"),
        (Producer, {"batch_size": "many"}, "batch_size"),
        (Producer, {"linger_ms": -1}, "linger_ms"),
        (Consumer, {"auto_offset_reset": "first"}, "auto_offset_reset"),
        (Consumer, {"fetch_min_byte": 1}, r"fetch_min_byte.*fetch_min_bytes"),
        (AdminClient, {"default_api_timeout": 1}, r"default_api_timeout_ms"),
    ],
)
def test_a_wrong_option_is_named_at_construction(
    client: type[Producer], settings: dict[str, object], says: str
) -> None:
    with pytest.raises(errors.PylogError, match=says):
        client(bootstrap_servers=REFUSED, **settings)


@pytest.mark.parametrize("servers", ["", [], "host", "host:abc", "host:70000", ":9092", "host:0"])
@pytest.mark.parametrize("client", [Producer, Consumer, AdminClient])
def test_an_address_that_is_none(client: type[Producer], servers: str) -> None:
    with pytest.raises(errors.InvalidConfig, match="bootstrap_servers"):
        client(bootstrap_servers=servers)


# ---- nobody can be reached ----------------------------------------------------------------------


def test_each_address_and_its_fault_are_named() -> None:
    calls: list[Callable[[], object]] = []
    failed = errors.BootstrapFailed
    with (
        Producer(bootstrap_servers=UNREACHABLE, max_block_ms=700) as producer,
        Consumer("x", bootstrap_servers=UNREACHABLE, default_api_timeout_ms=700) as consumer,
        AdminClient(bootstrap_servers=UNREACHABLE, default_api_timeout_ms=700) as admin,
    ):
        calls = [
            lambda: producer.send("x", b"x"),
            lambda: producer.partitions_for("x"),
            lambda: consumer.poll(20),
            lambda: consumer.end_offsets([TopicPartition("x", 0)]),
            admin.list_topics,
            lambda: admin.create_topics(NewTopic("x")),
            admin.describe_cluster,
        ]
        texts = [within(5, failed, call) for call in calls]
    status, printed = pylog("-b", UNREACHABLE, "--api-timeout", "1", "topics", "list")
    assert status == 1
    for text in [*texts, printed]:
        assert f"{REFUSED}: connection refused" in text
        assert f"{NO_NAME}: the name cannot be resolved" in text
        assert "Check bootstrap_servers" in text


def test_one_good_address_among_bad_ones_is_enough(
    cluster: LocalCluster, admin: AdminClient
) -> None:
    for good in cluster.bootstrap_servers.split(","):
        servers = [REFUSED, good, NO_NAME]
        with Producer(bootstrap_servers=servers, max_block_ms=5_000) as producer:
            assert producer.send("there", b"x").result(10).topic == "there"


def test_a_broker_that_is_gone_is_named_in_time() -> None:
    settings = {"default_api_timeout_ms": 3_000}
    times = {"delivery_timeout_ms": 3_000, "request_timeout_ms": 2_000, "linger_ms": 0}
    with (
        LocalCluster() as cluster,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers, **settings) as admin,
        Producer(bootstrap_servers=cluster.bootstrap_servers, **times) as producer,
        Consumer(bootstrap_servers=cluster.bootstrap_servers, **settings) as consumer,
    ):
        admin.create_topics(NewTopic("t"))
        tp = TopicPartition("t", 0)
        producer.send("t", b"x").result(10)
        assert consumer.end_offsets([tp]) == {tp: 1}
        cluster.kill(1)
        late = errors.RequestTimedOut
        text = within(6, errors.DeliveryTimedOut, lambda: producer.send("t", b"x").result(10))
        assert "t-0: not acknowledged within delivery_timeout_ms=3000" in text
        assert "connection refused" in text or "no live leader" in text
        assert "t-0" in within(6, late, lambda: consumer.end_offsets([tp]))
        assert "t-0" in within(6, late, lambda: admin.list_offsets({tp: "latest"}))
        consumer.assign([tp])
        assert not consumer.poll(0.5)  # nothing to read is no error, and it waits no longer
        cluster.kill_controller()
        text = within(6, late, lambda: admin.create_topics(NewTopic("u")))
        assert "connection refused" in text
        text = within(5, errors.BootstrapFailed, admin.list_topics)
        assert all(f"{a}: connection refused" in text for a in cluster.bootstrap_servers.split(","))
        assert "within 3 s" in text


# ---- records that are too large -----------------------------------------------------------------


def test_a_record_over_a_limit_names_it_and_harms_no_other(
    cluster: LocalCluster, producer: Producer
) -> None:
    too_large = errors.MessageTooLarge
    text = within(5, too_large, lambda: producer.send("small", bytes(2 << 20)))
    assert "max_request_size is 1048576" in text
    text = within(5, too_large, lambda: producer.send("small", bytes(5_000)).result(5))
    assert "max.message.bytes is 2000" in text
    assert "small-0" in text
    assert producer.send("small", bytes(1_000)).result(5).offset == 0
    # A batch over the limit, of records that are not: it is split, and nothing is lost.
    with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=1_000) as patient:
        handles = [patient.send("small", bytes(100)) for _ in range(100)]
        assert [handle.result(10).offset for handle in handles] == list(range(1, 101))
    assert producer.send("small", bytes(1_000)).result(5).offset == 101


# ---- input 10 -----------------------------------------------------------------------------------


def test_10_a_topic_is_deleted_and_made_anew_while_records_flow(
    cluster: LocalCluster, admin: AdminClient
) -> None:
    admin.create_topics(NewTopic("flow"))
    sent: list[tuple[int, object]] = []
    stop = threading.Event()
    unexpected: list[BaseException] = []

    def send(producer: Producer) -> None:
        number = 0
        while not stop.wait(0.0005):
            try:
                sent.append((number, producer.send("flow", b"%d" % number)))
            except (errors.UnknownTopicOrPartition, errors.UnknownTopicId):
                pass
            except BaseException as error:
                unexpected.append(error)
                raise
            number += 1

    settings = {"linger_ms": 0, "delivery_timeout_ms": 10_000, "request_timeout_ms": 5_000}
    with Producer(
        bootstrap_servers=cluster.bootstrap_servers, max_block_ms=1_000, **settings
    ) as producer:
        thread = threading.Thread(target=send, args=(producer,))
        thread.start()
        eventually(30, lambda: len(sent) > 200, "some records are sent")
        before = len(sent)  # while the topic is being deleted a record may be meant for either
        admin.delete_topics("flow")
        SYSTEM_CLOCK.sleep(0.3)
        admin.create_topics(NewTopic("flow"))
        after = len(sent)
        eventually(
            30,
            lambda: any(_stored(handle) for _, handle in sent[after:]),
            "a record is stored in the new topic",
        )
        stop.set()
        thread.join(20)
        producer.flush(20)
    assert not unexpected
    outcomes = [handle.exception(0) for _, handle in sent]  # type: ignore[attr-defined]
    faults = {type(error) for error in outcomes if error is not None}
    assert faults <= {errors.UnknownTopicId, errors.UnknownTopicOrPartition}
    stored = {number for (number, _), error in zip(sent, outcomes, strict=True) if error is None}
    with Consumer(
        "flow", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        end = consumer.end_offsets([TopicPartition("flow", 0)])[TopicPartition("flow", 0)]
        got: list[int] = []
        while len(got) < end:
            records = consumer.poll(10)
            assert records
            got += [int(record.value) for record in records]
    assert got == sorted(set(got))
    assert set(got) <= stored
    assert got[0] >= sent[before][0], "a record meant for the deleted topic is in the new one"
    assert {n for n in stored if n >= got[0]} == set(got)


def _stored(handle: object) -> bool:
    return handle.done() and handle.exception(0) is None  # type: ignore[attr-defined, no-any-return]
