"""Wrong requests to a real cluster, each with the error that it must get and nothing else harmed.

The numbers are those of the list of bad inputs; disk faults stand in `test_disk_faults.py`.
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from pylog import errors
from pylog.clock import SYSTEM_CLOCK
from pylog.local import LocalCluster
from pylog.records.batch import HEADER_SIZE, with_producer
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_records
from pylog.rpc.v1 import admin_pb2, log_pb2
from tests.fakes import bad_batches, raw_http2
from tests.fakes.raw_client import RawClient

pytestmark = pytest.mark.integration

MIB = 1 << 20
PARTITIONS = 100_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two brokers; no log of theirs may show an exception that nobody thought of."""
    with LocalCluster(2) as running:
        yield running
        for log in sorted((running.data_dir / "logs").iterdir()):
            text = log.read_text()
            assert "Traceback" not in text, text[-5000:]
            assert "failed unexpectedly" not in text, text[-5000:]


@pytest.fixture(scope="module")
def raw(cluster: LocalCluster) -> Iterator[RawClient]:
    with RawClient(cluster.bootstrap_servers) as client:
        yield client


@pytest.fixture
def topic(raw: RawClient, request: pytest.FixtureRequest) -> str:
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)
    raw.create_topic(name)
    return name


def create(raw: RawClient, *topics: admin_pb2.NewTopic) -> list[tuple[int, str]]:
    """The error code and message of each topic."""
    request = admin_pb2.CreateTopicsRequest(topics=topics, timeout_ms=10_000)
    answer = raw.admin().CreateTopics(request, timeout=20)
    return [(item.error.code, item.error.message) for item in answer.topics]


def new_topic(name: str, partitions: int = 1, replicas: int = 1, **config: str) -> Any:
    settings = {key.replace("_", "."): value for key, value in config.items()}
    return admin_pb2.NewTopic(
        name=name, num_partitions=partitions, replication_factor=replicas, config=settings
    )


def topics_of(raw: RawClient) -> set[str]:
    answer = raw.log(raw.servers[0]).Metadata(log_pb2.MetadataRequest(all_topics=True), timeout=10)
    return {item.name for item in answer.topics}


def produce_each(
    raw: RawClient, topic: str, batches: Iterable[bytes]
) -> list[log_pb2.PartitionAck]:
    """The answer to each batch, over one stream."""
    requests = (
        log_pb2.ProduceRequest(
            correlation=number,
            acks=-1,
            timeout_ms=5_000,
            batches=[log_pb2.PartitionBatch(topic=topic, batch=batch)],
        )
        for number, batch in enumerate(batches)
    )
    answers = raw.log(raw.leader(topic)).ProduceStream(requests, timeout=60)
    return [answer.acks[0] for answer in answers]


def values(raw: RawClient, topic: str) -> list[bytes | None]:
    data = raw.fetch(raw.leader(topic), topic)
    assert data.error.code == 0
    return [record.value for record in iter_records(data.batches, topic, 0)]


def still_works(raw: RawClient, topic: str) -> None:
    """The topic holds nothing yet, takes a record, and gives it back."""
    ack = raw.produce(raw.leader(topic), topic, encode_batch([b"good"]))
    assert (ack.error.code, ack.base_offset) == (0, 0), ack.error.message
    assert values(raw, topic) == [b"good"]


def pid_of(cluster: LocalCluster, broker: int) -> int:
    return cluster._nodes[broker]._process.pid


def memory(pid: int, field: str = "VmRSS") -> int:
    """Bytes of memory of a process; `VmHWM` is the most that it ever had."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    raise AssertionError(f"no {field} of {pid}")


def cpu_ms(pid: int) -> int:
    """Processor time of a process, which other processes' load does not lengthen."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * 1000 // os.sysconf("SC_CLK_TCK")


# ---- topics -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "", ".", "..",  # 1
        "../../etc/x", "a/b", "a\0b", "a\nb", "/etc/passwd", "a b", "a:b", "\\x",  # 2
        "x" * 250,  # 3
        "t\u043epic", "e\u0301", "\ufb01", "t\u200bx", "\U0001f600",  # 4
    ],
)  # fmt: skip
def test_1_2_3_4_a_name_that_is_none_makes_no_topic(
    raw: RawClient, cluster: LocalCluster, name: str
) -> None:
    before = sorted(path.name for path in cluster.data_dir.glob("*/*"))
    ((code, message),) = create(raw, new_topic(name))
    assert code == errors.InvalidTopic.code
    assert message
    assert name not in topics_of(raw)
    assert sorted(path.name for path in cluster.data_dir.glob("*/*")) == before
    # As bad as unknown to whoever asks for it, and it cannot be deleted either.
    (described,) = raw.metadata(name).topics
    assert described.error.code == errors.InvalidTopic.code
    deleted = raw.admin().DeleteTopics(admin_pb2.DeleteTopicsRequest(names=[name]), timeout=10)
    assert deleted.topics[0].error.code == errors.InvalidTopic.code
    ack = raw.produce(raw.servers[1], name, encode_batch([b"x"]))
    assert ack.error.code == errors.UnknownTopicOrPartition.code


