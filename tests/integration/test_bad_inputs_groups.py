"""Bad inputs 29, 35 and 37 to 40 (reliability.md): what a broker answers to members of groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from pylog import Consumer, LocalCluster, errors
from pylog.rpc.v1 import group_pb2 as pb
from tests.fakes.raw_client import RawClient
from tests.fakes.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SECONDS = 20
MIB = 1 << 20
RANGE = pb.MemberProtocol(name="range", metadata=b"m")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Two brokers, and groups of three members at most."""
    with LocalCluster(2, config={"group.max.size": "3"}) as running:
        yield running
        for log in sorted((running.data_dir / "logs").iterdir()):
            text = log.read_text()
            assert "Traceback" not in text, text[-5000:]
            assert "a defect" not in text


class Groups:
    """Requests about one group, to its coordinator or to another broker."""

    def __init__(self, raw: RawClient, group: str) -> None:
        self.raw = raw
        self.group = group
        self.coordinator, self.other = self._places()
        self.stub = raw.group(self.coordinator)
        loading = errors.CoordinatorLoadInProgress.code
        eventually(30, lambda: self.fetch().error.code != loading, "the shard is loaded")

    def _places(self) -> tuple[str, str]:
        found: list[int] = []

        def ask() -> bool:
            stub = self.raw.group(self.raw.servers[1])
            request = pb.FindCoordinatorRequest(keys=[self.group])
            (answer,) = stub.FindCoordinator(request, timeout=SECONDS).coordinators
            found[:] = [answer.broker_id]
            return not answer.error.code

        eventually(30, ask, "the group has a coordinator")
        places = {
            each.id: f"{each.endpoint.host}:{each.endpoint.port}"
            for each in self.raw.metadata(server=1).brokers
        }
        coordinator = places.pop(found[0])
        (other,) = places.values()
        return coordinator, other

    def fetch(self) -> pb.OffsetFetchResponse:
        request = pb.OffsetFetchRequest(group_id=self.group, member_epoch=-1, all=True)
        answer: pb.OffsetFetchResponse = self.stub.OffsetFetch(request, timeout=SECONDS)
        return answer

    def join_request(self, **changes: Any) -> pb.JoinGroupRequest:
        given: dict[str, Any] = {
            "group_id": self.group, "session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000,
            "protocol_type": "consumer", "protocols": [RANGE],
        }  # fmt: skip
        return pb.JoinGroupRequest(**(given | changes))

    def join(self, **changes: Any) -> pb.JoinGroupResponse:
        request = self.join_request(**changes)
        answer: pb.JoinGroupResponse = self.stub.JoinGroup(request, timeout=SECONDS)
        return answer

    def member(self) -> pb.JoinGroupResponse:
        """One that is in."""
        asked = self.join()
        assert asked.error.code == errors.MemberIdRequired.code, asked.error
        return self.join(member_id=asked.member_id)

    def sync(self, member: pb.JoinGroupResponse, **shares: bytes) -> Any:
        request = pb.SyncGroupRequest(
            group_id=self.group, member_id=member.member_id, generation=member.generation,
            assignments={name.replace("_", "-"): share for name, share in shares.items()},
        )  # fmt: skip
        return self.stub.SyncGroup.future(request, timeout=SECONDS)

    def commit(self, *offsets: pb.CommittedOffset, **changes: Any) -> list[int]:
        """The codes."""
        given: dict[str, Any] = {"group_id": self.group, "generation_or_epoch": -1}
        request = pb.OffsetCommitRequest(**(given | changes), offsets=offsets)
        answer = self.stub.OffsetCommit(request, timeout=SECONDS)
        if answer.error.code:
            return [answer.error.code]
        return [each.error.code for each in answer.offsets]

    def committed(self) -> dict[tuple[str, int], int]:
        return {(each.topic, each.partition): each.offset for each in self.fetch().offsets}


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"group_id": ""}, errors.InvalidGroupId, "group_id is empty"),
        ({"group_id": "g" * MIB}, errors.InvalidGroupId, "the limit is 255"),
        ({"instance_id": ""}, errors.InvalidRequest, "instance_id is empty"),
        ({"instance_id": "i" * MIB}, errors.InvalidRequest, "the limit is 249"),
        ({"member_id": "m" * MIB}, errors.InvalidRequest, "the limit is 512"),
        ({"protocol_type": "p" * MIB}, errors.InvalidRequest, "the limit is 512"),
    ],
)
def test_29_names_that_are_empty_or_of_a_mebibyte(
    raw: RawClient, changes: dict[str, Any], error: type[errors.PylogError], words: str
) -> None:
    answer = Groups(raw, "names").join(**changes)
    assert answer.error.code == error.code, answer.error
    assert words in answer.error.message
    assert len(answer.error.message) < 1_000


def test_29_a_clients_id_of_a_mebibyte_is_cut(raw: RawClient) -> None:
    answer = Groups(raw, "names").join(client_id="c" * MIB)
    assert answer.error.code == errors.MemberIdRequired.code
    assert answer.member_id.startswith("c" * 255 + "-")


def test_35_a_broker_that_does_not_coordinate_the_group(raw: RawClient) -> None:
    groups = Groups(raw, "elsewhere")
    other = raw.group(groups.other)
    wrong = errors.NotCoordinator.code
    answers = [
        other.JoinGroup(groups.join_request(), timeout=SECONDS),
        other.SyncGroup(pb.SyncGroupRequest(group_id="elsewhere"), timeout=SECONDS),
        other.Heartbeat(pb.GroupHeartbeatRequest(group_id="elsewhere"), timeout=SECONDS),
        other.OffsetFetch(pb.OffsetFetchRequest(group_id="elsewhere", all=True), timeout=SECONDS),
        other.DescribeGroups(
            pb.DescribeGroupsRequest(group_ids=["elsewhere"]), timeout=SECONDS
        ).groups[0],
        other.DeleteGroups(pb.DeleteGroupsRequest(group_ids=["elsewhere"]), timeout=SECONDS).groups[
            0
        ],
    ]
    assert [each.error.code for each in answers] == [wrong] * len(answers)
    assert all(each.error.message for each in answers)


