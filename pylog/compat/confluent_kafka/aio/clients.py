"""confluent-kafka's clients for asyncio: each call waits in a thread of a pool of the client's own.

Callbacks are coroutines or functions, which run on the loop that made the client.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, Final, Self

from pylog.compat.confluent_kafka.consumer import Consumer
from pylog.compat.confluent_kafka.error import KafkaException
from pylog.compat.confluent_kafka.producer import Producer

logger = logging.getLogger(__name__)

_CALLBACKS: Final = ("error_cb", "on_commit", "stats_cb", "throttle_cb")
_POLL_S: Final = 0.1
"""The time for which the producer's task waits for reports, each time."""


def _on_loop(loop: asyncio.AbstractEventLoop, callback: Callable[..., Any]) -> Callable[..., Any]:
    """The callback, to be called by a thread that waits for it."""

    def call(*args: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(_tell(callback, *args), loop).result()

    return call


class _Client:
    def __init__(
        self, conf: dict[str, Any], max_workers: int, executor: Executor | None, kind: Any
    ) -> None:
        self._loop = asyncio.get_event_loop()
        wrapped = {
            name: _on_loop(self._loop, value) if name in _CALLBACKS and callable(value) else value
            for name, value in conf.items()
        }
        self._executor = executor or ThreadPoolExecutor(max_workers)
        self._owns_executor = executor is None
        self._inner = kind(wrapped)

    async def _call(self, method: Callable[..., Any], *args: Any, **named: Any) -> Any:
        call = functools.partial(method, *args, **named)
        return await self._loop.run_in_executor(self._executor, call)

    def _end(self) -> None:
        if self._owns_executor:
            self._executor.shutdown(wait=False)

    async def close(self) -> None:
        """Deliver what waits, or commit what is stored and leave the group; let go of
        connections.
        """
        await self._call(self._inner.close)
        await self._rest()
        self._end()

    async def _rest(self) -> None:
        """Wait for what still runs."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()


def _awaited(name: str) -> Any:
    async def call(self: Any, *args: Any, **named: Any) -> Any:
        return await self._call(getattr(self._inner, name), *args, **named)

    call.__name__ = name
    call.__doc__ = f"As `{name}`, to be awaited."
    return call


async def _tell(callback: Callable[..., Any], *args: Any) -> Any:
    told = callback(*args)
    return await told if inspect.isawaitable(told) else told


class AIOProducer(_Client):
    """Sends messages: `await produce(...)` gives a future of the delivered message."""

    def __init__(
        self,
        producer_conf: dict[str, Any],
        max_workers: int = 4,
        executor: Executor | None = None,
        batch_size: int = 1000,
        buffer_timeout: float = 1.0,
    ) -> None:
        super().__init__(producer_conf, max_workers, executor, Producer)
        self._polling = self._loop.create_task(self._poll_on())
        self._telling: set[asyncio.Task[Any]] = set()

    async def _poll_on(self) -> None:
        while not self._inner._closed:
            try:
                await self._call(self._inner.poll, _POLL_S)
            except Exception:
                if not self._inner._closed:  # else the poll was refused, as the producer is closed
                    logger.exception("a callback of an AIOProducer raised")

    async def produce(
        self, topic: str, value: Any = None, key: Any = None, *args: Any, **named: Any
    ) -> asyncio.Future[Any]:
        """A future of the message as it was delivered; its exception is a KafkaException."""
        told: asyncio.Future[Any] = self._loop.create_future()
        asked = named.pop("on_delivery", None)

        def settle(error: Any, message: Any) -> None:
            if told.done():
                return
            if error is None:
                told.set_result(message)
            else:
                told.set_exception(KafkaException(error))
            if asked is not None:
                task = self._loop.create_task(_tell(asked, error, message))
                self._telling.add(task)
                task.add_done_callback(self._telling.discard)

        def on_delivery(error: Any, message: Any) -> None:
            self._loop.call_soon_threadsafe(settle, error, message)

        self._inner.produce(topic, value, key, *args, on_delivery=on_delivery, **named)
        return told

    poll = _awaited("poll")
    flush = _awaited("flush")
    purge = _awaited("purge")
    list_topics = _awaited("list_topics")
    cluster_id = _awaited("cluster_id")
    init_transactions = _awaited("init_transactions")
    begin_transaction = _awaited("begin_transaction")
    send_offsets_to_transaction = _awaited("send_offsets_to_transaction")
    commit_transaction = _awaited("commit_transaction")
    abort_transaction = _awaited("abort_transaction")
    set_sasl_credentials = _awaited("set_sasl_credentials")

    async def _rest(self) -> None:
        # A thread that still polls would wait for a callback on a loop that has ended. In a
        # callback it is that thread which waits.
        await asyncio.wait({self._polling}, timeout=2 * _POLL_S)
        self._polling.cancel()


class AIOConsumer(_Client):
    """Reads messages; every method of `Consumer`, to be awaited. For one task at a time."""

    def __init__(
        self,
        consumer_conf: dict[str, Any],
        max_workers: int = 100,
        executor: Executor | None = None,
    ) -> None:
        super().__init__(consumer_conf, max_workers, executor, Consumer)
        self._in_callback: SimpleQueue[Callable[[], None] | None] | None = None

    async def _call(self, method: Callable[..., Any], *args: Any, **named: Any) -> Any:
        calls = self._in_callback
        if calls is None:
            return await super()._call(method, *args, **named)
        # The thread that polls waits for the callback: it alone may use the consumer.
        told: asyncio.Future[Any] = self._loop.create_future()

        def run() -> None:
            try:
                outcome = method(*args, **named)
            except BaseException as error:  # noqa: BLE001  the callback hears of it
                self._loop.call_soon_threadsafe(told.set_exception, error)
            else:
                self._loop.call_soon_threadsafe(told.set_result, outcome)

        calls.put(run)
        return await told

    async def subscribe(self, topics: Any, **callbacks: Any) -> None:
        """As `subscribe`; the callbacks get this consumer, and may await its methods."""
        wrapped = {
            name: self._wrapped(callback)
            for name, callback in callbacks.items()
            if callback is not None
        }
        await self._call(self._inner.subscribe, topics, **wrapped)

    def _wrapped(self, callback: Callable[..., Any]) -> Callable[..., Any]:
        def call(_consumer: Consumer, partitions: Any) -> Any:
            calls: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
            self._in_callback = calls
            try:
                telling = _tell(callback, self, partitions)
                done = asyncio.run_coroutine_threadsafe(telling, self._loop)
                done.add_done_callback(lambda _done: calls.put(None))
                while (run := calls.get()) is not None:
                    run()
                return done.result()
            finally:
                self._in_callback = None

        return call

    poll = _awaited("poll")
    consume = _awaited("consume")
    unsubscribe = _awaited("unsubscribe")
    commit = _awaited("commit")
    seek = _awaited("seek")
    pause = _awaited("pause")
    resume = _awaited("resume")
    store_offsets = _awaited("store_offsets")
    committed = _awaited("committed")
    assign = _awaited("assign")
    unassign = _awaited("unassign")
    incremental_assign = _awaited("incremental_assign")
    incremental_unassign = _awaited("incremental_unassign")
    assignment = _awaited("assignment")
    position = _awaited("position")
    consumer_group_metadata = _awaited("consumer_group_metadata")
    set_sasl_credentials = _awaited("set_sasl_credentials")
    list_topics = _awaited("list_topics")
    cluster_id = _awaited("cluster_id")
    get_watermark_offsets = _awaited("get_watermark_offsets")
    offsets_for_times = _awaited("offsets_for_times")