def test_3_the_longest_name_can_be_written_and_deleted(
    raw: RawClient, cluster: LocalCluster
) -> None:
    name = "n" * 249
    raw.create_topic(name, replicas=2)
    still_works(raw, name)
    answer = raw.admin().DeleteTopics(admin_pb2.DeleteTopicsRequest(names=[name]), timeout=10)
    assert answer.topics[0].error.code == 0
    eventually(5, lambda: not list(cluster.data_dir.glob(f"broker-*/{name}-0")), "it is renamed")
    assert len(list(cluster.data_dir.glob("broker-*/*-delete"))) == 2
    raw.create_topic(name)
    still_works(raw, name)


def test_4_5_names_that_look_alike_are_topics_of_their_own(raw: RawClient) -> None:
    names = ["a.b", "a_b", "Case", "case"]
    assert create(raw, *map(new_topic, names)) == [(0, "")] * 4
    for name in names:
        assert raw.produce(raw.leader(name), name, encode_batch([name.encode()])).base_offset == 0
    assert [values(raw, name) for name in names] == [[name.encode()] for name in names]


def test_6_internal_topics_are_not_for_clients(raw: RawClient) -> None:
    for name in ("__offsets", "__txn_state", "__cluster_metadata"):
        assert create(raw, new_topic(name))[0][0] == errors.TopicAuthorizationFailed.code
        deleted = raw.admin().DeleteTopics(admin_pb2.DeleteTopicsRequest(names=[name]), timeout=10)
        assert deleted.topics[0].error.code == errors.TopicAuthorizationFailed.code
        ack = raw.produce(raw.servers[1], name, encode_batch([b"x"]))
        assert ack.error.code != 0
        assert raw.fetch(raw.servers[1], name).error.code != 0


def test_7_8_impossible_counts_create_nothing(raw: RawClient) -> None:
    wrong = [
        *(new_topic("wrong", partitions=count) for count in (0, -2, 10**9, 2**31 - 1)),
        *(new_topic("wrong", replicas=count) for count in (0, -2, 3, 40_000, 2**31 - 1)),
        new_topic("wrong", replicas=2, min_insync_replicas="3"),
    ]
    before = topics_of(raw)
    refusals = [create(raw, topic)[0] for topic in wrong]
    expected = [errors.InvalidPartitions] * 4 + [errors.InvalidReplicationFactor] * 5
    assert [code for code, _ in refusals] == [e.code for e in [*expected, errors.InvalidConfig]]
    assert all("wrong" in message for _, message in refusals)
    assert topics_of(raw) == before
    # A bad one does not fail its neighbours, and nothing of the bad one is made.
    both = create(raw, new_topic("right"), new_topic("wrong", partitions=0))
    assert [code for code, _ in both] == [0, errors.InvalidPartitions.code]
    assert topics_of(raw) - before == {"right"}


