"""Share sessions: what is acquired, what is acknowledged with it, and what ends a session."""

from __future__ import annotations

from typing import Any

import pytest

from pylog import errors
from pylog.client.cluster.metadata import (
    Address,
    BrokerInfo,
    ClusterMetadata,
    ClusterSnapshot,
    PartitionInfo,
    TopicInfo,
)
from pylog.client.fetching.fetch_events import RefreshMetadata, WatchTopics
from pylog.client.membership.group_identity import GroupIdentity, MembershipSettings
from pylog.client.membership.messages import CoordinatorFound, FindCoordinator
from pylog.client.sharing.acknowledgements import AckParcel, CommitResults
from pylog.client.sharing.messages import (
    AckRange,
    Acquired,
    AcquiredRange,
    PartitionShared,
    ShareAcknowledge,
    ShareAnswer,
    SharedPartition,
    ShareFetch,
    ShareHeartbeat,
    ShareHeartbeatAnswer,
)
from pylog.client.sharing.share_core import ShareCore
from pylog.client.sharing.share_requests import ShareSettings
from pylog.model import TopicPartition

T0, T1, T2 = (SharedPartition("id", "t", number) for number in range(3))
TP0, TP1 = TopicPartition("t", 0), TopicPartition("t", 1)
ACCEPTED, RENEWED = b"\x01", b"\x04"
FIVE = (AcquiredRange(0, 4, 1),)
LOCK_MS = 30_000


def snapshot(*leaders: int, epoch: int = 1) -> ClusterSnapshot:
    brokers = tuple(BrokerInfo(number, Address("h", number)) for number in (1, 2))
    partitions = tuple(PartitionInfo(leader, epoch) for leader in leaders)
    return ClusterSnapshot("c", 1, brokers, None, (TopicInfo("t", "id", False, partitions),))


class World:
    """A share consumer's core that is a member, and what it sends."""

    def __init__(self, *leaders: int, **settings: Any) -> None:
        self.metadata = ClusterMetadata()
        self.metadata.update(snapshot(*leaders))
        self.core = ShareCore(
            ShareSettings(**settings),
            MembershipSettings(),
            GroupIdentity("g", member_id="me"),
            self.metadata,
            lambda: 0.5,
        )
        self.now_ms = 0
        assert self.core.subscribe(("t",)) == [WatchTopics(("t",), every=False)]
        self.core.on_user_poll(0, [], wants=False)
        self.core.requests.want()
        (find,) = self.step()
        self.core.on_answer(0, find, CoordinatorFound(9))
        (join,) = self.step()
        assert isinstance(join, ShareHeartbeat)
        target = (("id", "t", tuple(range(len(leaders)))),)
        self.core.on_answer(0, join, ShareHeartbeatAnswer(1, 5_000, target))

    def step(self, after_ms: int = 0) -> list[Any]:
        """The requests that are sent for records, or to find a broker."""
        self.now_ms += after_ms
        effects = self.core.poll(self.now_ms).effects
        beats = (ShareHeartbeat,) if self.core.membership.target else ()
        return [each for each in effects if not isinstance(each, beats)]

    def answer(self, request: Any, *parts: PartitionShared, **whole: Any) -> list[Any]:
        answer = ShareAnswer(parts, LOCK_MS, **whole)
        return self.core.on_answer(self.now_ms, request, answer)

    def acquire(self, *, acquired: tuple[AcquiredRange, ...] = FIVE) -> Acquired:
        """The first records of the first partition, taken by the user's poll."""
        request = next(each for each in self.step() if each.broker == 1)
        self.answer(request, PartitionShared("id", 0, acquired=acquired, batches=b"x"))
        taken = self.core.requests.take(self.now_ms)
        assert taken is not None
        self.core.requests.stop()
        return taken

    def commit(self, *parcels: AckParcel, timeout_ms: int = 10_000) -> Any:
        return self.core.commit(self.now_ms, parcels, timeout_ms)


def parcel(acquired: Acquired, first: int, last: int, types: bytes = ACCEPTED) -> AckParcel:
    ranges = (AckRange(first, last, types),)
    return AckParcel(acquired.partition, acquired.broker, acquired.session, ranges)


def fetch(broker: int, epoch: int, *added: SharedPartition, **rest: Any) -> ShareFetch:
    return ShareFetch(broker, epoch, 500, rest.pop("records", 500), added, **rest)


# ---- acquiring ---------------------------------------------------------------------------------


