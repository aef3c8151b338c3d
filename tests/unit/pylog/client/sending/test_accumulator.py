from __future__ import annotations

import itertools
from collections.abc import Iterator

from pylog.client.sending.accumulator import (
    OWN_AFTER_BATCHES,
    SEVERAL,
    Accumulator,
    AccumulatorSettings,
)
from pylog.client.sending.producer_batch import Batch
from pylog.model import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def accumulator(
    *,
    batch_size: int = 1_000,
    linger_ms: int = 10,
    buffer_memory: int = 10_000,
    batch_max_size: int = 0,
    available: list[int] | None = None,
) -> Accumulator:
    numbers = itertools.count()
    made = Accumulator(
        AccumulatorSettings(batch_size, batch_max_size or batch_size, linger_ms, buffer_memory),
        make_delivery=lambda: next(numbers),
        available=lambda _topic: [0, 1, 2] if available is None else available,
        draw=lambda _count: 0,
    )
    made.topic("t", 3)
    return made


def add(acc: Accumulator, now_ms: int, partition: int = 0, size: int = 100) -> Batch:
    buffer = acc.topics["t"]
    batch = buffer.open.get(partition)
    if batch is None or batch.room < size:
        acc.open_batch(now_ms, buffer, partition, size)
        batch = buffer.open[partition]
    batch.add(b"v", None, None, now_ms, size)
    return batch


def test_records_share_a_batch_until_it_is_full() -> None:
    acc = accumulator()
    batches = [add(acc, 0) for _ in range(12)]
    assert [b is batches[0] for b in batches] == [True] * 9 + [False] * 3
    assert acc.due() == [T0]  # the full one, before any linger
    assert acc.take(T0, 0) is batches[0]
    assert acc.due() == []


def test_a_batch_is_due_after_its_linger_and_not_before() -> None:
    acc = accumulator(linger_ms=10)
    add(acc, 5)
    acc.mark_lingered(14)
    assert acc.due() == []
    assert acc.next_linger_ms == 15
    acc.mark_lingered(15)
    assert acc.due() == [T0]
    assert acc.next_linger_ms is None


def test_without_linger_a_batch_is_due_at_once_and_grows_until_taken() -> None:
    acc = accumulator(linger_ms=0)
    first = add(acc, 0)
    assert acc.due() == [T0]
    assert add(acc, 0) is first
    assert acc.take(T0, 0).count == 2
    assert add(acc, 0) is not first


def test_who_must_be_woken() -> None:
    acc = accumulator(linger_ms=10)
    buffer = acc.topics["t"]
    assert acc.open_batch(0, buffer, 0, 100)  # the first lingering batch: a timer is needed
    assert not acc.open_batch(1, buffer, 1, 100)  # the timer for the first will do
    assert acc.open_batch(1, buffer, 1, 100)  # the full one before it is due
    assert acc.open_batch(1, buffer, 2, 1_000)  # as large as a batch: due at once


def test_memory_is_reserved_by_the_batch_and_given_back_when_it_is_resolved() -> None:
    acc = accumulator(batch_size=1_000, buffer_memory=2_500)
    first = add(acc, 0)
    add(acc, 0, partition=1)
    assert acc.used == 2_000
    assert not acc.has_room(100)
    acc.resolve(first)
    assert acc.used == 1_000
    assert acc.has_room(100)
    assert not acc.has_room(2_000)  # a record larger than a batch reserves its own size


def test_waiters_for_room_are_woken_for_much_of_it_or_when_no_more_will_come() -> None:
    acc = accumulator(batch_size=1_000, buffer_memory=8_000)
    for partition in (0, 0, 0, 0, 0, 0, 1, 2):
        add(acc, 0, partition, 900)
    assert not acc.has_room(100)
    batches = [batch for batch in acc.queued() if batch.topic_partition == T0]
    acc.resolve(batches[0])
    assert not acc.room_is_worth_waking  # an eighth, and more is on its way
    acc.resolve(batches[1])
    assert acc.room_is_worth_waking

    acc = accumulator(batch_size=1_000, buffer_memory=3_000)
    for partition in range(3):
        add(acc, 0, partition)
    assert acc.only_open
    assert acc.room_is_worth_waking  # nothing is on its way: somebody must cut the lingering ones
    acc.close_batch(acc.topics["t"], 0)
    assert not acc.only_open


def test_keyless_records_move_on_by_whole_batches_over_what_has_a_leader() -> None:
    acc = accumulator(linger_ms=0, available=[0, 2])
    seen = []
    for _ in range(5):
        partition = acc.topics["t"].sticky.current
        seen.append(partition)
        for _ in range(11):  # a hundred bytes each, batches of a thousand
            add(acc, 0, partition)
        acc.take(TopicPartition("t", partition), 0)
        acc.take(TopicPartition("t", partition), 0)
    assert seen == [0, 2, 0, 2, 0]


