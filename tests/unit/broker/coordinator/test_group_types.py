"""An id that one type of group uses, asked for by the APIs of the others: Kafka's codes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pylog.errors import (
    GroupIdNotFound,
    InconsistentGroupProtocol,
    NonEmptyGroup,
    UnknownMemberId,
)
from pylog_broker.coordinator.groups.classic.messages import (
    Heartbeat,
    LeaveGroup,
    Leaving,
    SyncGroup,
)
from pylog_broker.coordinator.groups.consumer.messages import DescribedConsumerGroup
from pylog_broker.coordinator.groups.group import Caller, GroupType
from pylog_broker.coordinator.groups.messages import (
    CommittedOffset,
    DeleteGroups,
    DescribedGroup,
    ListedGroup,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
)
from pylog_broker.coordinator.groups.share.messages import DescribedShareGroup
from pylog_broker.coordinator.groups.streams.messages import DescribedStreamsGroup
from tests.fakes.classic_clients import AT_ONCE, TP, Client, G, settle
from tests.fakes.consumer_members import Consumer, settle_consumers, shard_with
from tests.fakes.group_shard import GroupShard
from tests.fakes.share_members import Sharer, settle_sharers
from tests.fakes.streams_members import Streamer, at_once, settle_streams

CONNECT = "connect"
"""The protocol type of a group of the classic protocol that no consumer can ever join."""


def _classic() -> GroupShard:
    shard = shard_with(AT_ONCE, t=2)
    worker = Client(shard, "w", protocol_type=CONNECT)
    worker.ask_to_join()
    _ = worker.joined
    worker.sync({worker.member_id: b"all"})
    return shard


def _consumer() -> GroupShard:
    shard = shard_with(t=2)
    settle_consumers(Consumer(shard, "m"))
    return shard


def _share() -> GroupShard:
    shard = shard_with(t=2)
    settle_sharers(Sharer(shard, "m"))
    return shard


def _streams() -> GroupShard:
    shard = shard_with(at_once(), t=2)
    settle_streams(Streamer(shard, "m"))
    return shard


GROUPS: dict[GroupType, Callable[[], GroupShard]] = {
    GroupType.CLASSIC: _classic,
    GroupType.CONSUMER: _consumer,
    GroupType.SHARE: _share,
    GroupType.STREAMS: _streams,
}


def join(shard: GroupShard) -> Any:
    client = Client(shard, "c")
    client.ask_to_join()
    return client.answer


def sync(shard: GroupShard) -> Any:
    request = SyncGroup(G, "c", None, 1, "consumer", "range", {})
    return shard.answer(lambda c, r: c.sync(0, r, request))


def heartbeat(shard: GroupShard) -> Any:
    return shard.answer(lambda c, r: c.heartbeat(r, Heartbeat(G, "c", None, 1)))


def consumer_join(shard: GroupShard) -> Any:
    return Consumer(shard, "c").beat()


def consumer_beat(shard: GroupShard) -> Any:
    return Consumer(shard, "c", epoch=1).beat()


def consumer_leave(shard: GroupShard) -> Any:
    return Consumer(shard, "c", epoch=1).leave()


def share_join(shard: GroupShard) -> Any:
    return Sharer(shard, "c").beat()


def share_beat(shard: GroupShard) -> Any:
    return Sharer(shard, "c", epoch=1).beat()


def share_leave(shard: GroupShard) -> Any:
    return Sharer(shard, "c", epoch=1).leave()


def streams_join(shard: GroupShard) -> Any:
    return Streamer(shard, "c").beat()


def streams_beat(shard: GroupShard) -> Any:
    return Streamer(shard, "c", epoch=1).beat()


def streams_leave(shard: GroupShard) -> Any:
    return Streamer(shard, "c", epoch=1).leave()


def describe_streams(shard: GroupShard) -> Any:
    return shard.answer(lambda c, r: c.describe_streams(r, G))


def describe(shard: GroupShard) -> Any:
    return shard.answer(lambda c, r: c.describe_classic(r, G))


def describe_consumer(shard: GroupShard) -> Any:
    return shard.answer(lambda c, r: c.describe_consumer(r, G))


def describe_share(shard: GroupShard) -> Any:
    return shard.answer(lambda c, r: c.describe_share(r, G))


def commit(shard: GroupShard) -> Any:
    request = OffsetCommit(G, Caller(), {TP: CommittedOffset(1)})
    return shard.answer(lambda c, r: c.commit_offsets(0, r, request))


def fetch(shard: GroupShard) -> Any:
    return shard.answer(lambda c, r: c.fetch_offsets(r, OffsetFetch(G, Caller("c", None, 1))))


def delete_offsets(shard: GroupShard) -> Any:
    return shard.answer(lambda c, r: c.delete_offsets(r, OffsetDelete(G, (TP,))))


CLASSIC, CONSUMER, SHARE = GroupType.CLASSIC, GroupType.CONSUMER, GroupType.SHARE
STREAMS = GroupType.STREAMS
REFUSED: list[tuple[Callable[[GroupShard], Any], GroupType, type[Exception]]] = [
    (join, CLASSIC, InconsistentGroupProtocol),
    (join, SHARE, InconsistentGroupProtocol),
    (sync, SHARE, UnknownMemberId),
    (heartbeat, SHARE, UnknownMemberId),
    (consumer_join, CLASSIC, GroupIdNotFound),
    (consumer_join, SHARE, GroupIdNotFound),
    (consumer_beat, CLASSIC, GroupIdNotFound),
    (consumer_beat, SHARE, GroupIdNotFound),
    (consumer_leave, CLASSIC, GroupIdNotFound),
    (consumer_leave, SHARE, GroupIdNotFound),
    (share_join, CLASSIC, GroupIdNotFound),
    (share_join, CONSUMER, GroupIdNotFound),
    (share_beat, CLASSIC, GroupIdNotFound),
    (share_beat, CONSUMER, GroupIdNotFound),
    (share_leave, CLASSIC, GroupIdNotFound),
    (share_leave, CONSUMER, GroupIdNotFound),
    (describe, CONSUMER, GroupIdNotFound),
    (describe, SHARE, GroupIdNotFound),
    (describe_consumer, CLASSIC, GroupIdNotFound),
    (describe_consumer, SHARE, GroupIdNotFound),
    (describe_share, CLASSIC, GroupIdNotFound),
    (describe_share, CONSUMER, GroupIdNotFound),
    (commit, SHARE, GroupIdNotFound),
    (fetch, SHARE, GroupIdNotFound),
    (delete_offsets, SHARE, GroupIdNotFound),
    (join, STREAMS, InconsistentGroupProtocol),
    (sync, STREAMS, UnknownMemberId),
    (heartbeat, STREAMS, UnknownMemberId),
    *((ask, STREAMS, GroupIdNotFound) for ask in (consumer_join, consumer_beat, consumer_leave)),
    *((ask, STREAMS, GroupIdNotFound) for ask in (share_join, share_beat, share_leave)),
    *((ask, STREAMS, GroupIdNotFound) for ask in (describe, describe_consumer, describe_share)),
    *(
        (ask, kind, GroupIdNotFound)
        for ask in (streams_join, streams_beat, streams_leave, describe_streams)
        for kind in (CLASSIC, CONSUMER, SHARE)
    ),
    (commit, STREAMS, UnknownMemberId),
    (fetch, STREAMS, UnknownMemberId),
]


@pytest.mark.parametrize(
    ("ask", "kind", "error"), REFUSED, ids=lambda each: getattr(each, "__name__", str(each))
)
def test_an_id_is_refused_by_the_apis_of_another_type(
    ask: Callable[[GroupShard], Any], kind: GroupType, error: type[Exception]
) -> None:
    shard = GROUPS[kind]()
    before = len(shard.log)
    answer = ask(shard)
    assert isinstance(answer, error), answer
    assert G in str(answer)
    assert len(shard.log) == before
    assert shard.coordinator.groups[G].type is kind


@pytest.mark.parametrize("kind", [CONSUMER, SHARE, STREAMS])
def test_a_member_that_is_none_leaves_no_group_by_the_classic_protocol(kind: GroupType) -> None:
    shard = GROUPS[kind]()
    request = LeaveGroup(G, (Leaving("nobody", None),))
    answer = shard.answer(lambda c, r: c.leave(0, r, request))
    error = answer if isinstance(answer, Exception) else answer.members[0][1]
    assert isinstance(error, UnknownMemberId)


def test_each_type_is_listed_described_and_deleted_as_what_it_is() -> None:
    described: dict[GroupType, tuple[Callable[[GroupShard], Any], type[Any]]] = {
        CLASSIC: (describe, DescribedGroup),
        CONSUMER: (describe_consumer, DescribedConsumerGroup),
        SHARE: (describe_share, DescribedShareGroup),
        STREAMS: (describe_streams, DescribedStreamsGroup),
    }
    protocol_types = {
        CLASSIC: CONNECT, CONSUMER: "consumer", SHARE: "share", STREAMS: "streams",
    }  # fmt: skip
    for kind, made in GROUPS.items():
        shard = made()
        listed = shard.answer(lambda c, r: c.list_groups(r))
        assert listed == [ListedGroup(G, kind, protocol_types[kind], "Stable")]
        ask, answers = described[kind]
        assert isinstance(ask(shard), answers)
        deleted = shard.answer(lambda c, r: c.delete_groups(r, DeleteGroups((G,))))
        assert isinstance(deleted.groups[G], NonEmptyGroup)


def test_a_type_survives_another_coordinator() -> None:
    for kind, made in GROUPS.items():
        shard = made()
        shard.start()
        assert shard.coordinator.groups[G].type is kind


def test_an_id_is_free_for_every_type_when_its_group_is_deleted() -> None:
    shard = shard_with(AT_ONCE, t=2)
    member = Consumer(shard, "m")
    settle_consumers(member)
    member.leave()
    shard.answer(lambda c, r: c.delete_groups(r, DeleteGroups((G,))))
    sharer = Sharer(shard, "m")
    settle_sharers(sharer)
    sharer.leave()
    shard.answer(lambda c, r: c.delete_groups(r, DeleteGroups((G,))))
    client = Client(shard, "c")
    client.ask_to_join()
    settle(client)
    assert shard.coordinator.groups[G].type is CLASSIC
