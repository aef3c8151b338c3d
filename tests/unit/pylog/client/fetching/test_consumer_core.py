"""The consumer's core: its managers are polled in turn, and the user's wishes are events."""

from __future__ import annotations

import pytest

from pylog import errors
from pylog.client.answers import Answer
from pylog.client.cluster.metadata import (
    Address,
    BrokerInfo,
    ClusterMetadata,
    ClusterSnapshot,
    PartitionInfo,
    TopicInfo,
)
from pylog.client.fetching.consumer_core import ConsumerCore
from pylog.client.fetching.fetch_events import (
    Fetch,
    FetchItem,
    Listed,
    ListOffsets,
    Notice,
    RefreshMetadata,
    WatchTopics,
)
from pylog.client.fetching.fetch_state import FetcherSettings, FetchState, Partition
from pylog.client.fetching.request_manager import Polled, RequestManager
from pylog.client.fetching.subscription import Subscription
from pylog.client.fetching.user_events import (
    AskPosition,
    Assign,
    Pause,
    Resume,
    Seek,
    SeekTo,
    StartFetching,
    Subscribe,
)
from pylog.model import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def core_of(topic: str | None = "t") -> ConsumerCore:
    metadata = ClusterMetadata()
    brokers = (BrokerInfo(1, Address("h", 1)),)
    topics = (TopicInfo(topic, "id", False, (PartitionInfo(1, 0),) * 2),) if topic else ()
    metadata.update(ClusterSnapshot("c", 1, brokers, None, topics))
    return ConsumerCore(FetcherSettings(), metadata, lambda: 0.5, lambda: 1_000_000)


class Heartbeats:
    """A manager of another concern, as a group's membership will be one."""

    def poll(self, now_ms: int) -> Polled:
        return Polled([Notice("heartbeat")], now_ms + 3)


# ---- managers ------------------------------------------------------------------------------------


def test_each_manager_is_polled_and_the_earliest_deadline_counts() -> None:
    core = core_of()
    heartbeats: RequestManager = Heartbeats()
    core.managers = (heartbeats, *core.managers)
    core.on_user(1_000, Assign((T0, T1)))
    core.on_user(1_000, Seek(T1, 5))
    core.on_user(1_000, StartFetching())
    assert core.poll(1_000) == Polled(
        [
            Notice("heartbeat"),
            ListOffsets(1, ((T0, LATEST_TIMESTAMP, 0, 0),)),
            Fetch(1, 1, 500, (FetchItem(T1, "id", 5, 0, -1),)),
        ],
        1_003,
    )


def test_nothing_to_do_has_no_deadline() -> None:
    assert core_of().poll(1_000) == Polled([], None)


def test_a_call_that_fails_is_made_again_when_its_time_has_come() -> None:
    core = core_of()
    core.on_user(1_000, Assign((T0,)))
    (request,) = core.poll(1_000).requests
    assert isinstance(request, ListOffsets)
    refused = errors.NotLeaderOrFollower("by the test")
    assert core.on_no_answer(1_000, request, refused) == [RefreshMetadata(("t",))]
    assert core.poll(1_000) == Polled([], 1_100)
    assert core.poll(1_100).requests == [request]
    assert core.on_listed(1_100, request, [Listed(T0, 0, offset=7)]) == []
    assert core.positions.partitions[T0].position == 7


# ---- the user's events ---------------------------------------------------------------------------


def test_what_the_core_decides_by_itself_is_answered_at_once() -> None:
    core = core_of()
    assert core.on_user(0, Assign((T0,))) == [WatchTopics(("t",), every=False)]
    for event in (StartFetching(), Seek(T0, 3), Pause((T0,)), Resume((T0,))):
        assert core.on_user(0, event) == []
        assert event.answer.done
        event.answer.result()
    assert core.positions.partitions[T0].position == 3


def test_what_is_about_a_partition_that_is_not_assigned_is_refused() -> None:
    core = core_of()
    core.on_user(0, Assign((T0,)))
    for event in (Seek(T1, 3), SeekTo((T1,), 0), Pause((T1,)), Resume((T1,)), AskPosition(T1)):
        core.on_user(0, event)
        with pytest.raises(errors.InvalidRequest, match="t-1 is not assigned"):
            event.answer.result()


