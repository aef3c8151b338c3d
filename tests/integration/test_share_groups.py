"""Share groups of a running cluster, by raw requests."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from pylog import AdminClient, ConfigResource, LocalCluster, errors
from pylog.clock import SYSTEM_CLOCK
from pylog.records.builder import encode_batch
from pylog.rpc.v1 import admin_pb2, group_pb2, share_pb2
from tests.fakes.raw_client import RawClient
from tests.fakes.waiting import eventually

pytestmark = [pytest.mark.integration, pytest.mark.slow]

ACCEPT, RELEASE, REJECT, RENEW = b"\x01", b"\x02", b"\x03", b"\x04"
SECONDS = 20.0
LOCK_MS = 2_000
CONFIG = {
    "group.share.record.lock.duration.ms": str(LOCK_MS),
    "group.share.min.record.lock.duration.ms": "1000",
    "offsets.topic.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
    "share.coordinator.snapshot.update.records.per.snapshot": "3",
    "share.coordinator.state.topic.prune.interval.ms": "1000",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(3, config=CONFIG) as running:
        yield running
        for log in sorted((running.data_dir / "logs").iterdir()):
            text = log.read_text()
            assert "Traceback" not in text, text[-5000:]
            assert "a defect" not in text


@dataclass
class Member:
    """One member of a share group, which asks whichever broker leads."""

    raw: RawClient
    group: str
    name: str
    topic: str
    epoch: int = 0
    topic_id: str = ""
    session: int = 0
    leader: str = ""
    got: list[tuple[int, int, int]] = field(default_factory=list)

    def coordinator(self) -> str:
        for server in self.raw.servers:
            try:
                asked = group_pb2.FindCoordinatorRequest(keys=[self.group])
                (found,) = self.raw.group(server).FindCoordinator(asked, timeout=5).coordinators
            except Exception:  # noqa: BLE001 -- that broker is down
                continue
            if found.error.code:
                continue
            return self.address(found.broker_id)
        return ""

    def address(self, broker: int) -> str:
        for server in range(len(self.raw.servers)):
            try:
                brokers = self.raw.metadata(server=server).brokers
            except Exception:  # noqa: BLE001 -- that broker is down
                continue
            for each in brokers:
                if each.id == broker:
                    return f"{each.endpoint.host}:{each.endpoint.port}"
        return ""

    def heartbeat(self, epoch: int | None = None) -> share_pb2.ShareGroupHeartbeatResponse:
        request = share_pb2.ShareGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.name,
            member_epoch=self.epoch if epoch is None else epoch,
        )
        if request.member_epoch == 0:
            request.subscribed_topics.names.append(self.topic)
        stub = self.raw.share(self.coordinator())
        answer: share_pb2.ShareGroupHeartbeatResponse
        answer = stub.ShareGroupHeartbeat(request, timeout=SECONDS)
        if not answer.error.code:
            self.epoch = answer.member_epoch
        return answer

    def join(self) -> None:
        def joined() -> bool:
            server = self.coordinator()
            if not server:
                return False
            answer = self.heartbeat()
            if answer.error.code:
                return False
            for each in answer.assignment.topics:
                self.topic_id = each.topic_id
            return bool(self.topic_id)

        eventually(40, joined, "the member has its partition")

    def fetch(
        self,
        *acks: tuple[int, int, bytes],
        wait_ms: int = 0,
        epoch: int | None = None,
        records: int = 100,
        partition: int = 0,
        limit: bool = True,
    ) -> share_pb2.ShareFetchResponse:
        request = share_pb2.ShareFetchRequest(
            group_id=self.group,
            member_id=self.name,
            share_session_epoch=self.session if epoch is None else epoch,
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=records,
            batch_size=100,
            acquire_mode=share_pb2.RECORD_LIMIT if limit else share_pb2.BATCH_OPTIMIZED,
        )
        item = request.partitions.add(topic_id=self.topic_id, partition=partition)
        add_acks(item, acks)
        server = self.leader or self.raw.leader(self.topic, partition)
        answer: share_pb2.ShareFetchResponse
        answer = self.raw.share(server).ShareFetch(request, timeout=SECONDS)
        if not answer.error.code:
            self.session = request.share_session_epoch + 1
        return answer

    def acquire(
        self, *acks: tuple[int, int, bytes], wait_ms: int = 5_000, records: int = 100
    ) -> list[tuple[int, int, int]]:
        """First and last offset and delivery count of what it has got."""
        answer = self.fetch(*acks, wait_ms=wait_ms, records=records)
        assert answer.error.code == 0, answer.error
        found = []
        for each in answer.partitions:
            assert each.error.code == 0, each.error
            assert each.acknowledge_error.code == 0, each.acknowledge_error
            found += [(r.first_offset, r.last_offset, r.delivery_count) for r in each.acquired]
        return found

    def acknowledge(
        self, *acks: tuple[int, int, bytes], epoch: int | None = None, renews: bool = False
    ) -> share_pb2.ShareAcknowledgeResponse:
        request = share_pb2.ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.name,
            share_session_epoch=self.session if epoch is None else epoch,
            is_renew_ack=renews,
        )
        add_acks(request.partitions.add(topic_id=self.topic_id, partition=0), acks)
        server = self.leader or self.raw.leader(self.topic, 0)
        answer: share_pb2.ShareAcknowledgeResponse
        answer = self.raw.share(server).ShareAcknowledge(request, timeout=SECONDS)
        if not answer.error.code:
            self.session = request.share_session_epoch + 1
        return answer

    def accept(self, *acks: tuple[int, int, bytes], renews: bool = False) -> None:
        answer = self.acknowledge(*acks, renews=renews)
        assert answer.error.code == 0, answer.error
        assert [each.error.code for each in answer.partitions] == [0], answer.partitions


def add_acks(item: share_pb2.SharePartitionFetch, acks: tuple[tuple[int, int, bytes], ...]) -> None:
    for first, last, types in acks:
        item.acknowledgements.add(first_offset=first, last_offset=last, types=types)


GROUPS = itertools.count()


@pytest.fixture
def group(topic: str) -> str:
    return f"shares-{next(GROUPS)}"


@pytest.fixture
def members(raw: RawClient, topic: str, group: str, admin_set: Callable[..., None]) -> list[Member]:
    admin_set(group, "share.auto.offset.reset", "earliest")
    made = [Member(raw, group, name, topic) for name in "abc"]
    for member in made:
        member.join()
    return made


@pytest.fixture
def admin_set(cluster: LocalCluster) -> Callable[..., None]:
    def set_(group: str, name: str, value: str) -> None:
        with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.incremental_alter_configs({ConfigResource("group", group): {name: value}})

    return set_


def produce(raw: RawClient, topic: str, count: int, batches: int = 1) -> None:
    for _ in range(batches):
        batch = encode_batch([b"v"] * count, timestamps=SYSTEM_CLOCK.wall_ms())
        ack = raw.produce(raw.leader(topic), topic, batch)
        assert ack.error.code == 0, ack.error


def test_three_members_read_one_partition(
    raw: RawClient, topic: str, members: list[Member]
) -> None:
    produce(raw, topic, 10, batches=3)
    a, b, c = members
    assert a.acquire(records=10) == [(0, 9, 1)]
    assert b.acquire(records=10) == [(10, 19, 1)]
    assert c.acquire(records=3) == [(20, 22, 1)]
    # Records that a releases go to b, and those that it rejects to nobody.
    a.accept((0, 9, bytes((1, 1, 2, 2, 3, 1, 1, 1, 1, 1))))
    assert b.acquire((10, 19, ACCEPT), records=2) == [(2, 3, 2)]
    b.accept((2, 3, ACCEPT))
    # A record that nobody acknowledges comes back when its lock is over.
    assert sorted(a.acquire(records=7, wait_ms=0)) == [(23, 29, 1)]
    a.accept((23, 29, ACCEPT))
    assert b.acquire(wait_ms=4 * LOCK_MS) == [(20, 22, 2)]
    late = c.acknowledge((20, 22, ACCEPT))
    (item,) = late.partitions
    assert item.error.code == errors.InvalidRecordState.code
    b.accept((20, 22, RENEW), renews=True)
    b.accept((20, 22, ACCEPT))
    offsets(members[0], start=30, lag=0)


def offsets(member: Member, *, start: int, lag: int) -> None:
    def told() -> bool:
        request = share_pb2.DescribeShareGroupOffsetsRequest()
        request.groups.add(group_id=member.group, all=True)
        stub = member.raw.share(member.coordinator())
        (answer,) = stub.DescribeShareGroupOffsets(request, timeout=SECONDS).groups
        assert answer.error.code == 0, answer.error
        found = [(each.start_offset, each.lag) for each in answer.offsets]
        return found == [(start, lag)]

    eventually(30, told, f"the group is at {start}, with a lag of {lag}")


def test_a_member_that_goes_gives_back_what_it_has(
    raw: RawClient, topic: str, members: list[Member]
) -> None:
    produce(raw, topic, 10)
    a, b, _ = members
    assert a.acquire() == [(0, 9, 1)]
    answer = a.fetch((0, 4, ACCEPT), epoch=-1)
    assert answer.error.code == 0
    # The program of a member that ends its session in order has not seen the rest.
    assert b.acquire() == [(5, 9, 1)]
    again = a.fetch(epoch=2)
    assert again.error.code == errors.ShareSessionNotFound.code


def test_deliveries_are_counted_up_to_the_limit(
    raw: RawClient, topic: str, members: list[Member]
) -> None:
    produce(raw, topic, 1)
    a, b, _ = members
    for delivery in range(1, 6):
        member = (a, b)[delivery % 2]
        assert member.acquire() == [(0, 0, delivery)]
        member.accept((0, 0, RELEASE))
    assert a.acquire(wait_ms=500) == []
    offsets(a, start=1, lag=0)


def test_state_survives_its_coordinator_and_the_leader(
    cluster: LocalCluster, raw: RawClient, admin_set: Callable[..., None]
) -> None:
    group = f"shares-{next(GROUPS)}"
    admin_set(group, "share.auto.offset.reset", "earliest")
    raw.create_topic("survives", 1, 3)
    a, b = (Member(raw, group, name, "survives") for name in "ab")
    a.join()
    b.join()
    produce(raw, "survives", 10)
    assert a.acquire() == [(0, 9, 1)]
    a.accept((0, 3, ACCEPT), (4, 9, RELEASE))
    assert b.acquire() == [(4, 9, 2)]
    b.accept((4, 5, ACCEPT), (6, 9, RELEASE))
    for broker in cluster.brokers:
        cluster.kill(broker)
        cluster.start(broker)
        eventually(60, lambda: _has_leader(raw, "survives"), "the topic has a leader")
    a.session = 0
    counts: list[tuple[int, int, int]] = []

    def acquired() -> bool:
        a.session = 0
        answer = a.fetch(wait_ms=1_000)
        for each in answer.partitions:
            counts.extend((r.first_offset, r.last_offset, r.delivery_count) for r in each.acquired)
        return bool(counts)

    eventually(120, acquired, "the group goes on")
    assert counts == [(6, 9, 3)]
    a.accept((6, 9, ACCEPT))
    offsets(a, start=10, lag=0)


def _has_leader(raw: RawClient, topic: str) -> bool:
    leaders = set()
    for server in range(1, len(raw.servers)):
        try:
            leaders.add(raw.partition(topic, server=server).leader)
        except Exception:  # noqa: BLE001 -- that broker is down
            return False
    return len(leaders) == 1 and min(leaders) >= 0


# ---- who looks after groups ----------------------------------------------------------------------


def test_groups_are_listed_described_and_deleted_with_their_state(
    raw: RawClient, topic: str, members: list[Member]
) -> None:
    produce(raw, topic, 3)
    a = members[0]
    assert a.acquire() == [(0, 2, 1)]
    a.accept((0, 1, ACCEPT))
    server = a.coordinator()
    listed = raw.group(server).ListGroups(group_pb2.ListGroupsRequest(types=["share"]), timeout=9)
    states = {each.group_id: (each.state, each.type) for each in listed.groups}
    assert states[a.group] == ("Stable", "share")
    described = raw.share(server).ShareGroupDescribe(
        share_pb2.ShareGroupDescribeRequest(group_ids=[a.group, "nobody"]), timeout=9
    )
    found, nobody = described.groups
    assert sorted(each.member_id for each in found.members) == ["a", "b", "c"]
    assert [topic.topic for topic in found.members[0].assigned.topics] == [topic]
    assert (found.assignor, nobody.error.code) == ("simple", errors.GroupIdNotFound.code)
    busy = delete(a)
    assert busy == errors.NonEmptyGroup.code
    for member in members:
        member.fetch(epoch=-1)
        assert member.heartbeat(-1).error.code == 0
    offsets(a, start=2, lag=1)
    assert delete(a) == 0
    assert delete(a) == errors.GroupIdNotFound.code
    again = Member(raw, a.group, "d", topic)
    again.join()
    # The settings of the group are there yet; its state is not, so it begins at the beginning.
    assert again.acquire() == [(0, 2, 1)]


def delete(member: Member) -> int:
    request = group_pb2.DeleteGroupsRequest(group_ids=[member.group])
    (answer,) = member.raw.group(member.coordinator()).DeleteGroups(request, timeout=20).groups
    return int(answer.error.code)


def test_offsets_are_set_and_forgotten_while_nobody_is_there(
    raw: RawClient, topic: str, members: list[Member]
) -> None:
    produce(raw, topic, 10)
    a, *_ = members
    assert a.acquire() == [(0, 9, 1)]
    stub = raw.share(a.coordinator())
    wanted = share_pb2.AlterShareGroupOffsetsRequest(group_id=a.group)
    wanted.offsets.add(topic=topic, partition=0, start_offset=7)
    wanted.offsets.add(topic="nowhere", partition=0, start_offset=7)
    assert stub.AlterShareGroupOffsets(wanted, timeout=9).error.code == errors.NonEmptyGroup.code
    for member in members:
        member.fetch(epoch=-1)
        member.heartbeat(-1)
    altered = stub.AlterShareGroupOffsets(wanted, timeout=9)
    assert altered.error.code == 0
    codes = [each.error.code for each in altered.offsets]
    assert codes == [0, errors.UnknownTopicOrPartition.code]
    offsets(a, start=7, lag=3)
    a.epoch = a.session = 0
    a.join()
    assert a.acquire() == [(7, 9, 1)]
    a.accept((7, 9, ACCEPT))
    a.fetch(epoch=-1)
    a.heartbeat(-1)
    gone = share_pb2.DeleteShareGroupOffsetsRequest(group_id=a.group, topics=[topic, "nowhere"])
    deleted = stub.DeleteShareGroupOffsets(gone, timeout=9)
    codes = [each.error.code for each in deleted.topics]
    assert codes == [0, errors.UnknownTopicOrPartition.code]
    a.epoch = a.session = 0
    a.join()
    assert a.acquire() == [(0, 9, 1)]


def test_an_id_has_one_type_of_group(raw: RawClient, topic: str, members: list[Member]) -> None:
    a, *_ = members
    stub = raw.group(a.coordinator())
    request = group_pb2.ConsumerGroupHeartbeatRequest(
        group_id=a.group, member_id="x", member_epoch=0, rebalance_timeout_ms=1_000
    )
    request.subscribed_topics.names.append(topic)
    request.owned.SetInParent()
    refused = stub.ConsumerGroupHeartbeat(request, timeout=9)
    assert refused.error.code == errors.GroupIdNotFound.code
    commit = group_pb2.OffsetCommitRequest(group_id=a.group, generation_or_epoch=-1)
    commit.offsets.add(topic=topic, partition=0, offset=1, leader_epoch=-1)
    refused = stub.OffsetCommit(commit, timeout=9)
    assert refused.error.code == errors.GroupIdNotFound.code


def test_bad_requests_are_refused_by_name(
    raw: RawClient, topic: str, members: list[Member]
) -> None:
    produce(raw, topic, 3)
    a, *_ = members
    stub = raw.share(raw.leader(topic))
    for request, what in (
        (share_pb2.ShareFetchRequest(member_id="a"), "group_id is empty"),
        (share_pb2.ShareFetchRequest(group_id="g"), "member_id is empty"),
        (share_pb2.ShareFetchRequest(group_id="g", member_id="a"), "at least 1 of each"),
    ):
        refused = stub.ShareFetch(request, timeout=9)
        assert what in refused.error.message
    assert a.acquire() == [(0, 2, 1)]
    for acks, what in (
        (((0, 0, b"\x07"),), "acknowledgement type 7"),
        (((0, 2, b"\x01\x01"),), "2 types; one for all, or 3"),
        (((1, 1, ACCEPT), (0, 0, ACCEPT)), "batches come in order"),
        (((0, 0, RENEW),), "renew"),
        (((-1, 0, ACCEPT),), "batches come in order"),
    ):
        (item,) = a.acknowledge(*acks).partitions
        assert item.error.code == errors.InvalidRequest.code
        assert what in item.error.message
    (item,) = a.acknowledge((2, 99, ACCEPT)).partitions
    assert item.error.code == errors.InvalidRecordState.code
    assert "offset 3 is not acquired by member 'a'" in item.error.message
    a.accept((0, 2, ACCEPT))


def test_state_of_a_topic_goes_with_it(raw: RawClient, topic: str, members: list[Member]) -> None:
    produce(raw, topic, 1)
    a, *_ = members
    assert a.acquire() == [(0, 0, 1)]
    raw.admin().DeleteTopics(admin_pb2.DeleteTopicsRequest(names=[topic]), timeout=20)

    def is_gone() -> bool:
        request = share_pb2.DescribeShareGroupOffsetsRequest()
        request.groups.add(group_id=a.group, all=True)
        (answer,) = raw.share(a.coordinator()).DescribeShareGroupOffsets(request, timeout=9).groups
        return not answer.error.code and not answer.offsets

    eventually(30, is_gone, "the group has no state of the topic")
    a.leader = raw.servers[1]
    answer = a.fetch(epoch=0)
    assert [each.error.code for each in answer.partitions] == [errors.UnknownTopicId.code]
