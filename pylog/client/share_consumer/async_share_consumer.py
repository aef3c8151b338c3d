"""`AsyncShareConsumer`: the share consumer for asyncio.

The same `ShareConsumer` inside, fetching on pylog's own loop as ever. Polls wait on the caller's
loop, without another thread; other calls that ask a broker wait on one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Unpack, overload

from pylog.client.closing import AsyncClosing
from pylog.client.cluster.shown import AsyncShown
from pylog.client.consumer.consumer_records import ConsumerRecords
from pylog.client.consumer.one_task import OneTask, news
from pylog.client.elsewhere import Elsewhere
from pylog.client.share_consumer.share_consumer import Parts, ShareConsumer
from pylog.client.share_consumer.share_waiting import LOOK_AGAIN_S
from pylog.client.sharing.acknowledgements import CommitResults
from pylog.client.sharing.share_core import OnAcknowledged
from pylog.client.timeouts import seconds
from pylog.client.typed_settings import Deserialize, HasDeserialize, ShareConsumerSettings
from pylog.clock import SYSTEM_CLOCK
from pylog.model import AcknowledgeType
from pylog.records.record import K, Record, V

if TYPE_CHECKING:
    from types import TracebackType

T = TypeVar("T")


class AsyncShareConsumer(AsyncClosing, AsyncShown, Generic[K, V]):
    """Takes records in turn with the members of its share group; arguments, settings, meanings and
    errors are `ShareConsumer`'s.

    For one task at a time on one event loop; `wakeup()` may come from anywhere. Deserializers and
    the acknowledgement callback run on that loop.
    """

    @overload
    def __init__(
        self: AsyncShareConsumer[Any, Any],
        config: Mapping[str, Any],
        /,
        *topics: str,
        bootstrap_servers: str | Iterable[str] | None = None,
        group_id: str | None = None,
        deserializer: object = None,
        key_deserializer: object = None,
        value_deserializer: object = None,
        **settings: Unpack[ShareConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncShareConsumer[bytes | None, bytes | None],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str,
        **settings: Unpack[ShareConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncShareConsumer[V, V],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str,
        deserializer: Deserialize[V],
        **settings: Unpack[ShareConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncShareConsumer[bytes | None, V],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str,
        value_deserializer: Deserialize[V],
        **settings: Unpack[ShareConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncShareConsumer[K, bytes | None],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str,
        key_deserializer: Deserialize[K],
        **settings: Unpack[ShareConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncShareConsumer[K, V],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str,
        key_deserializer: Deserialize[K],
        value_deserializer: Deserialize[V],
        **settings: Unpack[ShareConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncShareConsumer[Any, Any],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str,
        deserializer: HasDeserialize | str = ...,
        key_deserializer: HasDeserialize | str = ...,
        value_deserializer: HasDeserialize | str = ...,
        **settings: Unpack[ShareConsumerSettings],
    ) -> None: ...
    def __init__(
        self,
        *topics: str | Mapping[str, Any],
        bootstrap_servers: str | Iterable[str] | None = None,
        group_id: str | None = None,
        **settings: Any,
    ) -> None:
        make: Callable[..., ShareConsumer[K, V]] = ShareConsumer
        self._inner = make(
            *topics, bootstrap_servers=bootstrap_servers, group_id=group_id, **settings
        )
        self._task = OneTask()
        self._calls = Elsewhere()

    # ---- at once ------------------------------------------------------------------------------

    def subscribe(self, topics: str | Iterable[str]) -> None:
        """Read these topics together with the group's other members."""
        self._inner.subscribe(topics)

    def subscription(self) -> set[str]:
        """The subscribed topics."""
        return self._inner.subscription()

    def acknowledge(self, record: Record, type: AcknowledgeType = AcknowledgeType.ACCEPT) -> None:
        """Say what becomes of a record."""
        self._inner.acknowledge(record, type)

    def commit_async(self) -> None:
        """Send what is acknowledged, without waiting."""
        self._inner.commit_async()

    def set_acknowledgement_commit_callback(self, callback: OnAcknowledged | None) -> None:
        """Have `callback(offsets, error)` called within polls, commits and `close`."""
        self._inner.set_acknowledgement_commit_callback(callback)

    def acquisition_lock_timeout_ms(self) -> int | None:
        """The time for which records are locked for the consumer that got them."""
        return self._inner.acquisition_lock_timeout_ms()

    def wakeup(self) -> None:
        """Have a poll that waits, or the next one, raise WokenUp. From any thread."""
        self._inner.wakeup()

    def metrics(self) -> dict[str, float]:
        """As `ShareConsumer.metrics`."""
        return self._inner.metrics()

    # ---- records ------------------------------------------------------------------------------

    async def poll(self, timeout: float = 1.0) -> ConsumerRecords[K, V]:
        """Records, as soon as there are any; none after `timeout` seconds. Raises as
        `ShareConsumer.poll`.
        """
        with self._task.poll():
            await self._calls.left_has_ended(seconds(timeout))
            with self._inner._use():
                left_over = self._inner._take_pending()
            if left_over:
                return left_over
            return self._inner._handed_out(await self._poll(timeout))

    async def __aiter__(self) -> AsyncIterator[Record[K, V]]:
        """Records without end; a record is accepted when the next one is taken."""
        inner = self._inner
        while True:
            with self._task.poll():
                await self._calls.left_has_ended()
                with inner._use():
                    is_empty = not inner._has_pending
                if is_empty:
                    inner._iterate(await self._poll(1.0))
            for record in inner._pending:
                yield record
                inner._accept_in_time()

    async def _poll(self, timeout: float) -> Parts:
        inner = self._inner
        deadline_ms = SYSTEM_CLOCK.monotonic_ms() + seconds(timeout) * 1000
        with inner._use():
            found = inner._begin_poll()
        try:
            while not found:
                left_s = (deadline_ms - SYSTEM_CLOCK.monotonic_ms()) / 1000
                if left_s <= 0:
                    break
                await news(inner._waiting.listen, min(left_s, LOOK_AGAIN_S))
                with inner._use():
                    inner._waiting.raise_faults()
                    found = inner._look()
            return found
        finally:
            inner._end_poll(found)

    # ---- what asks a broker -------------------------------------------------------------------

    async def unsubscribe(self) -> None:
        """Read nothing, and be no member of the group."""
        await self._elsewhere(self._inner.unsubscribe)

    async def commit(self, *, timeout: float | None = None) -> CommitResults:
        """Send what is acknowledged, and tell what became of it, by partition. The acknowledgement
        callback is called on another thread.
        """
        return await self._elsewhere(lambda: self._inner.commit(timeout=timeout))

    async def close(self, timeout: float | None = None) -> None:
        """Send what is acknowledged, release all else, leave the group, and let go of connections.
        The acknowledgement callback is called on another thread.
        """
        await self._elsewhere(lambda: self._inner.close(timeout))

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """As `close`. Without an error what was returned is accepted, in the implicit mode."""
        await self._elsewhere(lambda: self._inner.__exit__(kind, error, traceback))

    async def _elsewhere(self, call: Callable[[], T]) -> T:
        return await self._calls.run(call)