def test_keyless_records_stay_until_a_batch_size_of_bytes_went_there() -> None:
    acc = accumulator(linger_ms=0)
    seen = []
    for _ in range(25):
        partition = acc.topics["t"].sticky.current
        seen.append(partition)
        add(acc, 0, partition)
        acc.take(TopicPartition("t", partition), 0)
    assert seen == [0] * 7 + [1] * 7 + [2] * 7 + [0] * 4  # 161 bytes each, with the header


def test_keyless_records_leave_a_partition_that_lost_its_leader() -> None:
    available = [0, 1, 2]
    acc = accumulator(available=available)
    buffer = acc.topics["t"]
    waiting = add(acc, 0)
    available[:] = [1, 2]
    acc.leaders_changed()
    assert (buffer.sticky.current, buffer.current) == (1, None)
    assert not waiting.closed
    acc.leaders_changed()
    assert buffer.sticky.current == 1
    available.clear()
    acc.leaders_changed()
    assert buffer.sticky.current == 1  # anywhere is as good


def test_with_no_leader_at_all_keyless_records_still_have_a_place() -> None:
    acc = accumulator(available=[])
    assert acc.topics["t"].sticky.current == 0


def test_a_flush_makes_everything_due() -> None:
    acc = accumulator(linger_ms=60_000)
    for _ in range(12):
        add(acc, 0)
    add(acc, 0, partition=1)
    acc.mark_all_due()
    assert acc.due() == [T0, T1]
    assert acc.take(T0, 0).count == 9
    assert acc.due() == [T1, T0]  # the batch behind it as well
    assert acc.take(T0, 0).count == 3


def test_a_partition_that_was_served_goes_to_the_end() -> None:
    acc = accumulator(linger_ms=0)
    for _ in range(15):
        add(acc, 0)
    add(acc, 0, partition=1)
    acc.take(T0, 0)
    assert acc.due() == [T1, T0]


def test_a_young_open_batch_behind_a_full_one_still_lingers() -> None:
    acc = accumulator(linger_ms=10)
    for _ in range(10):
        add(acc, 0)
    acc.take(T0, 5)
    assert acc.due() == []
    acc.mark_lingered(10)
    assert acc.due() == [T0]


def test_keys_and_headers_begin_with_the_first_record_that_has_some() -> None:
    batch = Batch(T0, 0, None, 1_000)
    batch.add(b"a", None, None, 1, 10)
    batch.add(b"b", b"k", [("h", None)], 2, 10)
    batch.add(None, None, None, 3, 10)
    batch.close()
    values, keys, headers = batch.columns()
    assert keys == [None, b"k", None]
    assert headers == [None, [("h", None)], None]
    assert values == [b"a", b"b", None]


def test_what_was_added_too_late_or_in_part_is_not_in_the_columns() -> None:
    batch = Batch(T0, 0, None, 1_000)
    batch.add(b"a", b"a", [("h", b"a")], 1, 10)
    for column in (batch.keys, batch.headers):
        assert column is not None
        column.append(b"interrupted before its value came")  # type: ignore[arg-type]
    batch.trim()
    batch.add(b"b", None, None, 2, 10)
    batch.add(b"c", b"c", None, 3, 10)
    batch.close()
    assert batch.keys is not None
    batch.keys.append(b"late")
    batch.values.append(b"late")
    assert batch.columns() == ([b"a", b"b", b"c"], [b"a", None, b"c"], [[("h", b"a")], None, None])


def test_encoded_batches_keep_the_order_of_records_before_and_after() -> None:
    acc = accumulator(linger_ms=60_000)
    before = add(acc, 0)
    encoded = acc.add_encoded(0, T0, b"x" * 500, 7, 99)
    after = add(acc, 0)
    acc.mark_all_due()
    assert [acc.take(T0, 0) for _ in range(3)] == [before, encoded, after]
    assert (encoded.count, encoded.times[0]) == (7, 99)


def test_a_dropped_batch_leaves_its_queue() -> None:
    acc = accumulator(linger_ms=0)
    batch = add(acc, 0)
    acc.drop(batch)
    acc.resolve(batch)
    assert acc.due() == []
    assert add(acc, 0) is not batch
    assert list(acc.queued()) == [acc.peek(T0)]


def test_keys_are_placed_anew_when_the_topic_grows() -> None:
    acc = accumulator()
    buffer = acc.topics["t"]
    # Vectors of Apache Kafka: murmur2 masked to positive, modulo 6.
    acc.topic("t", 6)
    assert [buffer.partition_of(k) for k in (b"21", b"foobar", b"abc")] == [0, 0, 3]
    assert buffer.partition_of(b"abc") == 3


def test_a_full_batch_is_extended_within_its_limits_and_due() -> None:
    acc = accumulator(linger_ms=60_000, batch_max_size=3_000)
    buffer = acc.topics["t"]
    batch = add(acc, 0, size=900)
    assert acc.extend_batch(buffer, batch)
    assert (batch.limit, acc.used) == (2_000, 2_000)
    assert acc.due() == [T0]
    assert acc.extend_batch(buffer, batch)
    assert (batch.limit, acc.used) == (3_000, 3_000)
    assert not acc.extend_batch(buffer, batch)
    acc.take(T0, 0)
    acc.resolve(batch)
    assert acc.used == 0


