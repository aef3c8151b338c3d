"""Streams groups of a running cluster, by raw requests, as a client of Kafka Streams sends them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from pylog import AdminClient, Consumer, LocalCluster, NewTopic, OffsetAndMetadata, errors
from pylog.cli.main import main
from pylog.client.admin.admin_types import StreamsTask, StreamsTasks
from pylog.model import TopicPartition
from pylog.rpc.v1 import group_pb2
from pylog.rpc.v1 import streams_group_pb2 as pb
from tests.fakes.raw_client import RawClient
from tests.fakes.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SECONDS = 20
STATUS = pb.StreamsStatus


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(3, config={"offsets.topic.num.partitions": "6"}) as running:
        yield running
        for log in sorted((running.data_dir / "logs").iterdir()):
            text = log.read_text()
            assert "Traceback" not in text, text[-5000:]
            assert "a defect" not in text


@pytest.fixture(scope="module")
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


def counting(group: str, *, epoch: int = 0) -> pb.Topology:
    """Records of the group's topic by another key, counted."""
    repartition, changelog = f"{group}-repartition", f"{group}-changelog"
    return pb.Topology(
        epoch=epoch,
        subtopologies=[
            pb.Subtopology(
                subtopology_id="0", source_topics=[group], repartition_sink_topics=[repartition]
            ),
            pb.Subtopology(
                subtopology_id="1",
                repartition_source_topics=[pb.StreamsTopicInfo(name=repartition)],
                state_changelog_topics=[
                    pb.StreamsTopicInfo(name=changelog, configs={"cleanup.policy": "compact"})
                ],
            ),
        ],
    )


@dataclass
class Member:
    """One thread of a program."""

    raw: RawClient
    group: str
    member_id: str
    epoch: int = 0
    tasks: pb.StreamsTasks = field(default_factory=pb.StreamsTasks)
    server: str = ""

    def coordinator(self) -> str:
        """The address of the group's coordinator, once it has one."""
        found: list[int] = []

        def ask() -> bool:
            stub = self.raw.group(self.raw.servers[1])
            request = group_pb2.FindCoordinatorRequest(keys=[self.group])
            (answer,) = stub.FindCoordinator(request, timeout=SECONDS).coordinators
            found[:] = [answer.broker_id]
            return not answer.error.code

        eventually(30, ask, "the group has a coordinator")
        brokers = self.raw.metadata(server=1).brokers
        (at,) = [each.endpoint for each in brokers if each.id == found[0]]
        return f"{at.host}:{at.port}"

    def send(self, **changes: Any) -> pb.StreamsGroupHeartbeatResponse:
        self.server = self.server or self.coordinator()
        given: dict[str, Any] = {
            "group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch,
            "owned": self.tasks, "process_id": self.member_id, "client_id": "app",
        }  # fmt: skip
        if self.epoch == 0:
            given |= {"rebalance_timeout_ms": 30_000, "topology": counting(self.group)}
        request = pb.StreamsGroupHeartbeatRequest(**(given | changes))
        stub = self.raw.streams_group(self.server)
        answer: pb.StreamsGroupHeartbeatResponse
        answer = stub.StreamsGroupHeartbeat(request, timeout=SECONDS)
        return answer

    def beat(self, **changes: Any) -> pb.StreamsGroupHeartbeatResponse:
        answer = self.send(**changes)
        if not answer.error.code:
            self.epoch = answer.member_epoch
            if answer.HasField("tasks"):
                self.tasks = answer.tasks
        return answer

    def join(self) -> pb.StreamsGroupHeartbeatResponse:
        """The coordinator may be loading its shard."""
        last: list[pb.StreamsGroupHeartbeatResponse] = []

        def ask() -> bool:
            last[:] = [self.beat()]
            loading = errors.CoordinatorLoadInProgress.code
            return last[0].error.code not in (loading, errors.NotCoordinator.code)

        eventually(30, ask, "the member joins")
        assert not last[0].error.code, last[0].error
        return last[0]

    @property
    def active(self) -> list[tuple[str, list[int]]]:
        return [(each.subtopology_id, list(each.partitions)) for each in self.tasks.active]


