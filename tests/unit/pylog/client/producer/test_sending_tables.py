"""`send_arrow` beside its twin, `send` row by row."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylog.client.producer import arrow
from pylog.client.producer.arrow import encode_rows
from pylog.client.producer.producer import Producer
from pylog.errors import UnknownTopicOrPartition
from pylog.records.compression import Compression
from pylog.records.murmur2 import partition_for_key
from pylog.records.reader import iter_records
from tests.fakes.fake_cluster import FakeCluster
from tests.fakes.fake_topics import FakePartition

PARTITIONS = 3
KEYS = (b"21", b"foobar", b"abc")

Row = tuple[bytes | None, int | None]
"""Key and partition; the value is the row's number."""


@dataclass(frozen=True)
class Frame:
    """Rows, the columns that a table of them has, and where its chunks end."""

    rows: tuple[Row, ...]
    keys: bool
    partitions: bool
    cuts: tuple[int, ...]
    before: int
    """So many other rows stand before them in the same memory."""

    @property
    def columns(self) -> tuple[Row, ...]:
        return tuple(
            (key if self.keys else None, partition if self.partitions else None)
            for key, partition in self.rows
        )

    def batches(self) -> list[pa.RecordBatch]:
        edges = (0, *sorted(min(cut, len(self.rows)) for cut in self.cuts), len(self.rows))
        return [self._batch(begin, end) for begin, end in pairwise(edges)]

    def table(self) -> pa.Table:
        return pa.Table.from_batches(self.batches())

    def _batch(self, begin: int, end: int) -> pa.RecordBatch:
        others: list[Row] = [(b"other", 0)] * self.before
        rows = others + list(self.rows[begin:end])
        values = [*["other"] * self.before, *map(str, range(begin, end))]
        columns = {"value": pa.array(values, pa.string())}
        if self.keys:
            columns["key"] = pa.array([key for key, _ in rows], pa.binary())
        if self.partitions:
            columns["partition"] = pa.array([partition for _, partition in rows], pa.int32())
        return pa.record_batch(columns).slice(self.before)


ROWS = st.tuples(st.none() | st.sampled_from(KEYS), st.none() | st.integers(0, PARTITIONS - 1))
FRAMES = st.builds(
    Frame,
    rows=st.lists(ROWS, max_size=60).map(tuple),
    keys=st.booleans(),
    partitions=st.booleans(),
    cuts=st.lists(st.integers(0, 60), max_size=3).map(tuple),
    before=st.integers(0, 3),
)


def place_of(row: Row, *, ignore_keys: bool = False) -> int | None:
    """None: anywhere."""
    key, partition = row
    if partition is not None or key is None or ignore_keys:
        return partition
    return partition_for_key(key, PARTITIONS)


@settings(max_examples=150)
@given(
    frame=FRAMES,
    batch_size=st.integers(80, 400),
    slice_rows=st.integers(5, 90),
    ignore=st.booleans(),
)
def test_each_partition_has_its_rows_in_the_tables_order(
    frame: Frame, batch_size: int, slice_rows: int, ignore: bool
) -> None:
    sticky = count()
    stored: dict[int, list[int]] = {p: [] for p in range(PARTITIONS)}
    table = frame.table()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrow, "SLICE_BYTES", slice_rows * table.nbytes // max(table.num_rows, 1))
        for partition, batch in encode_rows(
            "t",
            table,
            partitions=PARTITIONS,
            partition=None,
            ignore_keys=ignore,
            stick=lambda: next(sticky) % PARTITIONS,
            batch_size=batch_size,
            compression=Compression.of("none"),
            now_ms=0,
            stamped_later=False,
        ):
            number = next(sticky) % PARTITIONS if partition is None else partition
            assert len(batch) <= batch_size
            stored[number] += [int(record.value or b"") for record in iter_records(batch, "t", 0)]
    assert sorted(n for numbers in stored.values() for n in numbers) == list(range(len(frame.rows)))
    for partition, numbers in stored.items():
        assert numbers == sorted(numbers), f"partition {partition}"
        for number in numbers:
            assert place_of(frame.columns[number], ignore_keys=ignore) in (None, partition)


@pytest.fixture(scope="module")
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster() as running:
        yield running


def stored(cluster: FakeCluster, topic: str) -> list[list[int]]:
    """The rows of each partition, by their numbers."""
    return [
        [int(record.value or b"") for record in iter_records(found.read(0, 1 << 30), topic, 0)]
        for found in cluster.topics[topic].partitions
    ]


names = count()


@settings(max_examples=25)
@given(frame=FRAMES, partitions=st.sampled_from((1, PARTITIONS)), whole=st.booleans())
def test_a_table_is_stored_as_its_rows_would_be(
    cluster: FakeCluster, frame: Frame, partitions: int, whole: bool
) -> None:
    rows = tuple((key, None if n is None else n % partitions) for key, n in frame.rows)
    frame = Frame(rows, frame.keys, frame.partitions, frame.cuts, frame.before)
    topics = [f"t{next(names)}" for _ in range(2)]
    for topic in topics:
        cluster.create_topic(topic, partitions)
    with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=1) as producer:
        for data in [frame.table()] if whole else frame.batches():
            producer.send_arrow(topics[0], data)
        for number, (key, partition) in enumerate(frame.columns):
            producer.send(topics[1], str(number), key=key, partition=partition)
    tables, sends = (stored(cluster, topic) for topic in topics)
    anywhere = {n for n, row in enumerate(frame.columns) if row == (None, None)}
    for table, sent in zip(tables, sends, strict=True):
        assert table == sorted(table)
        if partitions > 1:
            table, sent = ([n for n in rows if n not in anywhere] for rows in (table, sent))
        assert table == sent


def test_a_table_for_partitions_that_were_added_finds_them(cluster: FakeCluster) -> None:
    grown = cluster.create_topic("grown")
    table = pa.table({"value": ["0", "1"], "partition": pa.array([2, None], pa.int8())})
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        producer.send("grown", b"2").result(5)
        with pytest.raises(UnknownTopicOrPartition, match="no partition 2"):
            producer.send_arrow("grown", table)
        grown.partitions += [FakePartition(1), FakePartition(1)]
        producer.send_arrow("grown", table).result(5)
    assert sorted(n for rows in stored(cluster, "grown") for n in rows) == [0, 1, 2]
    assert 0 in stored(cluster, "grown")[2]
