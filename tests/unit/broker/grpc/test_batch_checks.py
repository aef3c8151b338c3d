"""Produce streams: compressed batches are checked in the pool, all others at once; no stream loses
its order, and one message answers one message.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any, cast

import grpc
import pytest

from pylog.clock import SYSTEM_CLOCK
from pylog.errors import (
    InvalidRequest,
    NotLeaderOrFollower,
    PylogError,
    ThrottlingQuotaExceeded,
)
from pylog.model import Offset, TopicPartition
from pylog.records.batch import CompressionType, read_header
from pylog.records.builder import encode_batch
from pylog.records.compression import Compression
from pylog.records.kernels_pure import RecordsSummary
from pylog.rpc.v1 import log_pb2
from pylog_broker.api.answer_memory import AnswerMemory
from pylog_broker.api.api import DataApi
from pylog_broker.api.batch_checks import INLINE_BYTES_MAX, BatchChecks, codec_of
from pylog_broker.api.request_memory import RequestMemory
from pylog_broker.config import TopicConfig
from pylog_broker.grpc.log_service import LogService
from pylog_broker.metadata.messages import Failure
from pylog_broker.metrics.counters import RequestCounters
from pylog_broker.replication.effects import Effect, ProduceDone
from pylog_broker.replication.manager import ReplicaManager
from pylog_broker.replication.produce_messages import PartitionAck, PartitionBatch, Produce
from pylog_broker.storage.log.recompression import Recompressed
from tests.fakes import bad_batches

randbytes = Random(3).randbytes
PLAIN = encode_batch([b"v" * 50])
SMALL = encode_batch([b"v" * 50] * 20, compression="lz4", timestamps=7)
PACKED = encode_batch([b"v" * 100] * 1000, compression="gzip", timestamps=7)
"""Small as it is, it unpacks to more than the loop takes upon itself."""
LARGE = encode_batch([randbytes(1000) for _ in range(20)], compression="snappy", timestamps=7)

CONFIGS = {
    TopicPartition("t", 0): TopicConfig(),
    TopicPartition("zstd", 0): TopicConfig(compression_type="zstd", compression_zstd_level=1),
}


class Appends:
    """A manager that acknowledges everything, with the number of appends before as the offset, or
    refuses it all.
    """

    def __init__(self) -> None:
        self.requests: list[Produce] = []
        self.refuses: PylogError | None = None

    def produce_all(
        self, now_ms: int, wall_ms: int, requests: Iterable[tuple[Produce, object]]
    ) -> list[Effect]:
        return [self._append(*each) for each in requests]

    def _append(self, request: Produce, token: object) -> ProduceDone:
        self.requests.append(request)
        offset = Offset(len(self.requests) - 1)
        names = (item.topic_partition for item in request.batches)
        if self.refuses is not None:
            failure = Failure(self.refuses.code, str(self.refuses))
            return ProduceDone(token, tuple(PartitionAck(name, failure) for name in names))
        return ProduceDone(token, tuple(PartitionAck(n, base_offset=offset) for n in names))


class GatedPool(ThreadPoolExecutor):
    """One thread that works while `gate` is open; counts its jobs."""

    def __init__(self) -> None:
        super().__init__(1)
        self.gate = threading.Event()
        self.gate.set()
        self.jobs = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **more: Any) -> Any:
        self.jobs += 1

        def gated() -> Any:
            assert self.gate.wait(10)
            return fn(*args, **more)

        return super().submit(gated)


class Aborted(Exception):
    """The call was ended: with which status, in which words, for which error."""


class Bench:
    """A Log service over `Appends`, and a stream into it, of which it is the context."""

    def __init__(self) -> None:
        self.manager = Appends()
        self.pool = GatedPool()
        self.answers: list[log_pb2.ProduceResponse] = []
        self.lines: list[str] = []
        self.counters = RequestCounters()
        manager = cast(ReplicaManager, self.manager)
        self.data = DataApi.over(
            manager, self._perform, SYSTEM_CLOCK,
            checks=BatchChecks(self.pool, 1 << 20, CONFIGS.get), memory=RequestMemory(1 << 20),
            answers=AnswerMemory(1 << 20), counters=self.counters, topic_name=lambda _: None,
        )  # fmt: skip
        self.service = LogService(self.data, self.lines.append)

    def _perform(self, effects: Sequence[Effect]) -> None:
        for effect in effects:
            assert isinstance(effect, ProduceDone)
            cast(Callable[[object], None], effect.token)(effect.acks)

    async def write(self, answer: log_pb2.ProduceResponse) -> None:
        self.answers.append(answer)

    async def abort(self, status: grpc.StatusCode, details: str, trailing: Any) -> None:
        ((_, code),) = trailing
        raise Aborted(status, details, int(code))

    def peer(self) -> str:
        return "ipv4:127.0.0.1:5"

    async def stream(self, *batches: bytes) -> None:
        await self.messages(*(request(batch, number) for number, batch in enumerate(batches)))

    async def messages(self, *messages: log_pb2.ProduceRequest) -> None:
        async def requests() -> AsyncIterator[log_pb2.ProduceRequest]:
            for each in messages:
                yield each

        await self.service.ProduceStream(requests(), cast(Any, self))

    def appended(self) -> list[bytes]:
        return [item.batch for produce in self.manager.requests for item in produce.batches]


def request(batch: bytes, correlation: int = 0, topic: str = "t") -> log_pb2.ProduceRequest:
    item = log_pb2.PartitionBatch(topic=topic, batch=batch)
    return log_pb2.ProduceRequest(correlation=correlation, acks=-1, batches=[item])


def run(test: Callable[[Bench], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        bench = Bench()
        with bench.pool:
            async with asyncio.timeout(10):
                await test(bench)
        assert bench.data.produce.in_flight_bytes == 0

    asyncio.run(main())


def test_what_is_compressed() -> None:
    assert [codec_of(batch) for batch in (PLAIN, PACKED, LARGE, b"", PACKED[:30])] == [
        0, CompressionType.GZIP, CompressionType.SNAPPY, 0, 0,
    ]  # fmt: skip


def test_the_pool_tells_what_the_loop_needs_to_know() -> None:
    async def test(bench: Bench) -> None:
        await bench.stream(PACKED)
        (item,) = bench.manager.requests[0].batches
        assert item.checked == RecordsSummary(7, 7, 0)
        assert item.batch == PACKED
        assert bench.pool.jobs == 1

    run(test)


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_a_small_batch_is_checked_on_the_loop(codec: str) -> None:
    batch = encode_batch([b"small"] * 9, compression=codec, timestamps=7)

    async def test(bench: Bench) -> None:
        await bench.stream(batch)
        (item,) = bench.manager.requests[0].batches
        assert item.checked == RecordsSummary(7, 7, 0)
        assert bench.pool.jobs == 0

    run(test)


@pytest.mark.parametrize("batch", [PACKED, LARGE], ids=["by what comes out", "by its own size"])
def test_a_large_batch_goes_to_the_pool(batch: bytes) -> None:
    async def test(bench: Bench) -> None:
        await bench.stream(batch)
        assert bench.manager.requests[0].batches[0].checked == RecordsSummary(7, 7, 0)
        assert bench.pool.jobs == 1

    run(test)


def test_many_small_batches_of_one_request_go_to_the_pool_together() -> None:
    async def test(bench: Bench) -> None:
        message = request(SMALL)
        for partition in range(1, 1 + INLINE_BYTES_MAX // len(SMALL)):
            message.batches.add(topic="t", partition=partition, batch=SMALL)
        await bench.messages(message)
        checked = [item.checked for item in bench.manager.requests[0].batches]
        assert checked == [RecordsSummary(7, 7, 0)] * len(message.batches)
        assert bench.pool.jobs == 1

    run(test)


def test_an_uncompressed_batch_does_not_go_to_the_pool() -> None:
    async def test(bench: Bench) -> None:
        await bench.stream(PLAIN, PLAIN)
        assert [produce.batches[0].checked for produce in bench.manager.requests] == [None, None]
        assert bench.pool.jobs == 0

    run(test)


def test_a_stream_keeps_its_order_and_others_pass_by() -> None:
    async def test(bench: Bench) -> None:
        bench.pool.gate.clear()
        waiting = asyncio.ensure_future(bench.stream(PACKED, PLAIN, PACKED))
        while not bench.pool.jobs:
            await asyncio.sleep(0)
        other = encode_batch([b"of another stream"])
        await bench.stream(other)
        assert bench.appended() == [other]
        assert bench.data.produce.in_flight_bytes == len(PACKED)
        bench.pool.gate.set()
        await waiting
        assert bench.appended() == [other, PACKED, PLAIN, PACKED]
        assert [answer.correlation for answer in bench.answers] == [0, 0, 1, 2]
        assert [answer.acks[0].base_offset for answer in bench.answers] == [0, 1, 2, 3]

    run(test)


def message(*following: log_pb2.ProduceRequest, acks: int = -1) -> log_pb2.ProduceRequest:
    first = request(PLAIN, 1)
    first.acks = acks
    first.following.extend(following)
    return first


def test_a_message_of_several_requests_gets_one_of_several_answers() -> None:
    async def test(bench: Bench) -> None:
        silent = request(PLAIN, 3)
        silent.acks = 0
        await bench.messages(message(request(PACKED, 2), silent), message(acks=0))
        assert bench.appended() == [PLAIN, PACKED, PLAIN, PLAIN]
        (answer,) = bench.answers
        answers = [answer, *answer.following]
        assert [(a.correlation, len(a.acks)) for a in answers] == [(1, 1), (2, 1), (3, 0)]
        assert [a.acks[0].base_offset for a in answers[:2]] == [0, 1]

    run(test)


@pytest.mark.parametrize("batch", [PLAIN, PACKED], ids=["at once", "in the pool"])
def test_a_batch_that_is_refused_without_acks_ends_the_stream(batch: bytes) -> None:
    async def test(bench: Bench) -> None:
        bench.manager.refuses = NotLeaderOrFollower("another leads")
        silent = request(batch, 1)
        silent.acks = 0
        with pytest.raises(Aborted) as ended:
            await bench.messages(silent, message(acks=0))
        status, details, code = ended.value.args
        assert status is grpc.StatusCode.UNAVAILABLE
        assert code == NotLeaderOrFollower.code
        assert details.startswith(
            "NOT_LEADER_OR_FOLLOWER: another leads; the batch is lost, as it was sent with acks=0"
        )
        assert len(bench.manager.requests) == 1
        assert bench.lines == [f"produce stream: closed ipv4:127.0.0.1:5: {details}"]
        assert bench.counters.errors == {("Produce", code): 1}

    run(test)


def test_one_request_that_is_refused_without_acks_fails() -> None:
    async def test(bench: Bench) -> None:
        bench.manager.refuses = NotLeaderOrFollower("another leads")
        with pytest.raises(Aborted, match="another leads; the batch is lost"):
            await bench.service.Produce(message(acks=0), cast(Any, bench))

    run(test)


def test_a_message_beyond_the_broker_s_memory_is_refused_in_part() -> None:
    async def test(bench: Bench) -> None:
        large = encode_batch([b"x" * (1 << 20)])
        await bench.messages(message(request(large, 2), request(PLAIN, 3)))
        (answer,) = bench.answers
        codes = [a.acks[0].error.code for a in (answer, *answer.following)]
        assert codes == [0, ThrottlingQuotaExceeded.code, 0]

    run(test)


def test_how_many_requests_a_message_may_hold() -> None:
    async def test(bench: Bench) -> None:
        many = message(*(request(PLAIN, n) for n in range(65)))
        nested = message(message(request(PLAIN)))
        for refused in (many, nested):
            with pytest.raises(InvalidRequest, match="following"):
                await bench.messages(refused)
        assert bench.appended() == []
        await bench.messages(message(*(request(PLAIN, n) for n in range(64))))
        assert len(bench.appended()) == 65

    run(test)


@pytest.mark.parametrize("batch", [PLAIN, SMALL, LARGE], ids=["plain", "small", "large"])
def test_what_the_topic_keeps_in_another_codec_is_packed_in_the_pool(batch: bytes) -> None:
    async def test(bench: Bench) -> None:
        await bench.messages(request(batch, topic="zstd"))
        (item,) = bench.manager.requests[0].batches
        assert item.batch == batch
        assert isinstance(item.checked, Recompressed)
        assert item.checked.compression == Compression(CompressionType.ZSTD, 1)
        assert read_header(item.checked.batch).compression == CompressionType.ZSTD
        assert bench.pool.jobs == 1

    run(test)


def test_what_comes_in_the_topic_s_codec_stays_as_it_is() -> None:
    async def test(bench: Bench) -> None:
        batch = encode_batch([b"v"] * 20, compression="zstd", timestamps=7)
        await bench.messages(request(batch, topic="zstd"), request(batch, topic="elsewhere"))
        for produce in bench.manager.requests:
            assert produce.batches[0].checked == RecordsSummary(7, 7, 0)
        assert bench.pool.jobs == 0

    run(test)


def test_a_unary_call_waits_for_its_check() -> None:
    async def test(bench: Bench) -> None:
        answer = await bench.service.Produce(request(PACKED, 5), cast(Any, bench))
        assert (answer.correlation, answer.acks[0].base_offset) == (5, 0)
        assert bench.manager.requests[0].batches[0].checked is not None

    run(test)


def test_who_hangs_up_while_the_pool_works_leaves_nothing_behind() -> None:
    async def test(bench: Bench) -> None:
        bench.pool.gate.clear()
        waiting = asyncio.ensure_future(bench.stream(PACKED))
        while not bench.pool.jobs:
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await asyncio.sleep(0)
        bench.pool.gate.set()
        assert bench.data.produce.in_flight_bytes == 0
        assert bench.appended() == []

    run(test)


def test_a_bomb_comes_back_as_an_error_beside_its_neighbours() -> None:
    bomb = bad_batches.sealed(bad_batches.zstd_zeros(1 << 30), CompressionType.ZSTD)

    async def outcomes() -> list[RecordsSummary | PylogError | None]:
        with ThreadPoolExecutor(1) as pool:
            items = tuple(
                PartitionBatch(TopicPartition("t", number), None, batch)
                for number, batch in enumerate((PLAIN, bomb, PACKED))
            )
            checked = await BatchChecks(pool, 1 << 20, CONFIGS.get).in_pool(Produce(-1, 0, items))
            return [item.checked for item in checked.batches]

    plain, fault, packed = asyncio.run(outcomes())
    assert plain is None
    assert isinstance(fault, PylogError)
    assert packed == RecordsSummary(7, 7, 0)