def ready(*members: Member) -> None:
    """All send heartbeats until the group is stable."""

    def stable() -> bool:
        answers = [member.beat() for member in members]
        assert [each.error.code for each in answers] == [0] * len(members), answers
        request = pb.StreamsGroupDescribeRequest(group_ids=[members[0].group])
        stub = members[0].raw.streams_group(members[0].server)
        (found,) = stub.StreamsGroupDescribe(request, timeout=SECONDS).groups
        return found.state == "Stable" and not any(each.status for each in answers)

    eventually(30, stable, "the group is stable")


def test_an_application_runs_from_its_first_member_to_its_last(
    cluster: LocalCluster, admin: AdminClient, raw: RawClient
) -> None:
    admin.create_topics(NewTopic("life", 4, 3))
    first, second = Member(raw, "life", "m0"), Member(raw, "life", "m1")
    answer = first.join()
    assert [each.code for each in answer.status] == [STATUS.MISSING_INTERNAL_TOPICS]
    assert "life-changelog, life-repartition" in answer.status[0].detail
    ready(first)  # the controller has made them
    made = {name: len(each.partitions) for name, each in admin.describe_topics(
        ["life-changelog", "life-repartition"]
    ).items()}  # fmt: skip
    assert made == {"life-changelog": 4, "life-repartition": 4}
    found = admin.describe_configs({("topic", "life-changelog"): ["cleanup.policy"]})
    (entries,) = found.values()
    assert entries["cleanup.policy"].value == "compact"
    assert first.active == [("0", [0, 1, 2, 3]), ("1", [0, 1, 2, 3])]

    second.join()
    ready(first, second)
    assert sum(len(numbers) for _, numbers in first.active) == 4
    assert sum(len(numbers) for _, numbers in second.active) == 4

    listed = {each.group_id: each for each in admin.list_groups(types="streams")}
    assert (listed["life"].type, listed["life"].state) == ("streams", "Stable")
    described = admin.describe_groups("life")["life"]
    assert (described.type, described.state) == ("streams", "Stable")
    by_id = {member.member_id: member for member in described.members}
    assert by_id.keys() == {"m0", "m1"}
    shown = by_id["m0"]
    assert (
        shown.tasks
        == shown.target_tasks
        == StreamsTasks(
            tuple(StreamsTask(part, number) for part, numbers in first.active for number in numbers)
        )
    )
    assert (shown.client_id, shown.process_id, shown.epoch) == ("app", "m0", first.epoch)

    with pytest.raises(errors.NonEmptyGroup):
        admin.delete_groups("life")
    for member in (first, second):
        assert member.send(member_epoch=-1, topology=None).member_epoch == -1
    assert admin.describe_groups("life")["life"].state == "Empty"
    admin.delete_groups("life")
    with pytest.raises(errors.GroupIdNotFound):
        admin.describe_groups("life")


def test_members_commit_at_their_epoch(admin: AdminClient, raw: RawClient) -> None:
    admin.create_topics(NewTopic("commits", 1, 3))
    member = Member(raw, "commits", "m")
    member.join()
    ready(member)

    def commit(epoch: int) -> int:
        offset = group_pb2.CommittedOffset(topic="commits", offset=5, leader_epoch=-1)
        request = group_pb2.OffsetCommitRequest(
            group_id="commits", member_id="m", generation_or_epoch=epoch, offsets=[offset]
        )
        answer = raw.group(member.server).OffsetCommit(request, timeout=SECONDS)
        return answer.error.code or answer.offsets[0].error.code

    assert commit(member.epoch) == 0
    assert commit(member.epoch - 1) == errors.StaleMemberEpoch.code
    place = TopicPartition("commits", 0)
    assert admin.list_group_offsets("commits") == {place: OffsetAndMetadata(5)}
    with pytest.raises(errors.UnknownMemberId, match="live members"):
        admin.alter_group_offsets("commits", {place: 1})