def test_each_leader_is_asked_for_its_partitions_and_then_only_for_changes() -> None:
    world = World(1, 2, 1)
    one, two = world.step()
    assert (one, two) == (fetch(1, 0, T0, T2), fetch(2, 0, T1))
    assert world.step() == []
    world.answer(one)
    assert world.step() == [fetch(1, 1)]


def test_nothing_is_acquired_while_no_poll_waits() -> None:
    world = World(1)
    world.core.requests.stop()
    assert world.step() == []
    world.core.requests.want()
    world.core.requests.stop()
    (first,) = world.step()  # that poll had no time: its look is made once
    world.answer(first)
    assert world.step() == []
    world.core.requests.want()
    assert world.step() == [fetch(1, 1)]


def test_nothing_is_acquired_while_records_are_buffered() -> None:
    world = World(1)
    (request,) = world.step()
    world.answer(request, PartitionShared("id", 0, acquired=FIVE, batches=b"x"))
    assert world.core.has_news
    assert world.step() == []
    taken = world.core.requests.take(0)
    assert taken is not None
    assert (taken.partition, taken.broker, taken.ranges) == (T0, 1, FIVE)
    assert taken.expires_at_ms == LOCK_MS
    assert world.step() == [fetch(1, 1)]


def test_records_whose_lock_has_ended_are_not_handed_out() -> None:
    world = World(1)
    (request,) = world.step()
    world.answer(request, PartitionShared("id", 0, acquired=FIVE, batches=b"x"))
    assert world.core.requests.take(LOCK_MS) is None


def test_a_lock_is_counted_from_the_request_on() -> None:
    world = World(1)
    (request,) = world.step()
    world.now_ms = LOCK_MS  # the process was stopped meanwhile
    world.answer(request, PartitionShared("id", 0, acquired=FIVE, batches=b"x"))
    assert world.core.requests.take(world.now_ms) is None


def test_a_strict_limit_is_shared_by_the_leaders() -> None:
    world = World(1, 2, max_poll_records=5, strict=True)
    asked = {each.broker: each.max_records for each in world.step()}
    assert sorted(asked.values()) == [2, 3]


def test_a_limit_of_one_record_goes_round() -> None:
    world = World(1, 2, max_poll_records=1, strict=True)
    asked = []
    for _ in range(4):
        (request,) = world.step()
        assert (request.max_records, request.max_wait_ms) == (1, 50)
        asked.append(request.broker)
        world.answer(request)
    assert sorted(asked) == [1, 1, 2, 2]


def test_what_a_member_loses_is_forgotten_and_released() -> None:
    world = World(1, 1)
    (request,) = world.step()
    world.answer(request, PartitionShared("id", 1, acquired=FIVE, batches=b"x"))
    world.core.membership.target = (("id", "t", (0,)),)
    (release,) = world.step()
    assert release == ShareAcknowledge(1, 1, ((T1, (AckRange(0, 4, b"\x02"),)),))
    world.answer(release, PartitionShared("id", 1))
    assert world.step() == [fetch(1, 2, forgotten=(T1,))]


def test_a_member_that_was_out_of_its_group_names_its_partitions_again() -> None:
    """Somebody may have altered the group's offsets meanwhile."""
    world = World(1, 1)
    (request,) = world.step()
    world.answer(request)
    (request,) = world.step()
    assert request == fetch(1, 1)
    target, world.core.membership.target = world.core.membership.target, ()
    assert world.step() == []
    world.core.membership.target = target
    assert world.step() == []
    # It was acquired while the member was out, or before.
    world.answer(request, PartitionShared("id", 0, acquired=FIVE, batches=b"x"))
    assert not world.core.requests.buffer
    (release,) = world.step()
    assert release == ShareAcknowledge(1, 2, ((T0, (AckRange(0, 4, b"\x02"),)),))
    world.answer(release, PartitionShared("id", 0))
    (anew,) = world.step()
    assert anew == fetch(1, 3, T0, T1)
    world.answer(anew, PartitionShared("id", 0, acquired=FIVE, batches=b"x"))
    assert world.core.requests.take(world.now_ms) is not None
    assert world.step() == [fetch(1, 4)]


def test_a_leader_that_has_moved_is_followed_at_once_when_it_is_told() -> None:
    world = World(1)
    (request,) = world.step()
    code = errors.NotLeaderOrFollower.code
    assert world.answer(request, PartitionShared("id", 0, code, leader=2, leader_epoch=5)) == []
    assert world.step() == [fetch(2, 0, T0)]