def test_9_of_concurrent_creators_one_wins(cluster: LocalCluster, raw: RawClient) -> None:
    clients = [RawClient(cluster.bootstrap_servers) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for name in ("race-1", "race-2", "race-3"):
            answers = list(pool.map(lambda c, n=name: create(c, new_topic(n, 3))[0][0], clients))
            expected = [0] + [errors.TopicAlreadyExists.code] * 7
            assert sorted(answers) == sorted(expected)
            ids = {raw.metadata(name, server=s).topics[0].topic_id for s in range(3)}
            assert len(ids) == 1
    for client in clients:
        with client:
            pass
    twice = create(raw, new_topic("twin"), new_topic("twin"))
    assert [code for code, _ in twice] == [errors.InvalidRequest.code] * 2
    assert "twin" not in topics_of(raw)


def test_10_a_successor_of_a_deleted_topic_is_not_written_to(raw: RawClient, topic: str) -> None:
    old = raw.metadata(topic).topics[0].topic_id
    broker = raw.leader(topic)

    def by_id() -> int:
        item = log_pb2.PartitionBatch(topic=topic, topic_id=old, batch=encode_batch([b"old"]))
        request = log_pb2.ProduceRequest(acks=-1, timeout_ms=5_000, batches=[item])
        return int(raw.log(broker).Produce(request, timeout=10).acks[0].error.code)

    assert by_id() == 0
    raw.admin().DeleteTopics(admin_pb2.DeleteTopicsRequest(names=[topic]), timeout=10)
    eventually(5, lambda: by_id() == errors.UnknownTopicId.code, "the id is unknown")
    raw.create_topic(topic)
    assert {by_id() for _ in range(20)} == {errors.UnknownTopicId.code}
    still_works(raw, topic)


def test_11_partitions_that_are_not_there(raw: RawClient, topic: str) -> None:
    broker = raw.leader(topic)
    stub = raw.log(broker)
    for partition in (-1, 1, 2**31 - 1):
        unknown = errors.UnknownTopicOrPartition.code
        ack = raw.produce(broker, topic, encode_batch([b"x"]), partition)
        assert ack.error.code == unknown
        assert topic in ack.error.message
        assert raw.fetch(broker, topic, partition=partition).error.code == unknown
        asked = log_pb2.PartitionTimestamp(topic=topic, partition=partition, timestamp_ms=-1)
        listed = stub.ListOffsets(log_pb2.ListOffsetsRequest(partitions=[asked]), timeout=10)
        assert listed.partitions[0].error.code == unknown
        cut = log_pb2.PartitionCut(topic=topic, partition=partition, offset=-1)
        deleted = stub.DeleteRecords(log_pb2.DeleteRecordsRequest(partitions=[cut]), timeout=10)
        assert deleted.partitions[0].error.code == unknown
        end = log_pb2.PartitionEpoch(topic=topic, partition=partition, current_leader_epoch=-1)
        ends = stub.OffsetForLeaderEpoch(
            log_pb2.OffsetForLeaderEpochRequest(partitions=[end]), timeout=10
        )
        assert ends.partitions[0].error.code == unknown
    still_works(raw, topic)


# ---- batches ------------------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [7, -2, 2, 2**31 - 1, -(2**31)])
def test_13_acks_that_mean_nothing(raw: RawClient, topic: str, acks: int) -> None:
    ack = raw.produce(raw.leader(topic), topic, encode_batch([b"x"]), acks=acks)
    assert ack.error.code == errors.InvalidRequiredAcks.code
    assert str(acks) in ack.error.message
    still_works(raw, topic)


def test_14_batches_that_contradict_themselves(raw: RawClient, topic: str) -> None:
    named = dict(bad_batches.contradictory())
    acks = produce_each(raw, topic, named.values())
    wrong = {n: a.error for n, a in zip(named, acks, strict=True)}
    assert {n: e.code for n, e in wrong.items()} == dict.fromkeys(named, errors.InvalidRecord.code)
    indexes = {n: a.record_index for n, a in zip(named, acks, strict=True)}
    assert indexes["an inner offset twice"] == 1
    assert indexes["an inner offset left out"] == 1
    assert indexes["inner offsets from 1 on"] == 0
    assert indexes["two batches in one"] == -1
    still_works(raw, topic)


def test_14_no_batch_at_all_or_half_a_header(raw: RawClient, topic: str) -> None:
    whole = encode_batch([b"x" * 50])
    cuts = [b"", *(whole[:size] for size in range(1, len(whole)))]
    for ack in produce_each(raw, topic, cuts):
        assert ack.error.code in (errors.CorruptMessage.code, errors.InvalidRecord.code)
    still_works(raw, topic)


def test_15_one_flipped_bit_anywhere(raw: RawClient, topic: str) -> None:
    whole = encode_batch([b"some value"])
    flipped = []
    for bit in range(len(whole) * 8):
        batch = bytearray(whole)
        batch[bit // 8] ^= 1 << bit % 8
        flipped.append(bytes(batch))
    codes = [ack.error.code for ack in produce_each(raw, topic, flipped)]
    by_byte = [set(codes[at : at + 8]) for at in range(0, len(codes), 8)]
    corrupt, invalid = errors.CorruptMessage.code, errors.InvalidRecord.code
    assert set().union(*by_byte[:8]) == {invalid}  # the base offset, which a client leaves 0
    assert set().union(*by_byte[8:12]) <= {corrupt, invalid}  # the length
    assert set().union(*by_byte[12:16]) == {0}  # the leader epoch, which the leader sets
    assert by_byte[16] == {errors.UnsupportedVersion.code}  # the magic
    assert set().union(*by_byte[17:]) == {corrupt}
    assert errors.CorruptMessage.retriable
    assert values(raw, topic) == [b"some value"] * 32


def test_16_too_large_before_or_after_compression(raw: RawClient) -> None:
    raw.create_topic("small", max_message_bytes="2000")
    noise = random.Random(1).randbytes(3_000)
    acks = produce_each(
        raw, "small",
        [
            encode_batch([noise]), encode_batch([noise], compression="lz4"),
            encode_batch([b"x" * 60] * 100),
        ],
    )  # fmt: skip
    assert {ack.error.code for ack in acks} == {errors.MessageTooLarge.code}
    assert all("max.message.bytes is 2000" in ack.error.message for ack in acks)
    # The limit is for what is stored: compressed small enough is welcome.
    (ack,) = produce_each(raw, "small", [encode_batch([bytes(100_000)], compression="zstd")])
    assert ack.error.code == 0
    assert values(raw, "small") == [bytes(100_000)]


def test_17_decompression_bombs(raw: RawClient, topic: str, cluster: LocalCluster) -> None:
    broker = raw.partition(topic).leader
    still_works(raw, topic)  # also: all that is loaded at the first use is there
    pid = pid_of(cluster, broker)
    named = dict(bad_batches.bombs())
    Path(f"/proc/{pid}/clear_refs").write_text("5")  # the peak begins anew
    before = memory(pid)
    slowest = 0
    for name, batch in named.items():
        begin_ms = cpu_ms(pid)
        ack = raw.produce(raw.leader(topic), topic, batch)
        slowest = max(slowest, cpu_ms(pid) - begin_ms)
        assert ack.error.code == errors.InvalidRecord.code, (name, ack.error)
    assert slowest < 1_000
    assert memory(pid, "VmHWM") - before < 64 * MIB
    leader = raw.leader(topic)
    with ThreadPoolExecutor(8) as pool:  # and many at once
        list(pool.map(lambda batch: raw.produce(leader, topic, batch), list(named.values()) * 3))
    assert memory(pid, "VmHWM") - before < 96 * MIB
    assert raw.produce(raw.leader(topic), topic, encode_batch([b"after"])).base_offset == 1


def test_18_malformed_streams(raw: RawClient, topic: str, cluster: LocalCluster) -> None:
    named = dict(bad_batches.malformed())
    pid = pid_of(cluster, raw.partition(topic).leader)
    begin_ms = cpu_ms(pid)
    acks = produce_each(raw, topic, named.values())
    assert cpu_ms(pid) - begin_ms < 3_000
    wrong = {name: ack.error.code for name, ack in zip(named, acks, strict=True)}
    assert wrong == dict.fromkeys(named, errors.InvalidRecord.code)
    still_works(raw, topic)


def test_19_unknown_codecs_and_magics(raw: RawClient, topic: str) -> None:
    records = bad_batches.record(b"x")
    codecs = [bad_batches.sealed(records, codec) for codec in (5, 6, 7)]
    acks = produce_each(raw, topic, codecs)
    assert {a.error.code for a in acks} == {errors.UnsupportedCompressionType.code}
    assert "codec 5 is not known; use none, gzip" in acks[0].error.message
    magics = []
    for magic in (0, 1, 3, 255):
        batch = bytearray(encode_batch([b"x"]))
        batch[16] = magic
        magics.append(bytes(batch))
    acks = produce_each(raw, topic, magics)
    assert {a.error.code for a in acks} == {errors.UnsupportedVersion.code}
    assert "use 2" in acks[0].error.message
    still_works(raw, topic)


# ---- fetches ------------------------------------------------------------------------------------


def fetch(raw: RawClient, topic: str, *, offset: int = 0, **limits: int) -> Any:
    part = {
        key: limits.pop(key)
        for key in ("partition_max_bytes", "current_leader_epoch", "last_fetched_epoch")
        if key in limits
    }
    item = log_pb2.PartitionFetch(
        topic=topic, fetch_offset=offset, max_bytes=part.get("partition_max_bytes", MIB),
        current_leader_epoch=part.get("current_leader_epoch", -1),
        last_fetched_epoch=part.get("last_fetched_epoch", -1),
    )  # fmt: skip
    request = log_pb2.FetchRequest(partitions=[item], **{"max_bytes": MIB, **limits})
    return raw.log(raw.leader(topic)).Fetch(request, timeout=5).partitions[0]


def test_30_offsets_outside_the_log(raw: RawClient, topic: str) -> None:
    for number in range(5):
        raw.produce(raw.leader(topic), topic, encode_batch([b"%d" % number]))
    cut = log_pb2.PartitionCut(topic=topic, offset=2)
    raw.log(raw.leader(topic)).DeleteRecords(
        log_pb2.DeleteRecordsRequest(partitions=[cut], timeout_ms=5_000), timeout=10
    )
    for offset in (-1, 0, 1, 6, 2**63 - 1, -(2**63)):
        data = fetch(raw, topic, offset=offset)
        assert data.error.code == errors.OffsetOutOfRange.code
        assert "[2, 5]" in data.error.message
        assert (data.log_start_offset, data.high_watermark) == (2, 5)
    assert fetch(raw, topic, offset=5).error.code == 0


def test_31_limits_that_are_none_are_clamped(raw: RawClient, topic: str) -> None:
    for _ in range(3):
        raw.produce(raw.leader(topic), topic, encode_batch([b"x" * 1_000]))
    odd = (0, -1, 1, 2**31 - 1, -(2**31))
    for most, part in itertools.product(odd, odd):
        data = fetch(raw, topic, max_bytes=most, partition_max_bytes=part)
        assert data.error.code == 0
        assert len(data.batches) >= 1_000  # at least one batch, always
    for least in (-1, 2**31 - 1):  # more than max_bytes is as much as max_bytes
        assert fetch(raw, topic, min_bytes=least, max_bytes=500).batches
    for wait in (-1, 0, -(2**31)):
        assert fetch(raw, topic, offset=3, max_wait_ms=wait, min_bytes=1).batches == b""
    assert fetch(raw, topic, max_wait_ms=864_000_000, min_bytes=1).batches


def test_31_a_wait_of_ten_days_ends_with_its_client(raw: RawClient, topic: str) -> None:
    item = log_pb2.PartitionFetch(
        topic=topic, max_bytes=MIB, current_leader_epoch=-1, last_fetched_epoch=-1
    )
    request = log_pb2.FetchRequest(
        partitions=[item], max_bytes=MIB, min_bytes=1, max_wait_ms=864_000_000
    )
    with pytest.raises(grpc.RpcError) as caught:
        raw.log(raw.leader(topic)).Fetch(request, timeout=0.3)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    still_works(raw, topic)


# ---- requests as a whole ------------------------------------------------------------------------


def many_requests(topic: str) -> Iterator[tuple[str, str, Any]]:
    """Service, method and message of requests that name 100,000 partitions or topics."""
    every = range(PARTITIONS)
    batch = encode_batch([b"x"])
    pb = log_pb2
    yield "Log", "Produce", pb.ProduceRequest(
        acks=-1, timeout_ms=1_000,
        batches=[pb.PartitionBatch(topic=topic, partition=n, batch=batch) for n in every],
    )  # fmt: skip
    yield (
        "Log",
        "Fetch",
        pb.FetchRequest(
            max_bytes=MIB, partitions=[pb.PartitionFetch(topic=topic, partition=n) for n in every]
        ),
    )
    yield (
        "Log",
        "ListOffsets",
        pb.ListOffsetsRequest(
            partitions=[pb.PartitionTimestamp(topic=topic, partition=n) for n in every]
        ),
    )
    yield (
        "Log",
        "DeleteRecords",
        pb.DeleteRecordsRequest(
            partitions=[pb.PartitionCut(topic=topic, partition=n) for n in every]
        ),
    )
    yield (
        "Log",
        "OffsetForLeaderEpoch",
        pb.OffsetForLeaderEpochRequest(
            partitions=[pb.PartitionEpoch(topic=topic, partition=n) for n in every]
        ),
    )
    yield "Log", "Metadata", pb.MetadataRequest(topics=[f"{topic}{n}" for n in every])
    yield "Log", "Metadata", pb.MetadataRequest(topic_ids=[f"{topic}{n}" for n in every])
    yield (
        "Admin",
        "CreateTopics",
        admin_pb2.CreateTopicsRequest(
            topics=[new_topic(f"{topic}{n}") for n in every], timeout_ms=1_000
        ),
    )
    yield "Admin", "DeleteTopics", admin_pb2.DeleteTopicsRequest(names=[f"t{n}" for n in every])


def test_33_a_hundred_thousand_partitions_in_one_request(raw: RawClient, topic: str) -> None:
    before = topics_of(raw)
    for service, method, request in many_requests(topic):
        stub = raw.admin() if service == "Admin" else raw.log(raw.leader(topic))
        begin_ms = SYSTEM_CLOCK.monotonic_ms()
        with pytest.raises(grpc.RpcError) as caught:
            getattr(stub, method)(request, timeout=20)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT, method
        assert "100000" in caught.value.details()
        assert "limit" in caught.value.details()
        assert SYSTEM_CLOCK.monotonic_ms() - begin_ms < 5_000
    ((code, message),) = create(raw, new_topic("huge", partitions=PARTITIONS))
    assert code == errors.InvalidPartitions.code
    assert "100000" in message
    chosen = [admin_pb2.ReplicaAssignment(partition=n, brokers=[1]) for n in range(PARTITIONS)]
    ((code, _),) = create(
        raw,
        admin_pb2.NewTopic(
            name="huge", num_partitions=-1, replication_factor=-1, assignment=chosen
        ),
    )
    assert code == errors.InvalidPartitions.code
    assert topics_of(raw) == before
    still_works(raw, topic)


def test_33_a_partition_twice_in_one_request(raw: RawClient, topic: str) -> None:
    stub = raw.log(raw.leader(topic))
    pb = log_pb2
    batches = [pb.PartitionBatch(topic=topic, batch=encode_batch([b"x"]))] * 2
    answers = [
        stub.Produce(pb.ProduceRequest(acks=-1, batches=batches), timeout=10).acks,
        stub.Fetch(
            pb.FetchRequest(partitions=[pb.PartitionFetch(topic=topic)] * 2), timeout=10
        ).partitions,
        stub.ListOffsets(
            pb.ListOffsetsRequest(partitions=[pb.PartitionTimestamp(topic=topic)] * 2), timeout=10
        ).partitions,
        stub.DeleteRecords(
            pb.DeleteRecordsRequest(partitions=[pb.PartitionCut(topic=topic)] * 2), timeout=10
        ).partitions,
        stub.OffsetForLeaderEpoch(
            pb.OffsetForLeaderEpochRequest(partitions=[pb.PartitionEpoch(topic=topic)] * 2),
            timeout=10,
        ).partitions,
    ]
    for answer in answers:
        assert [item.error.code for item in answer] == [errors.InvalidRequest.code] * 2
        assert "more than once" in answer[0].error.message
    still_works(raw, topic)


def test_34_leader_epochs_of_the_past_and_the_future(raw: RawClient, cluster: LocalCluster) -> None:
    raw.create_topic("epochs", replicas=2)
    cluster.stop(raw.partition("epochs").leader)  # the epoch rises
    epoch = raw.partition("epochs").leader_epoch
    assert epoch >= 1
    try:
        fenced, unknown = errors.FencedLeaderEpoch.code, errors.UnknownLeaderEpoch.code
        for asked, expected in ((epoch - 1, fenced), (epoch + 1, unknown), (epoch, 0), (-1, 0)):
            assert fetch(raw, "epochs", current_leader_epoch=asked).error.code == expected
            item = log_pb2.PartitionTimestamp(topic="epochs", current_leader_epoch=asked)
            stub = raw.log(raw.leader("epochs"))
            listed = stub.ListOffsets(log_pb2.ListOffsetsRequest(partitions=[item]), timeout=10)
            assert listed.partitions[0].error.code == expected
            end = log_pb2.PartitionEpoch(topic="epochs", current_leader_epoch=asked)
            ends = stub.OffsetForLeaderEpoch(
                log_pb2.OffsetForLeaderEpochRequest(partitions=[end]), timeout=10
            )
            assert ends.partitions[0].error.code == expected
    finally:
        for broker in cluster.brokers:
            if not cluster._nodes[broker].running:
                cluster.start(broker)


def test_35_a_request_to_who_does_not_lead(raw: RawClient) -> None:
    raw.create_topic("elsewhere", replicas=2)
    raw.create_topic("single", replicas=1)
    for name in ("elsewhere", "single"):
        leader = raw.leader(name)
        (other,) = [server for server in raw.servers[1:] if server != leader]
        number = raw.partition(name).leader
        for answer in (raw.produce(other, name, encode_batch([b"x"])), raw.fetch(other, name)):
            assert answer.error.code == errors.NotLeaderOrFollower.code
            assert answer.current_leader == number
            assert f"broker {number}" in answer.error.message
    # The gateway serves metadata only, and says where the rest is.
    with pytest.raises(grpc.RpcError) as caught:
        raw.produce(raw.servers[0], "single", encode_batch([b"x"]))
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
    assert "broker" in caught.value.details()


# ---- messages -----------------------------------------------------------------------------------

FUZZ_MESSAGES = 10_000
ALLOWED = {
    grpc.StatusCode.OK,
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNIMPLEMENTED,
    grpc.StatusCode.FAILED_PRECONDITION,
    grpc.StatusCode.DEADLINE_EXCEEDED,
}


def seeds(topic: str) -> list[bytes]:
    """Valid messages, to be spoilt."""
    pb = log_pb2
    batch = pb.PartitionBatch(topic=topic, batch=encode_batch([b"x" * 20]))
    item = pb.PartitionFetch(topic=topic, max_bytes=100)
    messages: list[Any] = [
        pb.MetadataRequest(topics=[topic], topic_ids=["x"]),
        pb.ProduceRequest(correlation=7, acks=-1, timeout_ms=10, batches=[batch], client_id="c"),
        pb.FetchRequest(correlation=7, max_wait_ms=1, min_bytes=1, partitions=[item]),
        pb.ListOffsetsRequest(partitions=[pb.PartitionTimestamp(topic=topic, timestamp_ms=-1)]),
        pb.DeleteRecordsRequest(partitions=[pb.PartitionCut(topic=topic, offset=9)], timeout_ms=9),
        pb.InitProducerIdRequest(transactional_id="x", producer_id=-1),
        pb.OffsetForLeaderEpochRequest(partitions=[pb.PartitionEpoch(topic=topic)]),
        admin_pb2.CreateTopicsRequest(
            topics=[new_topic("fuzz/y", min_insync_replicas="1")], timeout_ms=10, validate_only=True
        ),
        admin_pb2.DeleteTopicsRequest(names=["fuzz/y"]),
    ]
    return [message.SerializeToString() for message in messages]


def spoilt(rng: random.Random, valid: list[bytes]) -> bytes:
    """Garbage, or something that was valid."""
    kind = rng.randrange(5)
    if kind == 0:
        return rng.randbytes(rng.randrange(1, 200))
    data = bytearray(rng.choice(valid))
    if kind == 1:
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
    elif kind == 2:
        del data[rng.randrange(len(data)) :]
    elif kind == 3:  # unknown fields
        data += b"\xba\x3e\x05hello" + b"\xc0\x3e\x7f" * rng.randrange(4)
    else:
        at = rng.randrange(len(data))
        data[at:at] = rng.randbytes(rng.randrange(1, 30))
    return bytes(data)


METHODS = {
    "Log": ["Metadata", "Produce", "Fetch", "ListOffsets", "DeleteRecords", "InitProducerId",
            "OffsetForLeaderEpoch"],
    "Admin": ["CreateTopics", "DeleteTopics", "DescribeCluster"],
    "Cluster": ["ClaimBroker", "RegisterBroker", "Heartbeat", "WatchMetadata", "AlterPartition",
                "AllocateProducerIds", "ControlledShutdown"],
}  # fmt: skip


def test_41_ten_thousand_messages_of_garbage(raw: RawClient, topic: str) -> None:
    rng = random.Random(41)
    valid = seeds(topic)
    channels = {server: grpc.insecure_channel(server) for server in raw.servers[:2]}
    calls = []
    for service, names in METHODS.items():
        for server in raw.servers[:2]:
            for name in names:
                path = f"/pylog.v1.{service}/{name}"
                if name == "WatchMetadata":
                    continue
                calls.append((path, channels[server].unary_unary(path)))
    seen: dict[Any, int] = {}
    waiting: list[tuple[str, bytes, Any]] = []

    def settle(most: int) -> None:
        while len(waiting) > most:
            path, data, future = waiting.pop(0)
            error = future.exception()
            code = grpc.StatusCode.OK if error is None else error.code()
            assert code in ALLOWED, (path, data, error)
            if error is not None:
                assert "UnknownServerError" not in error.details(), (path, data, error)
            seen[code] = seen.get(code, 0) + 1

    for _ in range(FUZZ_MESSAGES):
        path, call = rng.choice(calls)
        data = spoilt(rng, valid)
        waiting.append((path, data, call.future(data, timeout=10)))
        settle(100)
    settle(0)
    assert seen[grpc.StatusCode.OK] > 500
    assert seen[grpc.StatusCode.INVALID_ARGUMENT] > 1_000
    for channel in channels.values():
        channel.close()
    assert not [name for name in topics_of(raw) if name.startswith("fuzz")]
    name = f"{topic}-after"
    raw.create_topic(name)
    still_works(raw, name)


def test_41_garbage_in_a_stream_ends_that_stream(raw: RawClient, topic: str) -> None:
    good = log_pb2.ProduceRequest(
        correlation=1, acks=-1, timeout_ms=1_000,
        batches=[log_pb2.PartitionBatch(topic=topic, batch=encode_batch([b"good"]))],
    )  # fmt: skip
    for method in ("ProduceStream", "FetchStream"):
        with grpc.insecure_channel(raw.leader(topic)) as channel:
            call = channel.stream_stream(f"/pylog.v1.Log/{method}")
            answers = call(iter([b"\xff\xff\xff"]), timeout=10)
            with pytest.raises(grpc.RpcError) as caught:
                next(answers)
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    with grpc.insecure_channel(raw.leader(topic)) as channel:
        call = channel.stream_stream("/pylog.v1.Log/ProduceStream")
        # What came before the garbage is answered.
        answers = call(iter([good.SerializeToString(), b"\xff\xff\xff"]), timeout=10)
        first = log_pb2.ProduceResponse.FromString(next(answers))
        assert first.acks[0].error.code == 0
        with pytest.raises(grpc.RpcError) as caught:
            next(answers)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert values(raw, topic) == [b"good"]


def test_41_unknown_fields_and_enums_are_ignored(raw: RawClient, topic: str) -> None:
    item = log_pb2.PartitionFetch(
        topic=topic, max_bytes=100, current_leader_epoch=-1, last_fetched_epoch=-1
    )
    request = log_pb2.FetchRequest(partitions=[item]).SerializeToString()
    with grpc.insecure_channel(raw.leader(topic)) as channel:
        call = channel.unary_unary("/pylog.v1.Log/Fetch")
        # field 1000, a text; and isolation_level = 77, of an enum that ends at 1
        answer = call(request + b"\xc2\x3e\x05hello" + b"\x28\x4d", timeout=10)
    assert log_pb2.FetchResponse.FromString(answer).partitions[0].error.code == 0


def test_42_a_message_over_the_limit(raw: RawClient, cluster: LocalCluster, topic: str) -> None:
    pids = [pid_of(cluster, broker) for broker in cluster.brokers]
    pids.append(cluster._head._process.pid)  # type: ignore[union-attr]
    before = [memory(pid) for pid in pids]
    for server in raw.servers:
        with grpc.insecure_channel(
            server, options=[("grpc.max_send_message_length", -1)]
        ) as channel:
            for method in ("Log/Produce", "Log/Metadata"):
                with pytest.raises(grpc.RpcError) as caught:
                    channel.unary_unary(f"/pylog.v1.{method}")(bytes(101 * MIB), timeout=30)
                assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert all(memory(pid) - was < 64 * MIB for pid, was in zip(pids, before, strict=True))
    still_works(raw, topic)


def test_42_four_gibibytes_announced(raw: RawClient, cluster: LocalCluster, topic: str) -> None:
    pids = [pid_of(cluster, broker) for broker in cluster.brokers]
    before = [memory(pid) for pid in pids]
    for server in raw.servers:
        gateway = server == raw.servers[0]  # which refuses streams before it reads from them
        for method in ("Log/Metadata",) if gateway else ("Log/Produce", "Log/ProduceStream"):
            with raw_http2.Call(server, f"/pylog.v1.{method}") as call:
                call.send(b"\0\xff\xff\xff\xff" + bytes(100))
                assert call.status(seconds=3) in (None, grpc.StatusCode.RESOURCE_EXHAUSTED.value[0])
    assert all(memory(pid) - was < 16 * MIB for pid, was in zip(pids, before, strict=True))
    still_works(raw, topic)


# ---- clients' limits of their own ---------------------------------------------------------------


def test_24_a_repeat_is_answered_and_a_gap_refused(raw: RawClient, topic: str) -> None:
    plain = encode_batch([b"x"])
    assert len(plain) > HEADER_SIZE
    first, gap = (bytes(with_producer(plain, 77, 0, sequence)) for sequence in (0, 5))
    acks = produce_each(raw, topic, [first, first, gap])
    assert [(a.error.code, a.base_offset) for a in acks[:2]] == [(0, 0), (0, 0)]
    assert acks[2].error.code == errors.OutOfOrderSequenceNumber.code
    assert values(raw, topic) == [b"x"]


def eventually(seconds: float, condition: Callable[[], bool], what: str) -> None:
    end_ms = SYSTEM_CLOCK.monotonic_ms() + seconds * 1000
    while not condition():
        assert SYSTEM_CLOCK.monotonic_ms() < end_ms, f"not within {seconds} s: {what}"
        SYSTEM_CLOCK.sleep(0.01)