def test_the_id_is_refused_by_apis_of_other_types(
    cluster: LocalCluster, admin: AdminClient, raw: RawClient
) -> None:
    admin.create_topics(NewTopic("typed", 1, 3))
    member = Member(raw, "typed", "m")
    member.join()
    for protocol in ("consumer", "classic"):
        consumer = Consumer(
            "typed",
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="typed",
            group_protocol=protocol,
        )
        with (
            consumer,
            pytest.raises((errors.GroupIdNotFound, errors.InconsistentGroupProtocol)),
        ):
            consumer.poll(10)
    with Consumer(
        "typed", bootstrap_servers=cluster.bootstrap_servers, group_id="consumers"
    ) as consumer:
        consumer.poll(1)
        eventually(30, lambda: bool(consumer.poll(0.1) or consumer.assignment()), "it is assigned")
        other = Member(raw, "consumers", "m")
        assert other.send().error.code == errors.GroupIdNotFound.code


def test_topics_that_cannot_be_made_are_told(admin: AdminClient, raw: RawClient) -> None:
    admin.create_topics(NewTopic("stuck", 2, 3))
    topology = counting("stuck")
    topology.subtopologies[1].state_changelog_topics[0].replication_factor = 9
    member = Member(raw, "stuck", "m")
    member.server = member.coordinator()
    eventually(30, lambda: not member.send(topology=topology).error.code, "the shard is loaded")
    details: list[str] = []

    def told() -> bool:
        details[:] = [each.detail for each in member.send(topology=topology).status]
        return any("Creation failed: stuck-changelog" in each for each in details)

    eventually(30, told, "the failure is told")
    assert "replication" in details[0]


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": ""}, errors.InvalidRequest),
        ({"member_id": ""}, errors.InvalidRequest),
        ({"member_epoch": -7}, errors.InvalidRequest),
        ({"instance_id": "i"}, errors.InvalidRequest),
        ({"topology": None}, errors.InvalidRequest),
        ({"topology": pb.Topology()}, errors.StreamsInvalidTopology),
        ({"owned": None}, errors.InvalidRequest),
        ({"rebalance_timeout_ms": None}, errors.InvalidRequest),
        ({"member_epoch": 3, "topology": None}, errors.GroupIdNotFound),
        ({"user_endpoint": pb.StreamsEndpoint(host="h", port=-1)}, errors.InvalidRequest),
    ],
)
def test_bad_heartbeats_are_refused_by_name(
    raw: RawClient, changes: dict[str, Any], error: type[errors.PylogError]
) -> None:
    member = Member(raw, "bad", "m")
    member.server = member.coordinator()
    codes = (errors.CoordinatorLoadInProgress.code, errors.CoordinatorNotAvailable.code)
    eventually(30, lambda: member.send(**changes).error.code not in codes, "the shard is loaded")
    answer = member.send(**changes)
    assert answer.error.code == error.code, answer.error
    assert answer.error.message


def test_the_command_line_shows_tasks(
    cluster: LocalCluster,
    admin: AdminClient,
    raw: RawClient,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    admin.create_topics(NewTopic("shown", 1, 3))
    member = Member(raw, "shown", "m")
    member.join()
    ready(member)
    monkeypatch.setenv("PYLOG_BOOTSTRAP_SERVERS", cluster.bootstrap_servers)
    assert main(("groups", "describe", "shown")) == 0
    out = capsys.readouterr().out
    assert "group shown, streams protocol, Stable" in out
    assert "0_0, 1_0" in out
    assert main(("groups", "members", "shown")) == 0
    assert "0_0, 1_0" in capsys.readouterr().out
    assert main(("groups", "list", "--json")) == 0
    listed = {each["group_id"]: each["type"] for each in json.loads(capsys.readouterr().out)}
    assert listed["shown"] == "streams"
