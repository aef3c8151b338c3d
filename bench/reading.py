"""The time of a consumer: nanoseconds per record of each step from a broker's answer to the user,
each by itself, in one thread.

    .venv/bin/python -m bench.reading [bytes per value] [KiB per batch]

Processor time, best of five. The steps of a live consumer overlap on two cores; their sum is what
the machine pays. A tiny size runs as a test.
"""

from __future__ import annotations

import sys
import time
from array import array
from collections.abc import Callable, Iterator
from typing import Final

from pylog import Consumer, TopicPartition
from pylog.client.fetching.fetch_state import Chunk
from pylog.records.batch import last_header
from pylog.records.builder import encode_batch
from pylog.records.columnar import decode_to_arrow
from pylog.records.reader import iter_chunks
from pylog.rpc.channel import tune_process
from pylog.rpc.fetch_wire import encode_response, parse_response
from pylog.rpc.v1 import log_pb2

FETCH_BYTES: Final = 1 << 20
RUNS: Final = 5
AT: Final = TopicPartition("topic", 0)


def fetches(size: int, batch_bytes: int, count: int, fetch_bytes: int) -> Iterator[Chunk]:
    """`count` answers of whole batches, of consecutive offsets."""
    records = max(batch_bytes // (size + 10), 1)
    values, times = [b"x" * size] * records, array("q", range(records))
    offset = 0
    for _ in range(count):
        parts: list[bytes] = []
        while not parts or sum(map(len, parts)) + len(parts[0]) <= fetch_bytes:
            parts.append(encode_batch(values, timestamps=times, base_offset=offset))
            offset += records
        yield Chunk(b"".join(parts), offset)


class Buffered:
    """A consumer without a cluster, whose buffer is filled by hand."""

    def __init__(self, chunks: list[Chunk]) -> None:
        self._chunks = chunks
        self.consumer = Consumer(bootstrap_servers="127.0.0.1:1", max_poll_records=500)
        self.consumer.assign([AT])
        self.consumer._cluster.metadata.version = 1
        self.consumer._loop.closed = True  # nothing is fetched
        self.consumer._waiting.refuse_closed = lambda: None  # type: ignore[method-assign]

    def fill(self) -> None:
        """All chunks, from the first on."""
        positions = self.consumer._positions
        partition = positions.partitions[AT]
        positions.seek(partition, 0)
        partition.buffer.extend(self._chunks)
        partition.buffered_bytes = sum(len(chunk.batches) for chunk in self._chunks)

    def polls(self, total: int) -> None:
        self.fill()
        read = 0
        while read < total:
            for record in self.consumer.poll(1):
                read += record.value is not None

    def iteration(self, total: int) -> None:
        self.fill()
        for read, record in enumerate(self.consumer, 1):
            if record.value is None or read >= total:
                break

    def columns(self, total: int) -> None:
        self.fill()
        read = 0
        while read < total:
            read += self.consumer.poll_arrow(1).num_rows


def steps(chunks: list[Chunk], total: int) -> Iterator[tuple[str, Callable[[], object]]]:
    """(what, a call that does it for all chunks)."""
    data = log_pb2.PartitionData(topic=AT.topic, high_watermark=total)
    messages = [encode_response(1, [(data, chunk.batches)]) for chunk in chunks]
    whole = log_pb2.FetchResponse.FromString

    def by_protobuf(chunk: Chunk) -> bytes:
        one = log_pb2.PartitionData(topic=AT.topic, batches=bytes(chunk.batches))
        return log_pb2.FetchResponse(partitions=[one]).SerializeToString()

    yield "answer made", lambda: [encode_response(1, [(data, c.batches)]) for c in chunks]
    yield "   by protobuf alone", lambda: [by_protobuf(chunk) for chunk in chunks]
    yield "answer parsed", lambda: [parse_response(message) for message in messages]
    yield "   by protobuf alone", lambda: [whole(m).partitions[0].batches for m in messages]
    yield "end found", lambda: [last_header(chunk.batches) for chunk in chunks]
    yield "columns decoded", lambda: [decode_to_arrow(c.batches, *AT) for c in chunks]
    yield (
        "values decoded",
        lambda: [len(part.values) for c in chunks for part in iter_chunks(c.batches, *AT)],
    )
    buffered = Buffered(chunks)
    yield "poll_arrow, from its buffer", lambda: buffered.columns(total)
    yield "poll, 500 records each, from its buffer", lambda: buffered.polls(total)
    yield "iteration, from its buffer", lambda: buffered.iteration(total)


def main(
    size: int = 100, batch_kib: int = 16, count: int = 16, fetch_bytes: int = FETCH_BYTES
) -> None:
    """Print a line for each step."""
    tune_process()
    chunks = list(fetches(size, batch_kib << 10, count, fetch_bytes))
    total = chunks[-1].next_offset
    for name, call in steps(chunks, total):
        best = float("inf")
        for _ in range(RUNS):
            before = time.thread_time()
            call()
            best = min(best, time.thread_time() - before)
        sys.stdout.write(f"{name:<44}{best / total * 1e9:>8.1f} ns/record\n")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
