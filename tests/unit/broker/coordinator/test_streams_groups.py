"""Membership of streams groups, heartbeat by heartbeat, as Kafka's coordinator has it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pylog.errors import (
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    InconsistentGroupProtocol,
    InvalidRequest,
    NonEmptyGroup,
    PylogError,
    StaleMemberEpoch,
    StreamsInvalidTopology,
    UnknownMemberId,
)
from pylog.model import TopicPartition
from pylog_broker.coordinator.generated.streams_group_topology import Subtopology, TopicInfo
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.coordinator.groups.group import Caller, GroupType
from pylog_broker.coordinator.groups.messages import (
    CommittedOffset,
    DeleteGroups,
    GroupsDeleted,
    ListedGroup,
    OffsetCommit,
    OffsetFetch,
    OffsetsCommitted,
    OffsetsFetched,
)
from pylog_broker.coordinator.groups.streams.messages import (
    DescribedStreamsGroup,
    DescribedStreamsMember,
    Endpoint,
    EndpointPartitions,
    Status,
    StatusCode,
    StreamsHeartbeatAnswer,
)
from pylog_broker.coordinator.groups.streams.tasks import NO_TASKS, TaskId, Tasks
from pylog_broker.group_settings import GroupSettings
from tests.fakes.classic_clients import TP, Client, G, stable
from tests.fakes.consumer_members import Consumer, delete_topic, set_topic, shard_with
from tests.fakes.group_shard import GroupShard
from tests.fakes.streams_members import (
    COUNTS,
    REBALANCE_MS,
    WORDS,
    Streamer,
    at_once,
    settle_streams,
    streams_group,
)

SESSION_MS = GroupSettings().streams_session_timeout_ms
INTERVAL_MS = GroupSettings().streams_heartbeat_interval_ms
DELAY_MS = GroupSettings().streams_initial_rebalance_delay_ms


def active(*numbers: int, part: str = "0") -> Tasks:
    return Tasks(frozenset(TaskId(part, number) for number in numbers))


def streamers(count: int, **topics: int) -> tuple[GroupShard, list[Streamer]]:
    """A settled group of so many, each in a process of its own."""
    shard = shard_with(at_once(), **(topics or {"t": 4}))
    members = [Streamer(shard, f"m{number}") for number in range(count)]
    settle_streams(*members)
    return shard, members


def of(task: TaskId) -> TopicPartition:
    return TopicPartition("t", task.partition)


def state(shard: GroupShard) -> str:
    return streams_group(shard).state_name


# ---- joining and leaving -------------------------------------------------------------------------


def test_a_first_member_has_all_tasks_with_the_answer_to_its_join() -> None:
    shard = shard_with(at_once(), t=3)
    member = Streamer(shard, "m")
    assert member.beat() == StreamsHeartbeatAnswer("m", 1, INTERVAL_MS, assigned=active(0, 1, 2))
    assert state(shard) == "Stable"
    assert member.beat() == StreamsHeartbeatAnswer("m", 1, INTERVAL_MS)


def test_a_second_member_gets_each_task_when_the_first_has_given_it_up() -> None:
    shard, (first,) = streamers(1)
    second = Streamer(shard, "m1")
    assert second.beat() == StreamsHeartbeatAnswer("m1", 2, INTERVAL_MS, assigned=NO_TASKS)
    assert state(shard) == "Reconciling"
    told = first.send(first.request())
    assert (told.member_epoch, len(told.assigned.active)) == (1, 2)
    assert second.beat().assigned is None
    assert first.beat().member_epoch == 1  # it says that it works on all yet
    first.hear(told)
    assert first.beat().member_epoch == 2
    answer = second.beat()
    assert answer.assigned.active == active(0, 1, 2, 3).active - first.owned.active
    assert state(shard) == "Stable"


def test_a_member_that_has_not_heard_of_its_tasks_hears_of_them_again() -> None:
    shard, (first,) = streamers(1)
    second = Streamer(shard, "m1")
    assert second.beat().assigned == NO_TASKS
    first.beat()
    first.beat()
    lost = second.send(second.request())
    assert (lost.member_epoch, len(lost.assigned.active)) == (second.epoch, 2)
    assert second.beat().assigned == lost.assigned
    assert second.beat().assigned is None
    assert state(shard) == "Stable"


def test_a_member_that_leaves_is_replaced() -> None:
    shard, (first, second) = streamers(2)
    assert first.leave() == StreamsHeartbeatAnswer("m0", -1)
    settle_streams(second)
    assert second.active == [("0", 0), ("0", 1), ("0", 2), ("0", 3)]
    second.leave()
    assert state(shard) == "Empty"
    assert streams_group(shard).topology == WORDS


def test_a_member_that_is_silent_or_slow_is_none_any_more() -> None:
    shard, (first, second) = streamers(2)
    shard.advance(SESSION_MS - 1)
    first.beat()
    shard.advance(1)
    assert [*streams_group(shard).members] == ["m0"]
    assert isinstance(second.beat(), UnknownMemberId)
    third = Streamer(shard, "m2")
    settle_streams(first)
    third.beat()
    told = first.send(first.request())
    assert len(told.assigned.active) == 2
    for _ in range(3):
        shard.advance(REBALANCE_MS // 3)
        first.send(first.request())  # it never gives up what it should
        third.beat()
    assert isinstance(first.beat(), UnknownMemberId)
    settle_streams(third)
    assert len(third.active) == 4
    assert shard.lost == {GroupType.STREAMS: 2}


def test_an_answer_that_was_lost_is_given_again() -> None:
    shard, (first,) = streamers(1)
    Streamer(shard, "m1").beat()
    told = first.send(first.request())
    first.hear(told)
    lost = first.send(first.request())
    assert lost.member_epoch == 2
    again = first.send(first.request())  # at the epoch before
    assert (again.member_epoch, again.assigned) == (2, first.owned)
    assert isinstance(first.send(first.request(member_epoch=0 + 7)), FencedMemberEpoch)
    late = first.request(owned=active(0, 1, 2, 3))
    assert isinstance(first.send(late), FencedMemberEpoch)  # more than it was given


def test_an_old_copy_of_a_join_gives_nothing_away() -> None:
    shard = shard_with(at_once(), t=4)
    first, second = Streamer(shard, "m0"), Streamer(shard, "m1")
    join = first.request()
    settle_streams(first)
    second.beat()
    told = first.send(first.request())  # it is to give up two
    first.send(join)
    assert second.beat().assigned is None
    first.hear(told)
    first.epoch = streams_group(shard).members["m0"].member_epoch
    settle_streams(first, second)
    assert len(first.active) == len(second.active) == 2


def test_a_coordinator_that_comes_next_goes_on() -> None:
    shard, (first, second) = streamers(2)
    before = streams_group(shard)
    shard.start()
    assert streams_group(shard) == before
    assert first.beat() == StreamsHeartbeatAnswer("m0", 2, INTERVAL_MS)
    shard.advance(SESSION_MS)
    assert state(shard) == "Empty"
    assert isinstance(second.beat(), UnknownMemberId)


def test_the_first_members_wait_for_others() -> None:
    shard = shard_with(t=4)
    first, second = Streamer(shard, "m0"), Streamer(shard, "m1")
    assert first.beat() == StreamsHeartbeatAnswer("m0", 1, INTERVAL_MS, assigned=NO_TASKS)
    shard.advance(DELAY_MS - 1)
    second.beat()
    assert state(shard) == "Assigning"
    assert first.beat().assigned is None
    shard.advance(1)
    assert len(first.beat().assigned.active) == 2
    assert state(shard) == "Reconciling"
    assert len(second.beat().assigned.active) == 2
    assert first.epoch == second.epoch == 3


def test_a_member_that_has_waited_alone_gets_all() -> None:
    shard = shard_with(t=2)
    member = Streamer(shard, "m")
    member.beat()
    shard.advance(DELAY_MS)
    answer = member.beat()
    assert (answer.member_epoch, answer.assigned) == (2, active(0, 1))
    member.leave()
    Streamer(shard, "m").beat()
    shard.advance(DELAY_MS)
    later = Streamer(shard, "m", epoch=2)
    assert (later.beat().member_epoch, later.owned) == (4, active(0, 1))


def test_one_that_leaves_while_they_wait_does_not_keep_the_next_from_waiting() -> None:
    shard = shard_with(t=1)
    first = Streamer(shard, "m0")
    first.beat()
    first.leave()
    shard.advance(DELAY_MS - 1)
    second = Streamer(shard, "m1")
    second.beat()
    shard.advance(1)
    assert second.beat().assigned is None
    shard.advance(DELAY_MS)
    assert second.beat().assigned == active(0)


def test_a_group_is_full_at_its_size() -> None:
    config = replace(at_once(), streams_max_size=1)
    shard = shard_with(config, t=1)
    first = Streamer(shard, "m0")
    first.beat()
    assert isinstance(Streamer(shard, "m1").beat(), GroupMaxSizeReached)
    first.epoch, first.owned = 0, NO_TASKS
    assert isinstance(first.beat(), StreamsHeartbeatAnswer)  # a member may always come back


# ---- topology and topics -------------------------------------------------------------------------


def test_a_topology_waits_for_its_internal_topics() -> None:
    shard = shard_with(at_once(), t=2)
    member = Streamer(shard, "m", COUNTS)
    answer = member.beat()
    missing = Status(
        StatusCode.MISSING_INTERNAL_TOPICS,
        "Internal topics are missing: g-changelog, g-repartition",
    )
    wanted = (TopicInfo("g-changelog", 2), TopicInfo("g-repartition", 2))
    assert answer == StreamsHeartbeatAnswer(
        "m", 1, INTERVAL_MS, (missing,), NO_TASKS, to_create=wanted
    )
    assert state(shard) == "NotReady"
    assert member.beat().to_create == wanted  # until they are there
    set_topic(shard, "g-repartition", 2)
    set_topic(shard, "g-changelog", 2)
    answer = member.beat()
    assert (answer.status, answer.to_create, answer.member_epoch) == ((), (), 2)
    assert answer.assigned == active(0, 1) | active(0, 1, part="1")
    assert state(shard) == "Stable"


def test_missing_source_topics_take_the_tasks_away() -> None:
    shard, (member,) = streamers(1, t=2)
    delete_topic(shard, "t")
    answer = member.beat()
    assert answer.status == (
        Status(StatusCode.MISSING_SOURCE_TOPICS, "Source topics t are missing."),
    )
    assert answer.assigned == NO_TASKS
    settle_streams(member)
    assert (member.active, state(shard)) == ([], "NotReady")
    set_topic(shard, "t", 3, generation="B")
    settle_streams(member)
    assert len(member.active) == 3


def test_a_topic_that_has_grown_has_more_tasks() -> None:
    shard, (member,) = streamers(1, t=2)
    set_topic(shard, "t", 3)
    settle_streams(member)
    assert member.active == [("0", 0), ("0", 1), ("0", 2)]
    set_topic(shard, "other", 3)
    before = member.epoch
    settle_streams(member)
    assert member.epoch == before


def test_a_group_keeps_its_topology() -> None:
    shard, (member,) = streamers(1)
    later = WORDS._replace(epoch=1)
    assert isinstance(Streamer(shard, "m1", later).beat(), InvalidRequest)
    other = WORDS._replace(subtopologies=(Subtopology("0", source_topics=("u",)),))
    assert isinstance(Streamer(shard, "m1", other).beat(), InvalidRequest)
    assert [*streams_group(shard).members] == ["m0"]
    assert isinstance(member.beat(), StreamsHeartbeatAnswer)


def test_a_member_with_an_earlier_topology_is_told() -> None:
    shard = shard_with(at_once(), t=1)
    Streamer(shard, "m0", WORDS._replace(epoch=3)).beat()
    late = Streamer(shard, "m1", WORDS._replace(epoch=2))
    stale = Status(
        StatusCode.STALE_TOPOLOGY,
        "The member's topology epoch 2 is behind the group's topology epoch 3.",
    )
    assert late.beat().status == (stale,)
    assert late.beat().status == (stale,)


def test_standby_tasks_follow_the_groups_settings() -> None:
    settings = {G: GroupSettings(streams_initial_rebalance_delay_ms=0)}

    class Changing:
        def of(self, group_id: str) -> GroupSettings:
            return settings[group_id]

    topics = {"t": 2, "g-repartition": 2, "g-changelog": 2}
    shard = shard_with(GroupConfig(settings=Changing()), **topics)
    members = [Streamer(shard, f"m{number}", COUNTS) for number in range(2)]
    settle_streams(*members)
    assert [each.standby for each in members] == [[], []]
    before = members[0].epoch
    settings[G] = replace(settings[G], streams_num_standby_replicas=1)
    settle_streams(*members)
    assert members[0].epoch > before
    for one, other in (members, reversed(members)):
        stateful = {task for task in other.owned.active if task.subtopology_id == "1"}
        assert one.owned.standby == stateful
    assert all(not each.owned.warmup for each in members)


def test_two_threads_of_a_process_never_have_the_same_task() -> None:
    topics = {"t": 1, "g-repartition": 1, "g-changelog": 1}
    shard = shard_with(at_once(streams_num_standby_replicas=1), **topics)
    members = [Streamer(shard, f"m{number}", COUNTS, "p") for number in range(2)]
    settle_streams(*members)
    assert [each.standby for each in members] == [[], []]
    third = Streamer(shard, "m2", COUNTS, "q")
    settle_streams(*members, third)
    held = [*members[0].owned.all(), *members[1].owned.all()]
    assert len(set(held)) == len(held)
    assert TaskId("1", 0) in {*held} & {*third.owned.all()}


# ---- what members hear of each other -------------------------------------------------------------


def test_members_hear_who_answers_for_which_partitions() -> None:
    shard = shard_with(at_once(), t=2)
    first = Streamer(shard, "m0", endpoint=Endpoint("a", 1))
    answer = first.beat()
    assert (answer.endpoint_epoch, answer.endpoints) == (
        1,
        (EndpointPartitions(Endpoint("a", 1), (("t", (0, 1)),), ()),),
    )
    assert first.beat().endpoints is None
    second = Streamer(shard, "m1", endpoint=Endpoint("b", 2))
    settle_streams(first, second)
    heard = [each for each in first.answers if each.endpoints is not None][-1]
    assert {each.endpoint.host: each.active for each in heard.endpoints} == {
        "a": (("t", (first.active[0][1],)),),
        "b": (("t", (second.active[0][1],)),),
    }
    assert [each for each in first.answers if each.endpoint_epoch < 1] == []
    second.leave()
    told = first.beat()
    assert [each.endpoint.host for each in told.endpoints] == ["a"]


def test_one_member_may_end_the_application() -> None:
    _, (first, second) = streamers(2)
    first.beat(shutdown_application=True)
    shutdown = Status(
        StatusCode.SHUTDOWN_APPLICATION,
        "Streams group member m0 encountered a fatal error and requested a shutdown for the entire "
        "application.",
    )
    assert second.beat().status == (shutdown,)
    first.leave()
    assert second.beat().status == (shutdown,)
    second.leave()
    assert first.beat().status == ()


# ---- requests that mean nothing ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"group_id": ""}, "group_id is empty"),
        ({"member_id": ""}, "member_id is empty"),
        ({"rack_id": ""}, "rack_id is empty"),
        ({"instance_id": ""}, "instance_id is empty"),
        ({"instance_id": "i"}, "streams groups have no static members"),
        ({"member_epoch": -2}, "member_epoch=-2 means nothing"),
        ({"rebalance_timeout_ms": -1}, "rebalance_timeout_ms is missing"),
        ({"rebalance_timeout_ms": -7}, "rebalance_timeout_ms=-7 is below 0"),
        ({"topology": None}, "the topology is missing"),
        ({"owned": None}, "owned (the tasks) is missing"),
        ({"owned": active(0)}, "owned (the tasks) is not empty"),
        ({"member_epoch": 1}, "the topology can only be given by a member that joins"),
        ({"endpoint": Endpoint("h", 70_000)}, "port=70000 of the endpoint"),
    ],
)
def test_a_request_that_means_nothing_is_refused_by_name(
    changes: dict[str, Any], said: str
) -> None:
    shard = shard_with(at_once(), t=1)
    member = Streamer(shard, "m")
    answer = member.send(member.request(**changes))
    assert isinstance(answer, InvalidRequest)
    assert said in str(answer)
    assert shard.log == []


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ((), "the topology has no subtopologies"),
        ((Subtopology("0", ("t",)), Subtopology("0", ("t",))), "have the same id"),
        ((Subtopology("0", ("t",), ("a.*",)),), "reads topics by regular expression"),
        (
            (Subtopology("0", ("t",), state_changelog_topics=(TopicInfo("c", 3),)),),
            "Changelog topic c must have an undefined partition count, but it is set to 3.",
        ),
        (
            (Subtopology("0", ("t",), repartition_source_topics=(TopicInfo("r", -1),)),),
            "repartition topic r has -1 partitions",
        ),
        ((Subtopology("0"),), "reads no topics"),
    ],
)
def test_a_topology_that_nobody_could_run_is_refused(
    parts: tuple[Subtopology, ...], said: str
) -> None:
    shard = shard_with(at_once(), t=1)
    answer = Streamer(shard, "m", WORDS._replace(subtopologies=parts)).beat()
    assert isinstance(answer, StreamsInvalidTopology)
    assert said in str(answer)
    assert shard.log == []
    assert shard.coordinator.groups == {}


def test_tasks_that_there_are_not_are_refused() -> None:
    shard, (member,) = streamers(1, t=2)
    answer = member.send(member.request(owned=active(2)))
    assert isinstance(answer, InvalidRequest)
    assert "Task 2 for subtopology 0 is invalid. Number of tasks for this subtopology: 2" in str(
        answer
    )
    answer = member.send(member.request(owned=active(0, part="x")))
    assert "Subtopology x does not exist in the topology." in str(answer)
    # a topic that has changed meanwhile is not forgotten for it
    set_topic(shard, "t", 3)
    member.send(member.request(owned=active(0, part="x")))
    settle_streams(member)
    assert len(member.active) == 3


def test_members_that_there_are_not() -> None:
    shard = shard_with(at_once(), t=1)
    member = Streamer(shard, "m", epoch=1)
    assert isinstance(member.beat(), GroupIdNotFound)
    assert isinstance(member.leave(), GroupIdNotFound)
    Streamer(shard, "other").beat()
    member.epoch = 1
    assert isinstance(member.beat(), UnknownMemberId)
    assert isinstance(member.leave(), UnknownMemberId)


# ---- offsets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("restarts", [False, True])
def test_members_commit_what_they_have_had_since_their_epoch(restarts: bool) -> None:
    shard, (first, second) = streamers(2)
    if restarts:
        shard.start()
    kept, gone = sorted(first.owned.active)[0], sorted(second.owned.active)[0]
    assert (first.epoch, second.epoch) == (2, 2)
    assert first.commit(5, kept.partition) == OffsetsCommitted({of(kept): None})
    first.epoch = 1  # it has not heard of the present one yet
    assert first.commit(6, kept.partition) == OffsetsCommitted({of(kept): None})
    for epoch, partition, had in (
        (1, gone.partition, "does not have it"),
        (0, kept.partition, "has it since epoch 1"),
        (3, kept.partition, "is at epoch 2"),
    ):
        first.epoch = epoch
        answer = first.commit(7, partition)
        assert isinstance(answer, StaleMemberEpoch)
        assert had in str(answer)
    second.epoch = 1
    answer = second.commit(7, gone.partition)
    assert "has it since epoch 2" in str(answer)


def test_a_topic_that_no_task_reads_is_committed_at_the_present_epoch_only() -> None:
    shard, (first, _) = streamers(2)
    elsewhere = OffsetCommit(
        G, Caller(first.member_id, None, 1), {TopicPartition("u", 0): CommittedOffset(1)}
    )
    answer = shard.answer(lambda c, r: c.commit_offsets(0, r, elsewhere))
    assert isinstance(answer, StaleMemberEpoch)
    elsewhere = elsewhere._replace(caller=Caller(first.member_id, None, 2))
    answer = shard.answer(lambda c, r: c.commit_offsets(0, r, elsewhere))
    assert isinstance(answer, OffsetsCommitted)


def test_strangers_commit_nothing_and_operators_when_nobody_is_there() -> None:
    shard, (first, second) = streamers(2)
    first.member_id = "nobody"
    assert isinstance(first.commit(6), UnknownMemberId)
    by_hand = OffsetCommit(G, Caller(), {TP: CommittedOffset(7)})
    refused = shard.answer(lambda c, r: c.commit_offsets(0, r, by_hand))
    assert isinstance(refused, UnknownMemberId)
    first.member_id = "m0"
    first.leave()
    second.leave()
    taken = shard.answer(lambda c, r: c.commit_offsets(0, r, by_hand))
    assert taken == OffsetsCommitted({TP: None})


def test_offsets_of_a_group_that_works_do_not_expire() -> None:
    shard, (member,) = streamers(1)
    member.commit(5)

    def committed() -> list[int]:
        answer = shard.answer(lambda c, r: c.fetch_offsets(r, OffsetFetch(G, Caller())))
        assert isinstance(answer, OffsetsFetched)
        return [each.offset for each in answer.partitions.values() if each is not None]

    for _ in range(9):
        shard.advance(SESSION_MS - 1)
        member.beat()
    shard.now_ms += 8 * 24 * 3_600_000 - 9 * SESSION_MS
    member.beat()
    assert committed() == [5]
    member.leave()
    shard.advance(24 * 3_600_000)
    assert committed() == []
    assert G not in shard.coordinator.groups


# ---- groups as such ------------------------------------------------------------------------------


def test_a_group_is_listed_and_described_with_its_type() -> None:
    shard = shard_with(at_once(), t=1)
    member = Streamer(shard, "m", process_id="p", endpoint=Endpoint("h", 9))
    settle_streams(member)
    listed = shard.answer(lambda c, r: c.list_groups(r))
    assert listed == [ListedGroup(G, GroupType.STREAMS, "streams", "Stable")]
    assert shard.answer(lambda c, r: c.describe_streams(r, G)) == DescribedStreamsGroup(
        G,
        "Stable",
        1,
        1,
        WORDS,
        (
            DescribedStreamsMember(
                "m", 1, None, None, "client", "host", 0, "p", Endpoint("h", 9), (),
                active(0), active(0),
            ),
        ),
    )  # fmt: skip


def deleted(shard: GroupShard) -> PylogError | None:
    answer = shard.answer(lambda c, r: c.delete_groups(r, DeleteGroups((G,))))
    assert isinstance(answer, GroupsDeleted)
    return answer.groups[G]


def test_a_group_without_members_is_deleted_with_its_topology() -> None:
    shard, (member,) = streamers(1)
    member.commit(5)
    assert isinstance(deleted(shard), NonEmptyGroup)
    member.leave()
    assert deleted(shard) is None
    shard.start()
    assert shard.coordinator.groups == {}
    later = WORDS._replace(epoch=9)
    assert isinstance(Streamer(shard, "m", later).beat(), StreamsHeartbeatAnswer)


def test_an_empty_classic_group_becomes_a_streams_group_and_back_with_its_offsets() -> None:
    shard = shard_with(at_once(), t=1)
    by_hand = OffsetCommit(G, Caller(), {TP: CommittedOffset(7)})
    shard.answer(lambda c, r: c.commit_offsets(0, r, by_hand))
    member = Streamer(shard, "m")
    assert member.beat().assigned == active(0)
    assert len(shard.coordinator.offsets.of(G)) == 1
    shard.start()
    assert state(shard) == "Stable"
    client = Client(shard, "c")
    client.ask_to_join()
    assert isinstance(client.answer, InconsistentGroupProtocol)
    member.leave()
    client.ask_to_join()
    shard.advance(DELAY_MS)
    assert client.joined.generation == 1
    shard.start()
    assert shard.coordinator.groups[G].type is GroupType.CLASSIC
    assert len(shard.coordinator.offsets.of(G)) == 1


def test_ids_of_other_types_are_refused_by_the_apis_of_streams_groups() -> None:
    consumers = shard_with(at_once(), t=1)
    Consumer(consumers, "c").beat()
    classic, _ = stable(1)
    for shard in (consumers, classic):
        for epoch in (0, 3, -1):
            member = Streamer(shard, "m", epoch=max(epoch, 0))
            answer = member.beat() if epoch >= 0 else member.leave()
            assert isinstance(answer, GroupIdNotFound), answer
        described = shard.answer(lambda c, r: c.describe_streams(r, G))
        assert isinstance(described, GroupIdNotFound)
