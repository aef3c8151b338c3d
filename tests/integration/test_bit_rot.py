"""One bit flips in a full segment of a partition that has one replica: all but its batch lives on.

Read through both carriers, by records, columns, iteration and asyncio, committed and not; written
to; and once more after a crash, a start in order, and with an index that is damaged too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pylog import (
    AdminClient,
    Consumer,
    LocalCluster,
    NewTopic,
    Producer,
    TopicPartition,
    errors,
)
from pylog.aio import AsyncConsumer
from pylog.records.batch import iter_headers
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration

NO_TAIL = {"log.tail.cache.max.bytes": "0", "log.tail.cache.partition.max.bytes": "0"}
"""Nothing is served from memory: damage on the disk shows at the next read."""
RECORDS = 30
LOST = 7
WALL_MS = 1_700_000_000_000


class Rotten:
    """A topic of thirty batches of one record, some to a segment, one of which rots."""

    def __init__(self, cluster: LocalCluster, topic: str) -> None:
        self.cluster = cluster
        self.at = TopicPartition(topic, 0)
        self.folder = cluster.data_dir / "broker-1" / f"{topic}-0"
        config = {"segment.bytes": "6000", "index.interval.bytes": "1000", "retention.ms": "-1"}
        with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.create_topics([NewTopic(topic, config=config)])
        self.end = 0
        for _ in range(RECORDS):
            self.write()

    def write(self) -> None:
        with Producer(bootstrap_servers=self.cluster.bootstrap_servers) as producer:
            sent = producer.send(
                self.at.topic, value(self.end), timestamp_ms=WALL_MS + self.end
            ).result(30)
        assert sent.offset == self.end
        self.end += 1

    def segment_of(self, offset: int) -> Path:
        bases = sorted(int(path.stem) for path in self.folder.glob("*.log"))
        base = [base for base in bases if base <= offset][-1]
        assert base != bases[-1], "only full segments rot here"
        return self.folder / f"{base:020d}.log"

    def flip(self, offset: int, byte: int) -> None:
        path = self.segment_of(offset)
        data = bytearray(path.read_bytes())
        (start,) = [at for at, h in iter_headers(bytes(data)) if h.base_offset == offset]
        with path.open("r+b") as file:
            file.seek(start + byte)
            file.write(bytes([data[start + byte] ^ 0x10]))

    def consumer(self, **config: Any) -> Consumer:
        made = Consumer(bootstrap_servers=self.cluster.bootstrap_servers, **config)
        made.assign([self.at])
        return made

    def expected(self, lost: int) -> list[tuple[int, bytes]]:
        return [(n, value(n)) for n in range(self.end) if n != lost]

    def check(self, lost: int, **config: Any) -> None:
        """All but one record comes, in order, and its error where it would have come."""
        with self.consumer(**config) as consumer:
            consumer.seek_to_beginning()
            found: list[tuple[int, bytes]] = []
            faults = 0
            while consumer.position(self.at) < self.end:
                try:
                    found += [(record.offset, record.value) for record in consumer.poll(5)]
                except errors.CorruptMessage as error:
                    faults += 1
                    place = found[-1][0] if found else -1
                    told = (place, error.next_offset, ".log is damaged at position" in str(error))
                    found_fault = told
                    consumer.seek(self.at, lost + 1)
        assert (faults, found_fault) == (1, (lost - 1, lost + 1, True))
        assert found == self.expected(lost)


def value(number: int) -> bytes:
    return b"%d," % number * 200


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(brokers=1, config=NO_TAIL) as running:
        yield running


@pytest.mark.parametrize("byte", [6, 9, 16, 18, 22, 26, 70])
def test_all_but_the_batch_is_read_and_written_behind(cluster: LocalCluster, byte: int) -> None:
    topic = Rotten(cluster, f"bytes-{byte}")
    topic.flip(LOST, byte)
    topic.check(LOST)
    topic.write()
    topic.check(LOST, isolation_level="read_committed")


@pytest.fixture(scope="module")
def rotten(cluster: LocalCluster) -> Rotten:
    topic = Rotten(cluster, "ways")
    topic.flip(LOST, 9)
    return topic


@pytest.mark.parametrize("stream", ["framed", "grpc"])
def test_by_both_carriers(rotten: Rotten, stream: str) -> None:
    rotten.check(LOST, **({} if stream == "framed" else {"client_routing": "gateway"}))


def test_as_columns(rotten: Rotten) -> None:
    with rotten.consumer() as consumer:
        consumer.seek(rotten.at, 0)
        offsets: list[int] = []
        while len(offsets) < LOST:
            offsets += consumer.poll_arrow(10).column("offset").to_pylist()
        assert offsets == list(range(LOST))
        with pytest.raises(errors.CorruptMessage) as fault:
            consumer.poll_arrow(10)
        consumer.seek(rotten.at, fault.value.next_offset or 0)
        while len(offsets) < rotten.end - 1:
            offsets += consumer.poll_arrow(10).column("offset").to_pylist()
    assert offsets == [n for n in range(rotten.end) if n != LOST]


def test_by_iteration(rotten: Rotten) -> None:
    with rotten.consumer() as consumer:
        consumer.seek(rotten.at, LOST - 2)
        records = iter(consumer)
        assert [next(records).offset for _ in range(2)] == [LOST - 2, LOST - 1]
        with pytest.raises(errors.CorruptMessage):
            next(records)
        consumer.seek(rotten.at, LOST + 1)
        assert next(iter(consumer)).offset == LOST + 1


def test_by_asyncio(rotten: Rotten) -> None:
    async def read() -> None:
        async with AsyncConsumer(bootstrap_servers=rotten.cluster.bootstrap_servers) as consumer:
            consumer.assign([rotten.at])
            consumer.seek(rotten.at, LOST - 1)
            assert [record.offset for record in await consumer.poll(30)] == [LOST - 1]
            with pytest.raises(errors.CorruptMessage):
                await consumer.poll(30)
            consumer.seek(rotten.at, LOST + 1)
            assert await consumer.poll(30)

    asyncio.run(read())


def test_by_time(rotten: Rotten) -> None:
    with rotten.consumer() as consumer:
        for wanted, found in ((LOST - 1, LOST - 1), (LOST, LOST + 1), (LOST + 5, LOST + 5)):
            answer = consumer.offsets_for_times({rotten.at: WALL_MS + wanted})[rotten.at]
            assert answer is not None
            assert (answer.offset, answer.timestamp_ms) == (found, WALL_MS + found)


@pytest.mark.parametrize("way", ["kill", "stop"])
@pytest.mark.parametrize("index", [False, True])
def test_after_a_start(cluster: LocalCluster, way: str, index: bool) -> None:
    topic = Rotten(cluster, f"{way}-{index}")
    if way == "kill":
        cluster.kill(1)
    else:
        cluster.stop(1)
    topic.flip(LOST, 9)
    if index:
        path = topic.segment_of(LOST).with_suffix(".index")
        data = bytearray(path.read_bytes())
        data[3] ^= 0x04
        path.write_bytes(data)
    cluster.start(1)
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:

        def led() -> bool:
            (found,) = admin.describe_topics(topic.at.topic)[topic.at.topic].partitions
            return found.leader == 1

        eventually(30, led, "the broker leads again")
    topic.check(LOST)
    topic.write()
    topic.check(LOST)
    assert topic.segment_of(LOST).exists()
