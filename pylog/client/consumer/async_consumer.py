"""`AsyncConsumer`: the consumer for asyncio.

The same `Consumer` inside, fetching on pylog's own loop as ever. Buffered records are handed out on
the caller's loop, without another thread; only calls that ask a broker wait on one.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from operator import length_hint
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, Unpack, overload

from pylog.client.closing import AsyncClosing
from pylog.client.cluster.shown import AsyncShown
from pylog.client.consumer.consumer import Consumer
from pylog.client.consumer.consumer_records import ConsumerRecords
from pylog.client.consumer.one_task import OneTask, news
from pylog.client.consumer.whole_reads import READ_S
from pylog.client.elsewhere import Elsewhere
from pylog.client.membership.offset_commits import OnCommitted
from pylog.client.timeouts import seconds
from pylog.client.topics_and_partitions import Partitions
from pylog.client.typed_settings import ConsumerSettings, Deserialize, HasDeserialize
from pylog.clock import SYSTEM_CLOCK
from pylog.model import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    TopicPartition,
)
from pylog.records.record import K, Record, V

if TYPE_CHECKING:
    import re
    from types import TracebackType

    import pandas as pd
    import pyarrow as pa

LOOK_AGAIN_S: Final = 0.5
"""Some faults show only by time: nobody answers."""

T = TypeVar("T")


class AsyncConsumer(AsyncClosing, AsyncShown, Generic[K, V]):
    """Reads records; arguments, settings, meanings and errors are `Consumer`'s.

    For one task at a time on one event loop; `wakeup()` may come from anywhere. Deserializers and
    interceptors run on that loop.
    """

    @overload
    def __init__(
        self: AsyncConsumer[Any, Any],
        config: Mapping[str, Any],
        /,
        *topics: str,
        bootstrap_servers: str | Iterable[str] | None = None,
        group_id: str | None = None,
        deserializer: object = None,
        key_deserializer: object = None,
        value_deserializer: object = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncConsumer[bytes | None, bytes | None],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str | None = None,
        **settings: Unpack[ConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncConsumer[V, V],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str | None = None,
        deserializer: Deserialize[V],
        **settings: Unpack[ConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncConsumer[bytes | None, V],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str | None = None,
        value_deserializer: Deserialize[V],
        **settings: Unpack[ConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncConsumer[K, bytes | None],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str | None = None,
        key_deserializer: Deserialize[K],
        **settings: Unpack[ConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncConsumer[K, V],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str | None = None,
        key_deserializer: Deserialize[K],
        value_deserializer: Deserialize[V],
        **settings: Unpack[ConsumerSettings],
    ) -> None: ...
    @overload
    def __init__(
        self: AsyncConsumer[Any, Any],
        *topics: str,
        bootstrap_servers: str | Iterable[str],
        group_id: str | None = None,
        deserializer: HasDeserialize | str = ...,
        key_deserializer: HasDeserialize | str = ...,
        value_deserializer: HasDeserialize | str = ...,
        **settings: Unpack[ConsumerSettings],
    ) -> None: ...
    def __init__(
        self,
        *topics: str | Mapping[str, Any],
        bootstrap_servers: str | Iterable[str] | None = None,
        group_id: str | None = None,
        **settings: Any,
    ) -> None:
        make: Callable[..., Consumer[K, V]] = Consumer
        self._inner = make(
            *topics, bootstrap_servers=bootstrap_servers, group_id=group_id, **settings
        )
        self._task = OneTask()
        self._calls = Elsewhere()

    # ---- what to read, and where: at once -----------------------------------------------------

    def subscribe(
        self,
        topics: str | Iterable[str] | None = None,
        pattern: str | re.Pattern[str] | None = None,
        listener: object | None = None,
    ) -> None:
        """Read all partitions of these topics, or of all whose whole name matches `pattern`."""
        self._inner.subscribe(topics, pattern, listener)

    def assign(self, partitions: Partitions) -> None:
        """Read exactly these partitions; those assigned before keep their positions."""
        self._inner.assign(partitions)

    def unsubscribe(self) -> None:
        """Read nothing."""
        self._inner.unsubscribe()

    def assignment(self) -> set[TopicPartition]:
        """The partitions that are read."""
        return self._inner.assignment()

    def subscription(self) -> set[str]:
        """The subscribed topics; with a pattern, those that match by now."""
        return self._inner.subscription()

    def seek(
        self, partition: TopicPartition | tuple[str, int], offset: int | OffsetAndMetadata
    ) -> None:
        """The next record of the partition is the one at `offset`, or the first after it."""
        self._inner.seek(partition, offset)

    def paused(self) -> set[TopicPartition]:
        """The partitions that are paused."""
        return self._inner.paused()

    def wakeup(self) -> None:
        """Have a poll that waits, or the next one, raise WokenUp. From any thread."""
        self._inner.wakeup()

    def metrics(self) -> dict[str, float]:
        """As `Consumer.metrics`."""
        return self._inner.metrics()

    # ---- records ------------------------------------------------------------------------------

    async def poll(self, timeout: float = 1.0) -> ConsumerRecords[K, V]:
        """Up to `max_poll_records` records, as soon as there are any; none after `timeout`
        seconds. Raises as `Consumer.poll`.
        """
        return await self._poll(timeout, lambda: self._inner.poll(0))

    async def poll_arrow(
        self, timeout: float = 1.0, *, include_headers: bool = False
    ) -> pa.RecordBatch:
        """Fetched records as Arrow columns, as soon as there are any."""
        return await self._poll(
            timeout, lambda: self._inner.poll_arrow(0, include_headers=include_headers)
        )

    async def to_arrow(
        self,
        max_records: int | None = None,
        timeout: float = READ_S,
        *,
        include_headers: bool = False,
    ) -> pa.Table:
        """Everything from here to the present ends, as one table; on another thread."""
        how = {"include_headers": include_headers}
        return await self._elsewhere(lambda: self._inner.to_arrow(max_records, timeout, **how))

    async def to_pandas(
        self,
        max_records: int | None = None,
        timeout: float = READ_S,
        *,
        include_headers: bool = False,
    ) -> pd.DataFrame:
        """As `to_arrow`, as a DataFrame; deserializers run on that thread."""
        how = {"include_headers": include_headers}
        return await self._elsewhere(lambda: self._inner.to_pandas(max_records, timeout, **how))

    async def to_polars(
        self,
        max_records: int | None = None,
        timeout: float = READ_S,
        *,
        include_headers: bool = False,
    ) -> Any:
        """As `to_arrow`, as a DataFrame of Polars."""
        how = {"include_headers": include_headers}
        return await self._elsewhere(lambda: self._inner.to_polars(max_records, timeout, **how))

    async def __aiter__(self) -> AsyncIterator[Record[K, V]]:
        """Records without end. Leaving the loop loses none: the next poll or loop goes on."""
        while True:
            await self._calls.left_has_ended()
            for record in await self._poll(1.0, lambda: self._inner._iteration(0)):
                yield record

    async def _poll(self, timeout: float, take: Callable[[], T]) -> T:
        deadline = SYSTEM_CLOCK.monotonic_ms() + seconds(timeout) * 1000
        with self._task.poll():
            await self._calls.left_has_ended(seconds(timeout))
            while True:
                found = take()
                left_s = (deadline - SYSTEM_CLOCK.monotonic_ms()) / 1000
                if length_hint(found) or left_s <= 0:
                    return found
                await news(self._inner._waiting.listen, min(left_s, LOOK_AGAIN_S))

    # ---- what may ask a broker ----------------------------------------------------------------

    async def _elsewhere(self, call: Callable[..., T], *args: Any, **named: Any) -> T:
        return await self._calls.run(partial(call, *args, **named))

    async def partitions_for(self, topic: str, *, timeout: float | None = None) -> list[int]:
        """The topic's partition numbers."""
        return await self._elsewhere(self._inner.partitions_for, topic, timeout=timeout)

    async def seek_to_beginning(self, *partitions: Partitions) -> None:
        """Go on at the first offset of these partitions (none given: all assigned)."""
        await self._elsewhere(self._inner.seek_to_beginning, *partitions)

    async def seek_to_end(self, *partitions: Partitions) -> None:
        """Go on behind the last record of these partitions (none given: all assigned)."""
        await self._elsewhere(self._inner.seek_to_end, *partitions)

    async def position(self, *partitions: Partitions, timeout: float | None = None) -> Any:
        """The offset of the next record: an int for one partition, else a dict."""
        return await self._elsewhere(self._inner.position, *partitions, timeout=timeout)

    async def pause(self, *partitions: Partitions) -> None:
        """Return no records of these partitions until `resume` (none given: all assigned)."""
        await self._elsewhere(self._inner.pause, *partitions)

    async def resume(self, *partitions: Partitions) -> None:
        """Undo `pause` (none given: all assigned)."""
        await self._elsewhere(self._inner.resume, *partitions)

    async def beginning_offsets(
        self, *partitions: Partitions, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The first offset of each partition (none given: all assigned)."""
        return await self._elsewhere(self._inner.beginning_offsets, *partitions, timeout=timeout)

    async def end_offsets(
        self, *partitions: Partitions, timeout: float | None = None
    ) -> dict[TopicPartition, int]:
        """The offset behind the last readable record of each (none given: all assigned)."""
        return await self._elsewhere(self._inner.end_offsets, *partitions, timeout=timeout)

    async def offsets_for_times(
        self, times: Mapping[TopicPartition, int], *, timeout: float | None = None
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """The first record at or after each time (milliseconds); None where none is that late."""
        return await self._elsewhere(self._inner.offsets_for_times, times, timeout=timeout)

    async def lag(self, *partitions: Partitions, timeout: float | None = None) -> Any:
        """The number of offsets left to read: an int for one partition, else a dict."""
        return await self._elsewhere(self._inner.lag, *partitions, timeout=timeout)

    # ---- the group ----------------------------------------------------------------------------

    async def commit(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        *,
        timeout: float | None = None,
    ) -> None:
        """Commit these offsets, or what was returned so far; returns when they are kept."""
        await self._elsewhere(self._inner.commit, offsets, timeout=timeout)

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata] | None = None,
        callback: OnCommitted | None = None,
    ) -> None:
        """Commit without waiting; a later poll calls `callback(offsets, error)`."""
        self._inner.commit_async(offsets, callback)

    async def committed(self, *partitions: Partitions, timeout: float | None = None) -> Any:
        """The group's committed offset: of one partition, or a dict."""
        return await self._elsewhere(self._inner.committed, *partitions, timeout=timeout)

    def group_metadata(self) -> ConsumerGroupMetadata:
        """This consumer's identity in its group."""
        return self._inner.group_metadata()

    def enforce_rebalance(self, reason: str | None = None) -> None:
        """Have a group of the classic protocol share out anew."""
        self._inner.enforce_rebalance(reason)

    async def close(
        self,
        timeout: float | None = None,
        *,
        commit: bool = True,
        leave_group: bool | None = None,
    ) -> None:
        """Commit what was read, where that is done by itself, leave the group, and let go of
        connections and buffers, as `Consumer.close`. A rebalance listener is called on another
        thread.
        """
        how = {"commit": commit, "leave_group": leave_group}
        await self._elsewhere(self._inner.close, timeout, **how)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """As `close`. After an error, what the last poll returned counts as not read."""
        await self._elsewhere(self._inner.__exit__, kind, error, traceback)
