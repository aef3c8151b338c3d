from __future__ import annotations

import threading
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from pylog import errors
from pylog.client.background import on_loop_thread, shared_loop
from pylog.client.producer.delivery import Delivery, handle_on
from pylog.client.producer.interceptors import Interceptors
from pylog.client.sending.record_times import RecordTimes
from pylog.model import RecordMetadata, TopicPartition

TP = TopicPartition("t", 3)


def times_of(*timestamps: int) -> RecordTimes:
    times = RecordTimes()
    for index, timestamp in enumerate(timestamps):
        times.give(index, timestamp)
    return times


def test_each_record_has_its_own_offset_and_timestamp() -> None:
    delivery = Delivery()
    handles = [handle_on(delivery, i) for i in range(2)]
    assert not handles[0].done()
    delivery.succeed(TP, 10, -1, times_of(5, 6))
    assert [h.result() for h in handles] == [
        RecordMetadata("t", 3, 10, 5),
        RecordMetadata("t", 3, 11, 6),
    ]
    assert handles[0].exception() is None


def test_the_brokers_time_counts_where_it_gives_one() -> None:
    delivery = Delivery()
    delivery.succeed(TP, 10, 99, times_of(5, 6))
    assert handle_on(delivery, 1).result() == RecordMetadata("t", 3, 11, 99)


def test_without_acknowledgement_there_is_no_offset() -> None:
    delivery = Delivery()
    delivery.succeed(TP, -1, -1, times_of(5, 6))
    assert handle_on(delivery, 1).result().offset == -1


def test_a_result_that_does_not_come_in_time() -> None:
    with pytest.raises(TimeoutError, match="neither acknowledged nor failed in 0"):
        handle_on(Delivery(), 0).result(0)


def test_waiters_in_other_threads_are_woken() -> None:
    delivery = Delivery()
    got: list[Any] = []
    threads = [
        threading.Thread(target=lambda i=i: got.append(handle_on(delivery, i).result(5)))
        for i in range(3)
    ]
    for thread in threads:
        thread.start()
    delivery.succeed(TP, 0, -1, times_of(1, 1, 1))
    for thread in threads:
        thread.join(5)
    assert sorted(m.offset for m in got) == [0, 1, 2]


def test_only_the_guilty_record_gets_the_brokers_error() -> None:
    delivery = Delivery()
    delivery.fail(errors.InvalidRecord("the key is missing"), 1)
    assert str(handle_on(delivery, 1).exception()) == "the key is missing"
    other = handle_on(delivery, 0).exception()
    assert isinstance(other, errors.InvalidRecord)
    assert "another record of the same batch" in str(other)


def test_callbacks_run_once_in_the_order_of_the_records() -> None:
    delivery = Delivery()
    told: list[tuple[int, Any, Any]] = []
    for i in range(3):
        delivery.on_delivery(i, lambda m, e, i=i: told.append((i, m, e)))
    delivery.succeed(TP, 7, -1, times_of(1, 2, 3))
    assert [(i, m.offset, e) for i, m, e in told] == [(0, 7, None), (1, 8, None), (2, 9, None)]


def test_a_callback_that_comes_after_the_outcome_runs_on_pylogs_thread() -> None:
    told: list[Any] = []
    over = threading.Event()
    delivery = Delivery()
    delivery.succeed(TP, 10, 99, times_of(5))

    def on_delivery(metadata: Any, error: Any) -> None:
        told.append((metadata, error, on_loop_thread()))
        over.set()

    delivery.on_delivery(0, on_delivery)
    assert over.wait(10)
    assert told == [(RecordMetadata("t", 3, 10, 99), None, True)]


def test_a_failing_callback_does_not_stop_the_others(caplog: pytest.LogCaptureFixture) -> None:
    delivery = Delivery()
    told: list[object] = []
    handle = handle_on(delivery, 0)
    handle.add_done_callback(lambda _h: 1 / 0)
    handle.add_done_callback(told.append)
    delivery.fail(errors.DeliveryTimedOut("late"), -1)
    handle.add_done_callback(told.append)  # done already: at once
    assert told == [handle, handle]
    assert "a delivery callback raised" in caplog.text


@pytest.mark.parametrize("ends", [SystemExit, KeyboardInterrupt])
def test_a_callback_that_ends_the_program_does_not_end_pylogs_thread(
    ends: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    """The loop would stop without a word, and every client of the process would wait for ever."""
    delivery = Delivery()
    told: list[object] = []

    def leave(*_: object) -> None:
        raise ends

    delivery.on_delivery(0, leave)
    delivery.on_delivery(1, lambda *_: told.append(1))
    handle = handle_on(delivery, 0)
    handle.add_done_callback(leave)
    handle.add_done_callback(told.append)
    interceptors = Interceptors([SimpleNamespace(on_acknowledgement=leave)])
    thread = shared_loop()
    for step in (
        partial(delivery.succeed, TP, 0, -1, times_of(1, 2)),
        partial(interceptors.on_acknowledgement, None, None),
    ):
        over = threading.Event()
        thread.call(step)
        thread.call(over.set)
        assert over.wait(10)
    assert sorted(map(str, told)) == sorted(map(str, [1, handle]))
    assert caplog.text.count("a delivery callback raised") == 2
    assert "on_acknowledgement raised" in caplog.text

    with pytest.raises(ends):  # on the user's own thread it ends the program
        handle.add_done_callback(leave)


def test_a_real_future() -> None:
    delivery = Delivery()
    future = handle_on(delivery, 0).as_future()
    assert not future.done()
    delivery.succeed(TP, 0, -1, times_of(1))
    assert future.result(1).offset == 0
    failed = Delivery()
    failed.fail(errors.MessageTooLarge("too large"), -1)
    with pytest.raises(errors.MessageTooLarge):
        handle_on(failed, 0).as_future().result(1)
