"""`Producer`: records in, acknowledged batches out. The half that users' threads run: what `send`
does before a record is in its batch. The other half is `producer_loop`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from sys import getrefcount
from threading import get_ident
from typing import TYPE_CHECKING, Any, Unpack

from pylog import errors
from pylog.client.arguments import settings_of, whole_or_none
from pylog.client.background import close_at_exit, logger, shared_loop
from pylog.client.callers import kept_waiting
from pylog.client.closing import Closing
from pylog.client.cluster.shown import Shown
from pylog.client.producer.at_hand import AtHand
from pylog.client.producer.delivery import (
    UNSHARED,
    DeliveryHandle,
    OnDelivery,
    gather,
    handle_on,
    next_handle,
)
from pylog.client.producer.encoding import header_list, record_size, serialized, stamp_of
from pylog.client.producer.interceptors import Interceptors, ProducerRecord
from pylog.client.producer.producer_loop import ProducerLoop
from pylog.client.producer.producer_settings import UserCode, parse_settings
from pylog.client.producer.transaction_scope import TransactionScope
from pylog.client.producer.transaction_use import NO_ID, TransactionUse
from pylog.client.sending.accumulator import TopicBuffer
from pylog.client.sending.partitioners import TopicPartitions
from pylog.client.sending.producer_batch import BATCH_OVERHEAD, RECORD_OVERHEAD, Batch, HeaderList
from pylog.client.timeouts import seconds_or_none
from pylog.client.topics_and_partitions import check_topic
from pylog.client.typed_settings import ProducerSettings
from pylog.clock import wall_ns
from pylog.model import (
    ConsumerGroupMetadata,
    OffsetAndMetadata,
    PreparedTransaction,
    RecordMetadata,
    TopicPartition,
)
from pylog.records.batch import read_header

if TYPE_CHECKING:
    import pyarrow as pa


class Producer(Closing, Shown):
    """Sends records. Thread safe. Idempotent unless told otherwise: no retry stores one twice. With
    a `transactional_id` it sends in transactions only.

    Settings are Kafka's with underscores (`linger_ms=5`), or a dictionary of its dotted names
    before them (`{"linger.ms": 5}`); an unknown one raises InvalidConfig, which names the nearest.
    Nothing connects before the first call that needs the cluster.
    """

    def __init__(
        self,
        config: Mapping[str, Any] | None = None,
        /,
        *,
        bootstrap_servers: str | Iterable[str] | None = None,
        **settings: Unpack[ProducerSettings],
    ) -> None:
        given = settings_of(config, {"bootstrap_servers": bootstrap_servers, **settings})
        values = parse_settings(given.pop("bootstrap_servers"), given)
        self._user = UserCode.of(values)
        self._max_block_ms: int = values["max.block.ms"]
        self._max_request_size: int = values["max.request.size"]
        self._buffer_memory: int = values["buffer.memory"]
        self._size_max = min(self._max_request_size, self._buffer_memory - BATCH_OVERHEAD)
        self._ignore_keys: bool = values["partitioner.ignore.keys"]
        self._closed = False
        self._thread = shared_loop()
        self._loop = ProducerLoop(self._thread, values)
        self._at_hand = AtHand(self._loop)
        transactions = self._loop.transactions
        self._transactions: TransactionUse | None = None  # None: it has no transactional id
        if transactions is not None:
            self._transactions = TransactionUse(self._loop, transactions, self._max_block_ms)
        self._cluster, self._clock = self._loop.cluster, self._loop.clock
        self._lock = self._loop.lock
        self._accumulator = self._loop.accumulator
        self._topics = self._accumulator.topics
        # Topics whose records may go straight into a batch: nothing of the user's looks at them.
        self._straight: dict[str, TopicBuffer | None] = {}
        close_at_exit(self)

    # ---- sending ------------------------------------------------------------------------------

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Iterable[tuple[str, Any]] | Mapping[str, Any] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        on_delivery: OnDelivery | None = None,
    ) -> DeliveryHandle:
        """A handle on the record's outcome, at once; the record leaves with its batch.

        `on_delivery(metadata, error)` is called on pylog's thread, one of the two being None, in
        the order of a partition's records; what it raises is logged.
        Blocks up to `max_block_ms` for the topic's metadata and for room in `buffer_memory`.
        Raises UnknownTopicOrPartition, MessageTooLarge, BufferExhausted, SerializationFailed,
        BootstrapFailed, ClientClosed; whatever happens later is the handle's.
        """
        try:
            buffer = self._straight[topic]
        except KeyError:  # its first record
            buffer = None
        except TypeError:  # a list, a dict
            check_topic(topic)
            raise
        if (
            buffer is not None
            and headers is None
            and partition is None
            and timestamp_ms is None
            and type(value) is bytes
        ):
            if key is None and on_delivery is None:
                # `Batch.add` in place and without the lock, each of which would cost a fifth of
                # this; why that may be, and the order of these lines, is told at `Batch`.
                batch = buffer.current
                if batch is not None and buffer.owner == get_ident():
                    values, times = batch.values, batch.times
                    room = batch.room - len(value) - 21  # RECORD_OVERHEAD, without a look-up
                    if room >= 0:
                        now_ns = wall_ns()
                        if now_ns >= times.until_ns:
                            times.begin(len(values), now_ns)
                        index = len(values)
                        values.append(value)
                        batch.room = room
                        if not batch.closed or self._was_counted(batch, index):
                            handle: DeliveryHandle = batch.handle
                            if getrefcount(handle) > UNSHARED:
                                handle = DeliveryHandle()
                                handle._delivery = batch.delivery
                                batch.handle = handle
                            handle._index = index
                            return handle
            else:
                added = self._add(buffer, value, key, on_delivery)
                if added is not None:
                    return added
        if self._user.interceptors is not None:
            record = ProducerRecord(topic, value, key, headers, partition, timestamp_ms)
            return self._send_intercepted(self._user.interceptors, record, on_delivery)
        try:
            self._tell_cluster()
            return self._send(topic, value, key, headers, partition, timestamp_ms, on_delivery)
        except errors.PylogError as error:
            self._count_refused(error)
            raise

    def _add(
        self, buffer: TopicBuffer, value: bytes, key: Any, on_delivery: OnDelivery | None
    ) -> DeliveryHandle | None:
        """The handle of a record that `send` put into an open batch: a plain value, one with a key
        or a callback; with a key only into a batch whose records all have one. None where there is
        no such batch.
        """
        room = -len(value) - RECORD_OVERHEAD
        if key is None:
            batch = buffer.current
        elif type(key) is bytes:
            batch = buffer.open.get(buffer.placed.get(key, -1))
            room -= len(key)
        else:
            return None
        if (
            batch is None
            or buffer.owner != get_ident()
            or not (on_delivery is None or callable(on_delivery))
        ):
            return None
        keys, values, times = batch.keys, batch.values, batch.times
        room += batch.room
        if room < 0:
            return None
        now_ns = wall_ns()
        if now_ns >= times.until_ns:
            times.begin(len(values), now_ns)
        index = len(values)
        if key is None:
            values.append(value)
        elif keys is None or len(keys) != index:
            return None
        else:
            try:
                keys.append(key)
                values.append(value)
            except BaseException:
                batch.trim()
                raise
        batch.room = room
        if batch.closed and not self._was_counted(batch, index):
            return None
        if on_delivery is not None:
            batch.delivery.on_delivery(index, on_delivery)
        return next_handle(batch, index)

    def _send_intercepted(
        self, interceptors: Interceptors, record: ProducerRecord, on_delivery: OnDelivery | None
    ) -> DeliveryHandle:
        fault: errors.PylogError | None = None
        try:
            self._tell_cluster()
        except errors.PylogError as error:
            fault = error
        r = interceptors.on_send(record)
        try:
            if fault is not None:
                raise fault
            return self._send(
                r.topic, r.value, r.key, r.headers, r.partition, r.timestamp_ms, on_delivery
            )
        except errors.PylogError as error:
            self._count_refused(error)
            interceptors.on_acknowledgement(None, error)
            raise

    def _tell_cluster(self) -> None:
        """Before the first record: code of the user's may want to know the cluster."""
        listeners = self._user.cluster
        if listeners is None or listeners.told or self._closed:
            return
        self._thread.run(self._cluster.connected(self._max_block_ms))
        listeners.tell(self._cluster.metadata.cluster_id)

    def _count_refused(self, error: errors.PylogError) -> None:
        with self._lock:
            self._loop.metrics.record_refused()
        if self._transactions is not None:
            self._transactions.refused(error)

    def _was_counted(self, batch: Batch, index: int) -> bool:
        """Whether a record that was added while somebody closed the batch is in it."""
        with self._lock:
            batch.room = -1  # `send` may have written over what `close` wrote
            return index < batch.count

    def _send(
        self,
        topic: str,
        value: Any,
        key: Any,
        headers: Iterable[tuple[str, Any]] | Mapping[str, Any] | None,
        partition: int | None,
        timestamp_ms: int | None,
        on_delivery: OnDelivery | None,
    ) -> DeliveryHandle:
        buffer = self._topics.get(topic)
        if buffer is None or self._closed:
            buffer = self._topic_buffer(topic)
        user = self._user
        size = RECORD_OVERHEAD
        if key is not None or user.serialize_key is not None:
            key = serialized(user.serialize_key, topic, key, "key")
            size += len(key or b"")
        if type(value) is not bytes or user.serialize_value is not None:
            value = serialized(user.serialize_value, topic, value, "value")
        size += len(value or b"")
        pairs: HeaderList | None = None
        if headers:
            pairs = header_list(headers, topic)
            size += record_size(pairs)
        if on_delivery is not None and not callable(on_delivery):
            raise errors.InvalidRequest(
                f"topic {topic}: on_delivery={on_delivery!r}; it must be a callable (metadata, "
                f"error)"
            )
        if size >= self._size_max:
            self._check_size(topic, size)
        if partition is None and user.place is not None:
            partitions = TopicPartitions(buffer.partitions, self._loop.available(topic))
            partition = user.place(topic, key, value, partitions)
        if partition is not None:
            partition = self._check_partition(buffer, partition)
        stamp = wall_ns() if timestamp_ms is None else stamp_of(topic, timestamp_ms)
        try:
            with self._lock:
                if buffer.owner != get_ident():
                    self._accumulator.claim(buffer, get_ident())
                if partition is None and key is not None and not self._ignore_keys:
                    partition = buffer.partition_of(key)
                batch = buffer.open.get(buffer.sticky.current if partition is None else partition)
                if batch is None or batch.room < size:
                    batch = self._open_batch(buffer, partition, size)
                index = batch.add(value, key, pairs, stamp, size)
                if user.interceptors is not None:
                    batch.delivery.on_delivery(index, user.interceptors.on_acknowledgement)
                if on_delivery is not None:
                    batch.delivery.on_delivery(index, on_delivery)
            if self._at_hand.batch is batch:
                self._at_hand.send(batch)
        except BaseException as error:
            self._at_hand.failed(error)
            raise
        return handle_on(batch.delivery, index)

    def _open_batch(self, buffer: TopicBuffer, partition: int | None, size: int) -> Batch:
        """A batch with room for the record, in any partition if none is asked for.

        The lock is held, and given up while waiting for memory.
        """
        accumulator = self._accumulator
        while True:
            if self._transactions is not None:
                self._transactions.check_open()
            number = buffer.sticky.current if partition is None else partition
            batch = buffer.open.get(number)
            if batch is None:
                self._wait_for_room(buffer, number, size, size)
                batch = buffer.open.get(number)
            if batch is None:
                buffer.opened_by(get_ident())
                wanted = accumulator.open_batch(self._clock.monotonic_ms(), buffer, number, size)
                batch = buffer.open[number]
                if wanted:
                    self._at_hand.opened(batch, alone=buffer.owner == get_ident())
                return batch
            if batch.room >= size:
                return batch  # another thread's
            # It is full. While nothing can be sent, it takes more; else it is closed, and due with
            # that, and keyless records go on to another partition.
            if not self._loop.sender.dispatcher.may_grow(
                self._clock.monotonic_ms(), batch.topic_partition
            ) or not (accumulator.extend_batch(buffer, batch)):
                accumulator.close_batch(buffer, number)
                if partition is None and buffer.sticky.current == number:
                    accumulator.advance_sticky(buffer)
            self._loop.filled(batch)

    def send_arrow(
        self, topic: str, data: pa.RecordBatch | pa.Table, *, partition: int | None = None
    ) -> Future[list[RecordMetadata]]:
        """Send every row; a Future of one RecordMetadata per record batch written, which names
        its partition, its first offset and its first timestamp (rows are not looked at one by one).

        Columns: `value` (binary or string), and optionally `key`, `headers`
        (`list<struct<key: string, value: binary>>`), `partition` (int) and `timestamp` (timestamp,
        or int milliseconds). Rows with a key go where `send` would put them; rows without one stay
        together, a batch of them in a partition. The rows of each partition are stored in the order
        that they have in `data`. Blocks as `send` does when the buffer is full. Serializers,
        partitioner and interceptors are not asked. The Future fails with the first error; other
        batches may have been written all the same.
        """
        from pylog.client.producer.arrow import arrow_batch_size, encode_rows, highest_partition

        buffer = self._topic_buffer(topic)
        if partition is not None:
            partition = self._check_partition(buffer, partition)
        highest = highest_partition(data)
        if highest >= buffer.partitions:
            self._check_partition(buffer, highest)
        handles = []
        for number, encoded in encode_rows(
            topic,
            data,
            partitions=buffer.partitions,
            partition=partition,
            ignore_keys=self._ignore_keys,
            stick=lambda: self._stick(buffer),
            batch_size=arrow_batch_size(
                self._accumulator.batch_size, self._max_request_size, self._buffer_memory
            ),
            compression=self._loop.compression,
            now_ms=self._clock.wall_ms(),
            stamped_later=self._loop.sender.settings.idempotent,
            transactional=self._transactions is not None,
        ):
            self._check_size(topic, len(encoded))
            handles.append(self._add_encoded(buffer, number, encoded))
        return gather(handles)

    def _stick(self, buffer: TopicBuffer) -> int:
        """The partition that a batch of keyless rows goes to; the next one goes to another."""
        with self._lock:
            number = buffer.sticky.current
            self._accumulator.advance_sticky(buffer)
        return number

    def _add_encoded(
        self, buffer: TopicBuffer, partition: int | None, encoded: bytes
    ) -> DeliveryHandle:
        header = read_header(encoded)
        with self._lock:
            number = buffer.sticky.current if partition is None else partition
            self._wait_for_room(buffer, number, len(encoded), None)
            if self._transactions is not None:
                self._transactions.check_open()
            batch = self._accumulator.add_encoded(
                self._clock.monotonic_ms(),
                TopicPartition(buffer.name, number),
                encoded,
                header.record_count,
                header.base_timestamp,
            )
            if partition is None:
                self._accumulator.advance_sticky(buffer)
            self._loop.wake()
        return handle_on(batch.delivery, 0)

    def _wait_for_room(
        self, buffer: TopicBuffer, partition: int, size: int, open_size: int | None
    ) -> None:
        """Return once buffer.memory takes another batch, or (with `open_size`) another thread has
        opened one that takes a record of that size. The lock is held, but for the waiting.
        """
        started: int | None = None
        while True:
            if self._closed:
                raise self._thread.closed("the producer")
            batch = buffer.open.get(partition) if open_size is not None else None
            fits = batch is not None and batch.room >= (open_size or 0)
            if fits or self._accumulator.has_room(size):
                if started is not None:
                    waited_ms = self._clock.monotonic_ms() - started
                    self._loop.metrics.waited_for_room(waited_ms, in_vain=False)
                return
            now_ms = self._clock.monotonic_ms()
            started = started if started is not None else now_ms
            left_ms = started + self._max_block_ms - now_ms
            if left_ms <= 0 or self._thread.is_current():
                self._loop.metrics.waited_for_room(now_ms - started, in_vain=True)
                raise errors.BufferExhausted(
                    f"{buffer.name}-{partition}: buffer_memory={self._buffer_memory} "
                    f"is full of unacknowledged records and stayed so for max_block_ms="
                    f"{self._max_block_ms}; send slower, raise either, or look at the brokers"
                )
            if self._accumulator.only_open:
                self._accumulator.mark_all_due()  # else memory comes back without
            self._loop.wake()
            with kept_waiting(self._look_for_room):
                self._loop.room.wait(left_ms / 1000)

    def _look_for_room(self) -> None:
        with self._lock:
            self._loop.room.notify_all()

    def _may_block(self, topic: str, partition: int | None = None) -> bool:
        """Whether a `send` of a record that fits into a batch might have to wait: for the topic's
        metadata, or for room. For those who must not wait on this thread.
        """
        buffer = self._topics.get(topic) if isinstance(topic, str) else None
        if buffer is None:
            return not self._closed
        if partition is not None and partition >= buffer.partitions:
            return True  # it will ask whether the topic has grown
        return not self._accumulator.has_room(self._max_request_size)

    def _topic_buffer(self, topic: str) -> TopicBuffer:
        """The topic's buffer, once the cluster told how many partitions it has."""
        if self._closed:
            raise self._thread.closed("the producer")
        known = self._topics.get(topic) if isinstance(topic, str) else None
        if known is not None:
            return known
        check_topic(topic)
        info = self._thread.run(self._loop.cluster.topic(topic, self._max_block_ms))
        with self._lock:
            buffer = self._accumulator.topic(topic, len(info.partitions))
            self._straight[topic] = buffer if self._user.is_nothing else None
            return buffer

    def _check_partition(self, buffer: TopicBuffer, partition: int) -> int:
        number = partition if type(partition) is int else whole_or_none(partition, 0)
        if number is not None and 0 <= number < buffer.partitions:
            return number
        if number is not None and number >= 0:
            # Perhaps the topic has grown: ask once.
            self._thread.run(self._refresh_once(buffer.name))
            if number < buffer.partitions:
                return number
        raise errors.UnknownTopicOrPartition(
            f"topic {buffer.name} has partitions 0 to {buffer.partitions - 1}; there is no "
            f"partition {partition!r}"
        )

    async def _refresh_once(self, topic: str) -> None:
        cluster = self._loop.cluster
        try:
            async with asyncio.timeout(self._max_block_ms / 1000):
                await cluster.refresh(topic)
        except TimeoutError:
            raise cluster.unreachable(self._max_block_ms) from None

    def _check_size(self, topic: str, size: int) -> None:
        if size > self._max_request_size:
            raise errors.MessageTooLarge(
                f"topic {topic}: the record takes up to {size} bytes; max_request_size is "
                f"{self._max_request_size}. Raise it, and the topic's max.message.bytes with it"
            )
        if size + BATCH_OVERHEAD > self._buffer_memory:
            raise errors.MessageTooLarge(
                f"topic {topic}: the record takes up to {size} bytes; buffer_memory is "
                f"{self._buffer_memory}, batch header included. Raise it"
            )

    # ---- transactions -------------------------------------------------------------------------

    def init_transactions(self, keep_prepared_txn: bool = False) -> None:
        """Once, before the first transaction: fence earlier producers of the `transactional_id`,
        and abort what they left open. With `keep_prepared_txn` what they have prepared stays, to be
        completed.

        This and the calls below wait up to `max_block_ms`, and raise RequestTimedOut then: the call
        goes on, and is made again to wait for its end. An error that is `abortable` asks for
        `abort_transaction()`, after which the producer goes on; after one that is `fatal`, such as
        ProducerFenced, only `close()` is left.
        """
        self._of_transactions().init(keep_prepared=keep_prepared_txn)

    def begin_transaction(self) -> None:
        """Open a transaction: what is sent from now on belongs to it."""
        self._of_transactions().begin()

    def send_offsets_to_transaction(
        self,
        offsets: Mapping[TopicPartition, int | OffsetAndMetadata],
        group_metadata: ConsumerGroupMetadata,
    ) -> None:
        """Commit these offsets, of the next record to read of each partition, for a consumer's
        group if the transaction is committed, and then only. `group_metadata` is what
        `consumer.group_metadata()` says: a member that the group has gone on without is refused,
        by CommitFailed as the cause of an abortable error.
        """
        self._of_transactions().send_offsets(offsets, group_metadata)

    def prepare_transaction(self) -> PreparedTransaction:
        """Have everything that was sent stored, for somebody else to decide about (KIP-939). Keep
        what this returns, or its text, with the decision: `complete_transaction` compares it.
        """
        return self._of_transactions().prepare()

    def complete_transaction(self, state: PreparedTransaction | str) -> None:
        """Commit the prepared transaction if it is this one, else abort it."""
        self._of_transactions().complete(state)

    def commit_transaction(self) -> None:
        """All of the transaction counts, once all of it is stored. Returns when that is decided;
        readers of committed records see it a moment later.
        """
        self._of_transactions().commit()

    def abort_transaction(self) -> None:
        """None of the transaction counts. Records that are not on their way fail by
        TransactionAborted.
        """
        self._of_transactions().abort()

    def transaction(self) -> TransactionScope:
        """`with producer.transaction():` commits at the end of the block; aborts if it raises."""
        self._of_transactions()
        return TransactionScope(self)

    def _of_transactions(self) -> TransactionUse:
        if self._transactions is None:
            raise errors.InvalidTxnState(f"the producer has no transactional id: {NO_ID}")
        if self._closed:
            raise self._thread.closed("the producer")
        return self._transactions

    # ---- waiting ------------------------------------------------------------------------------

    def flush(self, timeout: float | None = None) -> None:
        """Return when everything sent before is acknowledged or failed, and its callbacks have run;
        RequestTimedOut after `timeout` seconds. The handle of a failed record has its error;
        `flush` raises none of them.
        """
        self._thread.check_here("the producer")
        if self._thread.ended:
            return  # the end of the program has closed the producer
        if self._thread.is_current():
            raise errors.WrongThread("flush() inside a callback would wait for its own thread")
        limit_s = seconds_or_none(timeout)
        with self._lock:
            batches = list(self._accumulator.incomplete)
            self._accumulator.mark_all_due()
            self._loop.wake()
        deadline = None if limit_s is None else self._clock.monotonic_ms() + int(limit_s * 1000)
        for i, batch in enumerate(batches):
            left = None if deadline is None else (deadline - self._clock.monotonic_ms()) / 1000
            if not batch.delivery.wait(left):
                waiting = [b for b in batches[i:] if not b.delivery.done]
                raise errors.RequestTimedOut(
                    f"flush: {sum(b.count for b in waiting)} records in {len(waiting)} batches "
                    f"are not acknowledged after {timeout} s, the first in "
                    f"{batch.topic_partition}"
                )
        # A batch is done before the loop runs its callbacks; what the loop is told now comes later.
        told = threading.Event()
        self._thread.call(told.set)
        left = None if deadline is None else (deadline - self._clock.monotonic_ms()) / 1000
        if not told.wait(left) and limit_s:  # without any time it only looks
            raise errors.RequestTimedOut(f"flush: callbacks have not ended after {timeout} s")

    def partitions_for(self, topic: str) -> list[int]:
        """The topic's partition numbers."""
        return list(range(self._topic_buffer(topic).partitions))

    def refresh(self, topic: str) -> None:
        """Look the topic up anew, for a caller that keeps a producer idle over times in which a
        topic may grow, or be deleted and created again. Raises UnknownTopicOrPartition and
        BootstrapFailed.
        """
        self._topic_buffer(topic)
        self._thread.run(self._refresh_once(topic))
        self._thread.run(self._loop.cluster.topic(topic, self._max_block_ms))

    def metrics(self) -> dict[str, float]:
        """Totals since the start, rates and averages of the last half to full minute, and present
        levels, under Kafka's names where it has them. Averages of nothing are NaN.
        """
        counted = self._loop.metrics.read(self._clock.monotonic_ms())
        if self._transactions is not None:
            counted.update(self._transactions.times_ns)
        with self._lock:
            return {
                **counted,
                "batches-incomplete": len(self._accumulator.incomplete),
                "requests-in-flight": self._loop.sender.pipes.requests,
                "buffer-total-bytes": self._buffer_memory,
                "buffer-available-bytes": self._buffer_memory - self._accumulator.used,
            }

    def close(self, timeout: float | None = None) -> None:
        """Send what is buffered, wait up to `timeout` seconds (None: until `delivery_timeout_ms`
        settles it), fail the rest with ClientClosed, and let go of connections. An open transaction
        is aborted.
        """
        if self._closed:
            return
        limit_s = seconds_or_none(timeout)
        try:
            if not self._thread.is_current():
                if self._transactions is not None:
                    self._transactions.close(limit_s)
                self.flush(limit_s)
        except errors.RequestTimedOut as error:
            logger.warning("producer closed with records outstanding: %s", error)
        finally:
            with self._lock:
                self._closed = True
                self._straight.clear()
            closing = self._thread.start(self._loop.shut_down())
            if not self._thread.is_current():
                closing.result()
            if self._user.interceptors is not None:
                self._user.interceptors.close()

    def _on_fork(self) -> None:
        """In a forked child: what is sent here would reach nobody."""
        self._closed = True
        self._straight.clear()

    def _close_at_exit(self) -> None:
        """The interpreter ends without a `close()`: a last moment for what is buffered."""
        self.close(timeout=1.0)