def test_a_batch_is_not_extended_beyond_the_buffer_nor_where_a_broker_refused_one() -> None:
    acc = accumulator(batch_max_size=9_000, buffer_memory=1_500)
    buffer = acc.topics["t"]
    assert not acc.extend_batch(buffer, add(acc, 0))
    acc = accumulator(batch_max_size=9_000)
    acc.topics["t"].grows = False
    assert not acc.extend_batch(acc.topics["t"], add(acc, 0))


def test_the_topics_open_batches_take_no_more_when_a_second_thread_comes() -> None:
    acc = accumulator()
    buffer = acc.topics["t"]
    acc.claim(buffer, 11)
    assert buffer.owner == 11
    batch = add(acc, 0)
    assert buffer.current is batch
    acc.claim(buffer, 11)
    assert not batch.closed
    acc.claim(buffer, 12)
    assert (buffer.owner, batch.closed, buffer.current) == (SEVERAL, True, None)
    add(acc, 0)
    acc.claim(buffer, 13)
    assert not buffer.open[0].closed  # nobody adds without the lock any more


def test_a_thread_that_alone_opens_batch_after_batch_becomes_the_owner_again() -> None:
    acc = accumulator()
    buffer = acc.topics["t"]
    acc.claim(buffer, 11)
    acc.claim(buffer, 12)
    for _ in range(OWN_AFTER_BATCHES):
        buffer.opened_by(12)
    assert buffer.owner == SEVERAL or buffer.owner == 12
    buffer.opened_by(12)
    assert buffer.owner == 12
    acc.claim(buffer, 11)
    buffer.opened_by(11)
    buffer.opened_by(12)
    for _ in range(OWN_AFTER_BATCHES - 1):
        buffer.opened_by(12)
    assert buffer.owner == SEVERAL


def test_a_record_added_while_the_batch_is_being_closed_is_in_it_or_known_not_to_be() -> None:
    """Every place at which the lock-free adding of `Producer.send` may be interrupted."""

    def adding(batch: Batch, told: list[bool]) -> Iterator[None]:
        values = batch.values
        yield
        room = batch.room - 50
        yield
        if room < 0:
            return
        index = len(values)
        yield
        batch.times.begin(index, 10**9 * index)
        yield
        values.append(b"late")
        yield
        batch.room = room
        yield
        told.append(not batch.closed or index < batch.count)

    for place in range(7):
        batch = Batch(T0, 0, None, 1_000)
        batch.add(b"a", None, None, 1, 50)
        told: list[bool] = []
        steps = adding(batch, told)
        for _ in range(place):
            next(steps)
        batch.close()
        taken = batch.columns()[0]
        if place % 2:
            batch.forget_records()
        for _ in steps:
            pass
        assert told == ([] if place < 2 else [b"late" in taken])
        assert batch.count == len(taken)
        assert batch.size >= 61 + 50


def test_replaced_batches_keep_their_age_and_memory() -> None:
    acc = accumulator(batch_size=1_000, linger_ms=0)
    old, young = add(acc, 0), add(acc, 5, partition=1)
    acc.take(T0, 5)
    parts = [Batch(T0, 0, None, 500), Batch(T0, 0, None, 500)]
    acc.replace(old, parts)
    assert list(acc.incomplete) == [*parts, young]
    for part in parts:
        acc.resolve(part)
    acc.resolve(young)
    assert acc.used == 0


def test_what_is_due_stays_due_when_the_batch_before_it_is_taken() -> None:
    """The taker may have looked at the clock before the batch was begun; and a large one waits for
    no time at all.
    """
    acc = accumulator(linger_ms=0)
    first = add(acc, 5, size=800)
    second = add(acc, 6, size=800)
    assert acc.take(T0, 5) is first
    assert acc.due() == [T0]
    assert acc.take(T0, 5) is second
    acc = accumulator(linger_ms=10)
    first = add(acc, 5)
    large = add(acc, 5, size=2_000)
    assert acc.take(T0, 5) is first
    assert acc.due() == [T0]
    assert acc.take(T0, 5) is large
    assert acc.due() == []


def test_a_full_batch_that_grows_stays_due_when_the_one_before_it_is_taken() -> None:
    acc = accumulator(linger_ms=10, batch_max_size=4_000)
    first = add(acc, 5, size=800)
    second = add(acc, 5, size=800)
    assert acc.extend_batch(acc.topics["t"], second)
    assert acc.take(T0, 5) is first
    assert acc.due() == [T0]
    assert acc.take(T0, 5) is second


def test_a_young_batch_is_not_due_because_the_one_before_it_is_taken() -> None:
    acc = accumulator(linger_ms=10)
    first = add(acc, 5, size=800)
    add(acc, 5, size=800)
    assert acc.take(T0, 5) is first
    assert acc.due() == []
    acc.mark_lingered(15)
    assert acc.due() == [T0]
