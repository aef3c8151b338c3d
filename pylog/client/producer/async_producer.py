"""`AsyncProducer`: the producer for code that runs on an asyncio loop of its own.

The same producer underneath, with its thread and its buffers; only what would block a thread is
awaited here instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from pylog.client.callers import call_on, on_a_thread
from pylog.client.closing import AsyncClosing
from pylog.client.cluster.shown import AsyncShown
from pylog.client.producer.delivery import DeliveryHandle, OnDelivery
from pylog.client.producer.producer import Producer
from pylog.client.producer.transaction_scope import AsyncTransactionScope
from pylog.client.typed_settings import ProducerSettings
from pylog.client.user_code import check_plain
from pylog.model import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    PreparedTransaction,
    RecordMetadata,
    TopicPartition,
)

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class AsyncDelivery:
    """A sent record's outcome: `await` it for the metadata; raises the record's error. It may be
    awaited any number of times, and need not be awaited at all.
    """

    __slots__ = ("_handle",)

    def __init__(self, handle: DeliveryHandle) -> None:
        self._handle = handle

    def done(self) -> bool:
        """Whether `await` would return or raise at once."""
        return self._handle.done()

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        handle = self._handle
        if not handle.done():
            loop = asyncio.get_running_loop()
            told: asyncio.Future[None] = loop.create_future()

            def wake() -> None:
                if not told.done():  # else the one who waited was cancelled
                    told.set_result(None)

            def on_done(_handle: DeliveryHandle) -> None:
                call_on(loop, wake)

            handle.add_done_callback(on_done)
            yield from told.__await__()
        return handle.result(0)

    def __repr__(self) -> str:
        return repr(self._handle).replace("DeliveryHandle", "AsyncDelivery", 1)


class AsyncProducer(AsyncClosing, AsyncShown):
    """Sends records. Settings, guarantees and errors are `Producer`'s. For one loop at a time.

    Callbacks and interceptors still run on pylog's thread, not on the loop.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        bootstrap_servers: str | Iterable[str] | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        self._inner = Producer(config, bootstrap_servers=bootstrap_servers, **settings)
        self._inner._at_hand.is_wanted = False  # the caller's loop has better things to do
        self._turn = asyncio.Lock()  # held by the one send that waits
        self._waiting = 0  # those that wait, with the ones behind it: they keep their order

    async def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        headers: Iterable[tuple[str, Any]] | Mapping[str, Any] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> AsyncDelivery:
        """The record's outcome, to be awaited later or not; returns once the record is buffered.

        Waits up to `max_block_ms` for the topic's metadata and for room in `buffer_memory`, while
        the loop goes on. Records keep the order in which `send` was awaited; one whose `send` is
        cancelled while it waits is not sent. Raises as `Producer.send`.
        """

        if on_delivery is not None:
            check_plain(on_delivery, "on_delivery")

        def send() -> AsyncDelivery:
            return AsyncDelivery(
                self._inner.send(
                    topic,
                    value,
                    key=key,
                    headers=headers,
                    partition=partition,
                    timestamp_ms=timestamp_ms,
                    on_delivery=on_delivery,
                )
            )

        if not self._waiting and not self._inner._may_block(topic, partition):
            return send()
        return await self._in_order(send)

    async def _in_order(self, send: Callable[[], T]) -> T:
        """Have it sent on a thread, which may wait, behind those that wait already."""
        self._waiting += 1
        try:
            async with self._turn:
                return await on_a_thread(send)
        finally:
            self._waiting -= 1

    async def send_and_wait(self, topic: str, value: Any = None, **rest: Any) -> RecordMetadata:
        """`send`, and then its outcome."""
        return await (await self.send(topic, value, **rest))

    async def send_arrow(
        self, topic: str, data: pa.RecordBatch | pa.Table, *, partition: int | None = None
    ) -> asyncio.Future[list[RecordMetadata]]:
        """As `Producer.send_arrow`; returns, with a future of this loop, once all is buffered. One
        that is cancelled while it waits sends the rows that are buffered already.
        """
        send = partial(self._inner.send_arrow, topic, data, partition=partition)
        return asyncio.wrap_future(await self._in_order(send))

    async def init_transactions(self, keep_prepared_txn: bool = False) -> None:
        """As `Producer.init_transactions`. A call of transactions that is cancelled goes on; the
        same call made again waits for its end.
        """
        init = self._inner.init_transactions
        await on_a_thread(partial(init, keep_prepared_txn), begins=True)

    async def begin_transaction(self) -> None:
        """As `Producer.begin_transaction`."""
        self._inner.begin_transaction()

    async def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata,
    ) -> None:
        """As `Producer.send_offsets_to_transaction`."""
        send = self._inner.send_offsets_to_transaction
        await on_a_thread(partial(send, offsets, group_metadata), begins=True)

    async def prepare_transaction(self) -> PreparedTransaction:
        """As `Producer.prepare_transaction`."""
        return await on_a_thread(self._inner.prepare_transaction, begins=True)

    async def complete_transaction(self, state: PreparedTransaction | str) -> None:
        """As `Producer.complete_transaction`."""
        complete = self._inner.complete_transaction
        await on_a_thread(partial(complete, state), begins=True)

    async def commit_transaction(self) -> None:
        """As `Producer.commit_transaction`."""
        await on_a_thread(self._inner.commit_transaction, begins=True)

    async def abort_transaction(self) -> None:
        """As `Producer.abort_transaction`."""
        await on_a_thread(self._inner.abort_transaction, begins=True)

    def transaction(self) -> AsyncTransactionScope:
        """`async with producer.transaction():` commits at the end of the block; aborts if it
        raises.
        """
        self._inner._of_transactions()
        return AsyncTransactionScope(self)

    async def flush(self, timeout: float | None = None) -> None:
        """As `Producer.flush`."""
        await on_a_thread(partial(self._inner.flush, timeout))

    async def partitions_for(self, topic: str) -> list[int]:
        """The topic's partition numbers."""
        return await on_a_thread(partial(self._inner.partitions_for, topic))

    async def refresh(self, topic: str) -> None:
        """As `Producer.refresh`."""
        await on_a_thread(partial(self._inner.refresh, topic))

    def metrics(self) -> dict[str, float]:
        """As `Producer.metrics`; at once."""
        return self._inner.metrics()

    async def close(self, timeout: float | None = None) -> None:
        """As `Producer.close`. A call that is cancelled goes on."""
        await asyncio.shield(asyncio.to_thread(self._inner.close, timeout))