def test_a_leader_that_is_not_told_is_looked_for_and_the_partition_rests() -> None:
    world = World(1)
    (request,) = world.step()
    code = errors.NotLeaderOrFollower.code
    assert world.answer(request, PartitionShared("id", 0, code)) == [RefreshMetadata(("t",))]
    assert world.step() == []
    assert world.core.poll(0).deadline_ms == 100
    assert world.step(100) == [fetch(1, 1)]


def test_what_a_broker_refuses_for_good_is_told_once() -> None:
    world = World(1)
    (request,) = world.step()
    world.answer(request, PartitionShared("id", 0, errors.TopicAuthorizationFailed.code, "no"))
    error = world.core.take_error()
    assert isinstance(error, errors.TopicAuthorizationFailed)
    assert world.core.take_error() is None


def test_a_topic_that_was_made_anew_is_another_one() -> None:
    world = World(1)
    topic = TopicInfo("t", "other", False, (PartitionInfo(1, 1),))
    world.metadata.update(ClusterSnapshot("c", 1, (), None, (topic,)))
    assert world.step() == [RefreshMetadata(("t",))]


# ---- acknowledging -----------------------------------------------------------------------------


def test_acknowledgements_go_with_the_next_fetch() -> None:
    world = World(1)
    acquired = world.acquire()
    world.core.on_user_poll(0, [parcel(acquired, 0, 4)], wants=True)
    acks = ((T0, (AckRange(0, 4, ACCEPTED),)),)
    assert world.step() == [fetch(1, 1, acks=acks)]


def test_a_commit_goes_alone_and_tells_what_became_of_each_partition() -> None:
    world = World(1, 1)
    (request,) = world.step()
    world.answer(
        request,
        PartitionShared("id", 0, acquired=FIVE, batches=b"x"),
        PartitionShared("id", 1, acquired=FIVE, batches=b"x"),
    )
    first, second = world.core.requests.take(0), world.core.requests.take(0)
    assert first is not None
    assert second is not None
    world.core.requests.stop()
    answer = world.commit(parcel(first, 0, 4), parcel(second, 0, 1), parcel(second, 3, 4))
    (request,) = world.step()
    assert request == ShareAcknowledge(
        1,
        1,
        (
            (T0, (AckRange(0, 4, ACCEPTED),)),
            (T1, (AckRange(0, 1, ACCEPTED), AckRange(3, 4, ACCEPTED))),
        ),
    )
    lost = errors.InvalidRecordState.code
    world.answer(request, PartitionShared("id", 0), PartitionShared("id", 1, ack_code=lost))
    results: CommitResults = answer.result()
    assert results[TP0] is None
    assert isinstance(results[TP1], errors.InvalidRecordState)


def test_a_commit_of_nothing_is_done() -> None:
    assert World(1).commit().result() == {}


def test_an_error_that_passes_is_tried_again_in_time() -> None:
    world = World(1)
    answer = world.commit(parcel(world.acquire(), 0, 4))
    (request,) = world.step()
    passes = errors.CoordinatorNotAvailable.code
    world.answer(request, PartitionShared("id", 0, ack_code=passes))
    assert world.step() == []
    (again,) = world.step(100)
    assert again == request._replace(epoch=2)
    world.answer(again, PartitionShared("id", 0))
    assert answer.result() == {TP0: None}


def test_a_commit_ends_in_its_time() -> None:
    world = World(1)
    answer = world.commit(parcel(world.acquire(), 0, 4), timeout_ms=700)
    assert isinstance(world.step()[0], ShareAcknowledge)
    assert world.core.poll(0).deadline_ms == 700
    world.step(700)
    assert isinstance(answer.result()[TP0], errors.RequestTimedOut)


def test_a_renewal_acquires_nothing() -> None:
    world = World(1)
    acquired = world.acquire()
    world.core.on_user_poll(0, [parcel(acquired, 0, 0, RENEWED)], wants=True)
    acks = ((T0, (AckRange(0, 0, RENEWED),)),)
    assert world.step() == [ShareAcknowledge(1, 1, acks, renews=True)]


def test_the_users_code_hears_what_became_of_acknowledgements() -> None:
    world = World(1)
    told: list[Any] = []
    world.core.listen(lambda offsets, error: told.append((offsets, error)))
    acquired = world.acquire()
    world.core.acknowledge(0, [parcel(acquired, 0, 1)])
    (request,) = world.step()
    world.answer(request, PartitionShared("id", 0))
    (callback,) = world.core.for_user
    callback.run()
    assert told == [({TP0: {0, 1}}, None)]


