"""The states of batches and lanes: what the tables allow, and nothing else."""

from __future__ import annotations

import itertools

import pytest

from pylog import errors
from pylog.client.sending import lanes, producer_batch
from pylog.client.sending.lanes import Lane, LaneState
from pylog.client.sending.producer_batch import Batch, BatchState
from tests.fakes.sender_world import OK, T0, begun, refused


def batch_in(state: BatchState) -> Batch:
    batch = Batch(T0, 0, None, 100)
    batch.state = state
    return batch


@pytest.mark.parametrize(("state", "following"), list(itertools.product(BatchState, BatchState)))
def test_a_batch_becomes_what_the_table_allows(state: BatchState, following: BatchState) -> None:
    batch = batch_in(state)
    if following in producer_batch.NEXT_STATES[state]:
        batch.become(following)
        assert batch.state is following
    else:
        words = f"t-0: a batch that is {state.name} cannot become {following.name}"
        with pytest.raises(AssertionError, match=words):
            batch.become(following)


@pytest.mark.parametrize(("state", "following"), list(itertools.product(LaneState, LaneState)))
def test_a_lane_becomes_what_the_table_allows(state: LaneState, following: LaneState) -> None:
    lane = Lane(T0, state=state)
    if following in lanes.NEXT_STATES[state]:
        lane.become(following)
        assert lane.state is following
    else:
        words = f"t-0: a lane that is {state.name} cannot become {following.name}"
        with pytest.raises(AssertionError, match=words):
            lane.become(following)


def test_a_batch_goes_through_its_states() -> None:
    world = begun()
    first, second = world.add(), world.add()
    assert first.state is BatchState.WAITING
    world.poll()
    assert (first.state, second.state) == (BatchState.IN_FLIGHT, BatchState.IN_FLIGHT)
    world.acks(1, 4, refused(errors.NotEnoughReplicas))
    assert first.state is BatchState.WAITING
    world.acks(1, 5, refused(errors.OutOfOrderSequenceNumber))
    assert second.state is BatchState.WAITING  # what it misses is still on its way
    world.poll(100)
    world.acks(1, 6, refused(errors.OutOfOrderSequenceNumber))
    assert first.state is BatchState.REFUSED
    world.sender.on_producer_id(world.now_ms, 8, 0)
    assert first.state is BatchState.IN_FLIGHT
    world.acks(1, 7, OK)
    assert first.state is BatchState.RESOLVED


def test_a_batch_whose_time_is_up_in_flight_stays_resolved_when_it_is_answered() -> None:
    world = begun()
    late = world.add()
    world.poll()
    world.poll(120_000)
    assert late.state is BatchState.RESOLVED
    assert world.acks(1, 4, OK) == []
    assert late.state is BatchState.RESOLVED
