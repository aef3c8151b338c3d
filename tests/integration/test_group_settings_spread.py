"""Settings of groups hold at each coordinator and leader, while groups work and after restarts."""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest

from pylog import AdminClient, LocalCluster
from pylog.rpc.v1 import group_pb2, share_pb2
from tests.fakes.raw_client import RawClient
from tests.fakes.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.slow]

BROKERS = 3
GROUPS = [f"g-{number}" for number in range(12)]
"""Enough that each broker coordinates some."""
TOPIC, SHARED = "t", "shared"
INTERVAL, SESSION = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"
LOCK = "share.record.lock.duration.ms"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    config = {
        "offsets.topic.num.partitions": "6",
        "share.coordinator.state.topic.num.partitions": "3",
        "group.consumer.min.session.timeout.ms": "1000",
        "group.consumer.min.heartbeat.interval.ms": "500",
    }
    with LocalCluster(BROKERS, config=config) as running:
        yield running


@pytest.fixture(scope="module")
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


class Members:
    """One member of each group, that knows its coordinator."""

    def __init__(self, raw: RawClient) -> None:
        self.raw = raw
        self.coordinators: dict[str, str] = {}
        self.epochs: dict[str, int] = {}

    def find(self) -> None:
        def found() -> bool:
            asked = group_pb2.FindCoordinatorRequest(keys=GROUPS)
            stub = self.raw.group(self.raw.servers[1])
            try:
                told = stub.FindCoordinator(asked, timeout=10).coordinators
                answer = self.raw.metadata(TOPIC, server=1)
            except grpc.RpcError:
                return False
            places = {b.id: f"{b.endpoint.host}:{b.endpoint.port}" for b in answer.brokers}
            if any(each.error.code or each.broker_id not in places for each in told):
                return False
            self.coordinators = {each.key: places[each.broker_id] for each in told}
            return True

        eventually(60, found, "all groups have a coordinator")

    def beat(self, group: str) -> group_pb2.ConsumerGroupHeartbeatResponse | None:
        """The answer; None: the group has no coordinator there, or the member is to join."""
        epoch = self.epochs.get(group, 0)
        request = group_pb2.ConsumerGroupHeartbeatRequest(
            group_id=group, member_id="m", member_epoch=epoch
        )
        if epoch == 0:
            request.rebalance_timeout_ms = 60_000
            request.subscribed_topics.names.append(TOPIC)
            request.owned.SetInParent()
        try:
            stub = self.raw.group(self.coordinators[group])
            answer: group_pb2.ConsumerGroupHeartbeatResponse
            answer = stub.ConsumerGroupHeartbeat(request, timeout=10)
        except grpc.RpcError:
            return None
        if answer.error.code:
            self.epochs[group] = 0
            return None
        self.epochs[group] = answer.member_epoch
        return answer

    def intervals(self) -> set[int | None]:
        """The heartbeat intervals that members of all groups hear."""
        answers = [self.beat(group) for group in GROUPS]
        return {None if each is None else each.heartbeat_interval_ms for each in answers}

    def all_hear(self, interval_ms: int) -> None:
        def hear() -> bool:
            if None in self.intervals():
                self.find()
            return self.intervals() == {interval_ms}

        eventually(60, hear, f"all members hear of {interval_ms} ms")


def join_shared(raw: RawClient) -> None:
    def joined() -> bool:
        for server in raw.servers[1:]:
            request = share_pb2.ShareGroupHeartbeatRequest(group_id=SHARED, member_id="m")
            request.subscribed_topics.names.append(TOPIC)
            try:
                answer = raw.share(server).ShareGroupHeartbeat(request, timeout=20)
            except grpc.RpcError:
                continue
            if not answer.error.code and answer.assignment.topics:
                return True
        asked = group_pb2.FindCoordinatorRequest(keys=[SHARED])
        raw.group(raw.servers[1]).FindCoordinator(asked, timeout=10)
        return False

    eventually(60, joined, "the share group has its state")


class Sessions:
    """One share session of a member with each leader."""

    def __init__(self, raw: RawClient) -> None:
        self.raw = raw
        self.epochs: dict[str, int] = {}

    def locks(self) -> set[int]:
        """The times for which a record is locked, as each leader says."""
        topic_id = self.raw.metadata(TOPIC, server=1).topics[0].topic_id
        found = set()
        for partition in range(BROKERS):
            leader = self.raw.leader(TOPIC, partition, server=1)
            request = share_pb2.ShareFetchRequest(
                group_id=SHARED, member_id="m", max_wait_ms=0, min_bytes=1, max_bytes=1 << 20,
                max_records=10, batch_size=10, share_session_epoch=self.epochs.get(leader, 0),
            )  # fmt: skip
            request.partitions.add(topic_id=topic_id, partition=partition)
            answer = self.raw.share(leader).ShareFetch(request, timeout=20)
            assert not answer.error.code, answer.error
            self.epochs[leader] = request.share_session_epoch + 1
            found.add(answer.acquisition_lock_timeout_ms)
        return found


def test_a_change_holds_at_once_everywhere_and_after_restarts(
    cluster: LocalCluster, admin: AdminClient, raw: RawClient
) -> None:
    raw.create_topic(TOPIC, BROKERS, BROKERS)
    members = Members(raw)
    members.find()
    assert len(set(members.coordinators.values())) == BROKERS
    members.all_hear(5_000)
    join_shared(raw)
    sessions = Sessions(raw)
    assert sessions.locks() == {30_000}

    admin.incremental_alter_configs(
        {
            **{("group", group): {INTERVAL: "7000"} for group in GROUPS},
            ("group", SHARED): {LOCK: "20000"},
        }
    )
    assert members.intervals() == {7_000}  # the next heartbeat, of groups that work
    assert sessions.locks() == {20_000}

    for broker in cluster.brokers:
        cluster.kill(broker)
        cluster.start(broker)
    with RawClient(cluster.bootstrap_servers) as later:
        members.raw = later
        members.find()
        members.all_hear(7_000)
        eventually(60, lambda: _leads_all(later), "each partition has its leader")
        assert Sessions(later).locks() == {20_000}

    admin.incremental_alter_configs(
        {
            **{("group", group): {INTERVAL: None} for group in GROUPS},
            ("group", SHARED): {LOCK: None},
        }
    )
    with RawClient(cluster.bootstrap_servers) as later:
        members.raw = later
        members.find()
        members.all_hear(5_000)
        assert Sessions(later).locks() == {30_000}


def _leads_all(raw: RawClient) -> bool:
    partitions = raw.metadata(TOPIC, server=1).topics[0].partitions
    return all(each.leader > 0 for each in partitions)


def test_a_shorter_session_ends_members_that_are_silent(admin: AdminClient, raw: RawClient) -> None:
    members = Members(raw)
    members.find()
    group = GROUPS[0]
    eventually(30, lambda: members.beat(group) is not None, "the member is in")
    admin.incremental_alter_configs({("group", group): {INTERVAL: "500", SESSION: "1000"}})
    assert members.beat(group) is not None  # from now on

    def is_empty() -> bool:
        stub = raw.group(members.coordinators[group])
        asked = group_pb2.ConsumerGroupDescribeRequest(group_ids=[group])
        (told,) = stub.ConsumerGroupDescribe(asked, timeout=10).groups
        return not told.members

    eventually(30, is_empty, "the silent member has gone")