# ---- the end of a session ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [errors.ShareSessionNotFound, errors.InvalidShareSessionEpoch],
    ids=lambda e: e.__name__,
)
def test_a_session_that_is_gone_begins_anew_and_its_records_are_lost(
    error: type[errors.PylogError],
) -> None:
    world = World(1)
    acquired = world.acquire()
    answer = world.commit(parcel(acquired, 0, 1))
    (request,) = world.step()
    world.answer(request, code=error.code)
    assert isinstance(answer.result()[TP0], error)
    assert not world.core.requests.holds(0, acquired)
    late = world.commit(parcel(acquired, 2, 4))
    assert isinstance(late.result()[TP0], errors.ShareSessionNotFound)
    world.core.requests.want()
    assert world.step() == [fetch(1, 0, T0)]


def test_a_broken_connection_ends_the_session_and_rests() -> None:
    world = World(1)
    (request,) = world.step()
    world.answer(request, PartitionShared("id", 0, acquired=FIVE, batches=b"x"))
    kept = world.core.requests.buffer[0]
    answer = world.commit(parcel(kept, 0, 1))
    (request,) = world.step()
    world.core.on_no_answer(0, request, errors.BrokerUnreachable("gone"))
    assert isinstance(answer.result()[TP0], errors.BrokerUnreachable)
    assert not world.core.requests.buffer
    assert world.step() == [RefreshMetadata(("t",))]
    (again,) = world.step(100)
    assert again == fetch(1, 0, T0)


def test_an_answer_that_is_late_is_passed_over() -> None:
    world = World(1)
    (request,) = world.step()
    world.core.on_no_answer(0, request, errors.BrokerUnreachable("gone"))
    world.answer(request, PartitionShared("id", 0, acquired=FIVE, batches=b"x"))
    assert not world.core.requests.buffer


def test_the_end_sends_what_is_acknowledged_and_ends_each_session() -> None:
    world = World(1, 2)
    one, two = world.step()
    world.answer(one, PartitionShared("id", 0, acquired=FIVE, batches=b"x"))
    taken = world.core.requests.take(0)
    assert taken is not None
    world.core.acknowledge(0, [parcel(taken, 0, 1)])
    ended = world.core.requests.close()
    (final,) = world.step()
    assert final == ShareAcknowledge(1, -1, ((T0, (AckRange(0, 1, ACCEPTED),)),))
    world.answer(final, PartitionShared("id", 0))
    world.step()
    assert not ended.done  # a fetch is under way at the other broker
    world.answer(two, PartitionShared("id", 1, acquired=FIVE, batches=b"x"))
    (final,) = world.step()
    assert final == ShareAcknowledge(2, -1)
    world.core.on_no_answer(0, final, errors.BrokerUnreachable("gone"))
    world.step()
    assert ended.done


def test_the_end_waits_for_no_records() -> None:
    world = World(1)
    (first,) = world.step()
    world.answer(first)
    (waits,) = world.step()
    ended = world.core.requests.close()
    (final,) = world.step()
    assert final == ShareAcknowledge(1, -1)
    world.answer(waits, PartitionShared("id", 0, acquired=FIVE, batches=b"x"))
    assert not world.core.requests.buffer
    world.answer(final)
    world.step()
    assert ended.done


def test_without_a_session_there_is_nothing_to_end() -> None:
    world = World(1)
    ended = world.core.requests.close()
    assert world.step() == []
    assert ended.done


def test_a_broker_is_asked_for_nothing_while_it_rests() -> None:
    world = World(1)
    for wait_ms in (100, 200, 400):
        (request,) = (each for each in world.step() if isinstance(each, ShareFetch))
        world.core.on_no_answer(world.now_ms, request, errors.BrokerUnreachable("gone"))
        assert not [each for each in world.step(wait_ms - 1) if isinstance(each, ShareFetch)]
        world.now_ms += 1


def test_finding_a_coordinator_fails_and_is_tried_again() -> None:
    world = World(1)
    world.core.finder.forget(9)
    (find,) = (each for each in world.step() if isinstance(each, FindCoordinator))
    world.core.on_no_answer(0, find, errors.BrokerUnreachable("gone"))
    assert not [each for each in world.step() if isinstance(each, FindCoordinator)]
    assert [each for each in world.step(100) if isinstance(each, FindCoordinator)] == [find]
