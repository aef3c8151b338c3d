"""A batch that its own thread sends: as the sender would, or not at all."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pylog import errors
from pylog.client.sending.producer_batch import Batch
from pylog.client.sending.send_events import BatchDone, SendRequest
from pylog.client.sending.send_settings import SenderSettings
from tests.fakes.interrupted import interrupt_everywhere
from tests.fakes.sender_world import OK, T0, T1, T2, World, begun, opened, refused, sequences


def take(world: World, batch: Batch, broker: int = 1) -> SendRequest | None:
    return world.alone.take(world.now_ms, batch, broker)


def test_it_is_the_request_that_a_poll_would_make() -> None:
    world, twin = begun(), begun()
    batch = opened(world)
    request = take(world, batch)
    assert request is not None
    opened(twin)
    [expected] = twin.poll()
    assert isinstance(expected, SendRequest)
    assert (request.broker, request.correlation) == (expected.broker, expected.correlation)
    for name in ("base_sequence", "producer_id", "attempts", "in_flight", "closed", "leader_epoch"):
        assert getattr(batch, name) == getattr(expected.batches[0], name), name
    assert world.alone.request == request
    assert world.poll() == []
    [done] = world.acks(1, request.correlation, OK)
    assert done == BatchDone(batch, 0, -1)
    assert world.accumulator.used == 0


def _another_is_due(world: World) -> None:
    world.add(T2)


def _one_is_refused(world: World) -> None:
    world.add(T1)
    [request] = world.poll()
    assert isinstance(request, SendRequest)
    world.acks(2, request.correlation, refused(errors.NotLeaderOrFollower))


def _its_leader_moved(world: World) -> None:
    world.lead(3, 2, 1, epoch=1)


def _its_topic_is_another(world: World) -> None:
    world.lead(1, 2, 1, topic_id="new")


def _the_broker_has_all_it_may_have(world: World) -> None:
    for _ in range(5):
        world.add(T0)
        world.poll()


def _the_stream_broke(world: World) -> None:
    world.sender.on_disconnected(world.now_ms, 1, "by the test")


@pytest.mark.parametrize(
    "spoil",
    [
        _another_is_due,
        _one_is_refused,
        _its_leader_moved,
        _its_topic_is_another,
        _the_broker_has_all_it_may_have,
        _the_stream_broke,
    ],
)
def test_anything_unusual_is_left_to_the_loop(spoil: Callable[[World], None]) -> None:
    world = begun()
    spoil(world)
    batch = opened(world)
    assert take(world, batch) is None
    assert not batch.closed
    assert batch.base_sequence == -1


def test_the_first_batch_of_a_partition_is_left_to_the_loop() -> None:
    world = World()
    assert take(world, opened(world)) is None


def test_without_acks_the_loop_tells_what_became_of_it() -> None:
    world = begun(SenderSettings(acks=0, idempotent=False))
    assert take(world, opened(world)) is None


def test_requests_in_flight_do_not_matter() -> None:
    world = begun()
    first = take(world, opened(world))
    second = take(world, opened(world))
    assert first is not None
    assert second is not None
    assert sequences([first, second]) == [(1, [1]), (1, [2])]


def test_interrupted_anywhere_it_was_not_taken_or_is_lost_on_its_way() -> None:
    def check(run: Callable[[Callable[[], object]], bool]) -> bool:
        world = begun()
        batch = opened(world)
        interrupted = run(lambda: take(world, batch))
        if world.alone.request is not None:
            assert batch.in_flight
            world.sender.on_disconnected(world.now_ms, 1, "interrupted")
        elif interrupted:
            # As if it had not been touched, but that it takes no more records once it was closed.
            assert world.accumulator.is_only(batch)
        sent = [*world.poll(1_000)]
        later = opened(world)
        sent += world.poll()
        assert sequences(sent) == [(1, [1]), (1, [2])]
        assert [e.batches for e in sent if isinstance(e, SendRequest)] == [(batch,), (later,)]
        done = [
            effect
            for request in sent
            if isinstance(request, SendRequest)
            for effect in world.acks(1, request.correlation, OK)
        ]
        assert done == [BatchDone(batch, 0, -1), BatchDone(later, 0, -1)]
        assert world.accumulator.used == 0
        assert not world.accumulator.incomplete
        assert world.accumulator.due() == []
        return interrupted

    assert (
        interrupt_everywhere(
            check,
        )
        > 30
    )
