"""A consumer reads the follower that a leader names (KIP-392), and turns back when that fails."""

from __future__ import annotations

import pytest

from pylog import errors
from pylog.client.fetching.fetch_events import Fetch, Fetched, RefreshMetadata
from tests.unit.pylog.client.fetching.test_fetcher import T0, T1, World, batch, item

LEASE_MS = 300_000


def sent_to_follower(world: World) -> None:
    """Broker 1 leads the partition and names broker 3."""
    assert world.poll() == [Fetch(1, 1, 500, (item(T0, 5),))]
    assert world.answer(1, 1, Fetched(T0, preferred=3)) == [Fetch(3, 2, 500, (item(T0, 5),))]


def world_at_5() -> World:
    world = World()
    world.at(T0, 5)
    return world


def test_the_named_follower_is_read_until_its_lease_ends() -> None:
    world = world_at_5()
    sent_to_follower(world)
    (fetch,) = world.answer(3, 2, Fetched(T0, 0, "", 9, 9, 0, batch(5)))
    assert fetch == Fetch(3, 3, 500, (item(T0, 6, last=0),))
    partition = world.positions.partitions[T0]
    assert (partition.fetch_offset, partition.readable_end) == (6, 9)
    world.now_ms += LEASE_MS
    assert world.answer(3, 3, Fetched(T0)) == [Fetch(1, 4, 500, (item(T0, 6, last=0),))]


def test_an_election_ends_it() -> None:
    world = world_at_5()
    sent_to_follower(world)
    world.lead(2, 2, 1, epoch=4)
    assert world.answer(3, 2, Fetched(T0)) == [Fetch(2, 3, 500, (item(T0, 5, 4),))]


def test_a_follower_that_is_gone_is_not_read() -> None:
    world = world_at_5()
    assert world.poll() == [Fetch(1, 1, 500, (item(T0, 5),))]
    effects = world.answer(1, 1, Fetched(T0, preferred=9))
    assert effects == [RefreshMetadata(("t",)), Fetch(1, 2, 500, (item(T0, 5),), 0, True)]


@pytest.mark.parametrize(
    "error",
    [
        errors.OffsetOutOfRange,
        errors.KafkaStorageError,
        errors.CorruptMessage,
        errors.UnknownServerError,
        errors.ThrottlingQuotaExceeded,
    ],
)
def test_what_fails_at_a_follower_is_asked_of_the_leader_alone(
    error: type[errors.PylogError],
) -> None:
    world = world_at_5()
    sent_to_follower(world)
    world.answer(3, 2, Fetched(T0, error.code))
    partition = world.positions.partitions[T0]
    assert (partition.error, partition.position) == (None, 5)
    fetches = [e for e in world.poll(after_ms=1_000) if isinstance(e, Fetch)]
    assert fetches == [Fetch(1, 3, 500, (item(T0, 5),), 0, True)]
    world.now_ms += LEASE_MS
    effects = world.answer(1, 3, Fetched(T0))
    assert effects == [Fetch(1, 4, 500, (item(T0, 5),))]


@pytest.mark.parametrize(
    "error", [errors.NotLeaderOrFollower, errors.FencedLeaderEpoch, errors.UnknownLeaderEpoch]
)
def test_a_follower_of_another_epoch_sends_back_to_the_leader(
    error: type[errors.PylogError],
) -> None:
    world = world_at_5()
    sent_to_follower(world)
    assert world.answer(3, 2, Fetched(T0, error.code)) == [RefreshMetadata(("t",))]
    fetches = [e for e in world.poll(after_ms=1_000) if isinstance(e, Fetch)]
    assert fetches == [Fetch(1, 3, 500, (item(T0, 5),))]


def test_a_broken_stream_to_a_follower_sends_back_to_the_leader() -> None:
    world = world_at_5()
    sent_to_follower(world)
    assert world.fetch_failed(3) == [RefreshMetadata(("t",))]
    assert world.poll(after_ms=1_000) == [Fetch(1, 3, 500, (item(T0, 5),), 0, True)]


def test_a_fetch_at_a_follower_is_not_taken_for_one_at_a_deposed_leader() -> None:
    world = world_at_5()
    sent_to_follower(world)
    effects = world.poll(after_ms=5_000)
    assert not [effect for effect in effects if not isinstance(effect, RefreshMetadata)]


def test_partitions_of_a_follower_and_of_a_leader_share_a_fetch() -> None:
    world = World(leaders=(1, 3, 1))
    world.at(T0, 5)
    world.at(T1, 7)
    first, second = world.poll()
    assert (first.broker, second.broker) == (1, 3)  # type: ignore[union-attr]
    world.answer(1, 1, Fetched(T0, preferred=3))
    (fetch,) = world.answer(3, 2, Fetched(T1))
    assert isinstance(fetch, Fetch)
    assert (fetch.broker, fetch.leaders_only) == (3, False)
    assert {each.topic_partition for each in fetch.items} <= {T0, T1}


def test_a_seek_stays_at_the_follower() -> None:
    world = world_at_5()
    sent_to_follower(world)
    world.at(T0, 2)
    fetches = [e for e in world.poll(after_ms=25) if isinstance(e, Fetch)]
    assert [(fetch.broker, fetch.items) for fetch in fetches] == [(3, (item(T0, 2),))]