def test_37_commits_that_are_wrong_leave_nothing(raw: RawClient) -> None:
    raw.create_topic("wrong", partitions=1)
    groups = Groups(raw, "wrong")

    def at(offset: int, topic: str = "wrong", partition: int = 0, words: str = "") -> Any:
        return pb.CommittedOffset(
            topic=topic, partition=partition, offset=offset, leader_epoch=-1, metadata=words
        )

    assert groups.commit(at(-1)) == [errors.InvalidCommitOffsetSize.code]
    assert groups.commit(at(5, "nowhere")) == [errors.UnknownTopicOrPartition.code]
    assert groups.commit(at(5, partition=7)) == [errors.UnknownTopicOrPartition.code]
    assert groups.commit(at(5, words="x" * 5_000)) == [errors.OffsetMetadataTooLarge.code]
    assert groups.commit(at(5), member_id="m", generation_or_epoch=3) == [
        errors.IllegalGeneration.code
    ]
    assert groups.committed() == {}
    # One that is wrong does not keep the others, and one beyond the end is kept, as in Kafka.
    assert groups.commit(at(1 << 40), at(5, "nowhere")) == [0, errors.UnknownTopicOrPartition.code]
    assert groups.committed() == {("wrong", 0): 1 << 40}

    member = groups.member()
    groups.sync(member).result()
    old = {"member_id": member.member_id, "generation_or_epoch": member.generation - 1}
    assert groups.commit(at(6), **old) == [errors.IllegalGeneration.code]
    assert groups.commit(at(6)) == [errors.UnknownMemberId.code]
    assert groups.committed() == {("wrong", 0): 1 << 40}


@pytest.mark.parametrize("session_ms", [-1, 0, 5_999, 1_800_001])
def test_38_a_session_beyond_the_brokers_bounds(raw: RawClient, session_ms: int) -> None:
    answer = Groups(raw, "sessions").join(session_timeout_ms=session_ms)
    assert answer.error.code == errors.InvalidSessionTimeout.code
    assert "from 6000 to 1800000" in answer.error.message


def test_38_a_heartbeat_that_comes_after_the_session(cluster: LocalCluster) -> None:
    with pytest.raises(
        errors.InvalidConfig, match=r"heartbeat_interval_ms=7000: it must be less than session"
    ):
        Consumer(
            "t",
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="g",
            group_protocol="classic",
            session_timeout_ms=7_000,
            heartbeat_interval_ms=7_000,
        )


def test_39_members_that_do_not_go_with_the_group(raw: RawClient) -> None:
    groups = Groups(raw, "strangers")
    member = groups.member()
    groups.sync(member).result()
    none = errors.InconsistentGroupProtocol.code
    sticky = pb.MemberProtocol(name="sticky", metadata=b"m")
    for changes in ({"protocols": [sticky]}, {"protocol_type": "connect"}, {"protocols": []}):
        answer = groups.join(**changes)
        assert answer.error.code == none, answer.error
        assert "'strangers'" in answer.error.message
    big = pb.MemberProtocol(name="range", metadata=b"x" * (10 * MIB))
    answer = groups.join(protocols=[big])
    assert answer.error.code == errors.InvalidRequest.code
    assert "metadata of a member: 10485760 bytes; the limit is 1048576" in answer.error.message
    many = [pb.MemberProtocol(name=f"p{n}") for n in range(101)]
    assert groups.join(protocols=many).error.code == errors.InvalidRequest.code


def test_39_a_group_that_is_full(raw: RawClient) -> None:
    groups = Groups(raw, "full")
    for _ in range(3):  # each has a place while it is expected
        assert groups.join().error.code == errors.MemberIdRequired.code
    answer = groups.join()
    assert answer.error.code == errors.GroupMaxSizeReached.code
    assert "group.max.size" in answer.error.message


def test_40_assignments_that_are_not_the_leaders_change_nothing(raw: RawClient) -> None:
    groups = Groups(raw, "shares")
    first, second = groups.join().member_id, groups.join().member_id
    stub = groups.stub
    joins = [
        stub.JoinGroup.future(groups.join_request(member_id=each), timeout=SECONDS)
        for each in (first, second)
    ]
    one, two = (each.result() for each in joins)
    assert one.generation == two.generation
    leader, follower = (one, two) if one.leader == one.member_id else (two, one)

    def sync(member: Any, shares: dict[str, bytes]) -> Any:
        request = pb.SyncGroupRequest(
            group_id="shares", member_id=member.member_id, generation=member.generation,
            assignments=shares,
        )  # fmt: skip
        return stub.SyncGroup.future(request, timeout=SECONDS)

    ids = (leader.member_id, follower.member_id)
    stolen = sync(follower, dict.fromkeys(ids, b"stolen"))
    stranger = sync(pb.JoinGroupResponse(member_id="nobody", generation=one.generation), {})
    assert stranger.result().error.code == errors.UnknownMemberId.code
    old = sync(pb.JoinGroupResponse(member_id=first, generation=one.generation - 1), {})
    assert old.result().error.code == errors.IllegalGeneration.code
    # The leader leaves the follower out: that one has nothing, as in Kafka.
    kept = sync(leader, {leader.member_id: b"all", "nobody": b"more"})
    assert (kept.result().error.code, kept.result().assignment) == (0, b"all")
    assert (stolen.result().error.code, stolen.result().assignment) == (0, b"")