def test_fetching_needs_something_to_read() -> None:
    core = core_of()
    event = StartFetching()
    core.on_user(0, event)
    with pytest.raises(errors.InvalidRequest, match="not subscribed"):
        event.answer.result()
    assert not core.fetcher.active


def test_a_position_is_told_when_it_is_known() -> None:
    core = core_of()
    core.on_user(0, Assign((T0,)))
    asked, again = AskPosition(T0), AskPosition(T0)
    core.on_user(0, asked)
    (request,) = core.poll(0).requests
    assert isinstance(request, ListOffsets)
    assert not asked.answer.done
    core.on_listed(0, request, [Listed(T0, 0, offset=7)])
    assert asked.answer.result() == 7
    core.on_user(0, again)
    assert again.answer.result() == 7


def test_a_position_that_nobody_waits_for_any_more_is_forgotten() -> None:
    core = core_of()
    core.on_user(0, Assign((T0,)))
    asked, other = AskPosition(T0), AskPosition(T0)
    core.on_user(0, asked)
    core.on_user(0, other)
    core.positions.forget(asked)
    core.on_user(0, Seek(T0, 3))
    assert not asked.answer.done
    assert other.answer.result() == 3


def test_a_position_of_a_partition_that_is_given_up_is_told_no_more() -> None:
    core = core_of()
    core.on_user(0, Assign((T0,)))
    asked = AskPosition(T0)
    core.on_user(0, asked)
    core.on_user(0, Assign((T1,)))
    with pytest.raises(errors.InvalidRequest, match="t-0 is not assigned"):
        asked.answer.result()


def test_a_subscription_takes_what_metadata_tell_of() -> None:
    core = core_of()
    topics = Subscription(("t", "later"))
    assert core.on_user(0, Subscribe(topics)) == [WatchTopics(("t", "later"), every=False)]
    assert list(core.positions.partitions) == [T0, T1]
    pattern = Subscription.of(None, "t.*")
    assert core.on_user(0, Subscribe(pattern)) == [WatchTopics((), every=True)]
    core.on_topic_gone("t")
    assert not core.positions.partitions


def test_partitions_that_metadata_tell_of_later_are_read_from_their_start() -> None:
    core = core_of()
    core.on_user(0, Subscribe(Subscription(("t",))))
    del core.positions.partitions[T1]
    core.on_metadata(0)
    added = core.positions.partitions[T1]
    assert (added.state, added.reset_to) == (FetchState.AWAIT_RESET, EARLIEST_TIMESTAMP)


def test_an_answer_is_given_once() -> None:
    answer = Answer[int]()
    answer.succeed(1)
    with pytest.raises(AssertionError):
        answer.fail(errors.InvalidRequest("again"))
    assert answer.result() == 1


# ---- states --------------------------------------------------------------------------------------


def test_a_state_that_the_table_does_not_allow_is_a_bug_with_both_names() -> None:
    partition = Partition(T0)
    partition.become(FetchState.FETCHING)
    with pytest.raises(AssertionError, match="t-0: FETCHING cannot become RESETTING"):
        partition.become(FetchState.RESETTING)


def test_a_partition_without_a_reset_policy_waits_for_a_seek() -> None:
    core = core_of()
    core.positions.settings = FetcherSettings(auto_offset_reset="none")
    core.on_user(0, Assign((T0,)))
    core.on_user(0, StartFetching())
    partition = core.positions.partitions[T0]
    assert partition.state is FetchState.INITIALIZING
    assert isinstance(partition.error, errors.NoOffsetForPartition)
    assert core.poll(0).requests == []
    core.on_user(0, Seek(T0, 4))
    assert core.poll(0).requests == [Fetch(1, 1, 500, (FetchItem(T0, "id", 4, 0, -1),))]


def test_after_an_interrupt_a_look_up_is_made_again_and_either_answer_counts() -> None:
    core = core_of()
    core.on_user(0, Assign((T0,)))
    (first,) = core.poll(0).requests
    core.start_over()
    assert core.poll(0).requests == [first]
    assert isinstance(first, ListOffsets)
    core.on_listed(0, first, [Listed(T0, 0, offset=7)])
    core.on_listed(0, first, [Listed(T0, 0, offset=9)])
    assert core.positions.partitions[T0].position == 7
