"""Event in, whole list of effects out; what waits for the commit; start; ids; stopping."""

from __future__ import annotations

import pytest

from broker.controller.controller import Controller
from broker.controller.effects import (
    AppendRecords,
    Effect,
    Publish,
    RejectSession,
    Reply,
    Report,
    SnapshotDue,
    TellSession,
)
from broker.controller.settings import ControllerSettings
from broker.metadata.admin import (
    CreatedTopic,
    CreateTopics,
    ElectedLeader,
    ElectLeaders,
    LeadersElected,
    TopicsCreated,
)
from broker.metadata.image import MetadataImage
from broker.metadata.messages import (
    AlterPartition,
    BrokerRegistered,
    BrokerState,
    BrokerUnregistered,
    Failure,
    HeartbeatAccepted,
    MetadataBatch,
    PartitionIsr,
    PartitionsAltered,
    ProducerIdBlock,
    ShutdownPermitted,
)
from broker.metadata.records import (
    BrokerChangeRecord,
    ClusterRecord,
    ControllerEpochRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from pylog import errors
from pylog.model import (
    NO_LEADER,
    BrokerEpoch,
    BrokerId,
    ControllerEpoch,
    LeaderEpoch,
    NewTopic,
    Offset,
    PartitionEpoch,
    ProducerId,
    TopicId,
)
from tests.fakes.controller_shell import ControllerShell, counting_ids

ONE = ControllerSettings(expected_brokers=1)
EPOCH_1 = ControllerEpoch(1)
B1 = BrokerId(1)


def new_controller() -> Controller:
    make = counting_ids()
    assert callable(make)
    return Controller(MetadataImage(), ONE, make)


def committed(controller: Controller, effects: list[Effect]) -> list[Effect]:
    """What follows when the appends among `effects` commit."""
    follow: list[Effect] = []
    for effect in effects:
        if isinstance(effect, AppendRecords):
            follow += controller.on_committed(0, effect.last_offset)
    return follow


# ---- start, commit ----------------------------------------------------------------------------


def test_the_first_start_names_the_cluster_and_raises_the_epoch_before_anything_else() -> None:
    controller = new_controller()
    cluster = "BwAAAAAAAAAAAAAAAAAAAQ"
    records = (ClusterRecord(cluster), ControllerEpochRecord(EPOCH_1))
    assert controller.start(0) == [AppendRecords(Offset(0), records)]
    assert controller.image == MetadataImage()  # nothing is shown before the commit
    assert controller.on_committed(0, Offset(1)) == [
        Publish(MetadataBatch(EPOCH_1, Offset(0), records, committed_offset=Offset(1))),
        Report(f"controller epoch 1 of cluster {cluster}"),
    ]
    assert controller.image.cluster_id == cluster


def test_every_start_raises_the_epoch_and_keeps_the_cluster() -> None:
    first = ControllerShell()
    image = MetadataImage.from_records(first.log, Offset(len(first.log) - 1))
    second = ControllerShell(image)
    assert second.log == [ControllerEpochRecord(ControllerEpoch(2))]
    assert second.controller.image.cluster_id == first.controller.image.cluster_id


def test_registration_in_whole_effects() -> None:
    controller = new_controller()
    committed(controller, controller.start(0))
    shell = ControllerShell(settings=ONE)  # only for the shape of its requests
    request = shell.registration(1)
    record = RegisterBrokerRecord(
        B1, BrokerEpoch(2), request.incarnation_id, request.host_id, None,
        request.client_endpoint, request.replication_endpoint, request.directory_id,
        request.boot_id,
    )  # fmt: skip
    effects = controller.register_broker(5, request, "token")
    assert effects == [AppendRecords(Offset(2), (record,))]
    assert committed(controller, effects) == [
        Publish(MetadataBatch(EPOCH_1, Offset(2), (record,), committed_offset=Offset(2))),
        Report("broker 1 registered from host host-1, epoch 2"),
        Reply("token", BrokerRegistered(BrokerEpoch(2), EPOCH_1)),
    ]
    # The answer got lost: the same incarnation asks again and gets the same epoch.
    assert controller.register_broker(6, request, "again") == [
        Reply("again", BrokerRegistered(BrokerEpoch(2), EPOCH_1))
    ]
    opened = controller.session_opened(7, B1, BrokerEpoch(2), request.incarnation_id)
    assert opened == [TellSession(B1, BrokerEpoch(2), True, False, EPOCH_1)]
    # It has not replayed its own registration, or does not want to serve yet: it stays fenced.
    assert controller.session_progress(8, B1, BrokerEpoch(2), Offset(1), True) == []
    assert controller.session_progress(8, B1, BrokerEpoch(2), Offset(2), False) == []
    change = BrokerChangeRecord(B1, BrokerEpoch(2), fenced=False, in_controlled_shutdown=False)
    effects = controller.session_progress(9, B1, BrokerEpoch(2), Offset(2), True)
    assert effects == [AppendRecords(Offset(3), (change,))]
    assert committed(controller, effects) == [
        Publish(MetadataBatch(EPOCH_1, Offset(3), (change,), committed_offset=Offset(3))),
        TellSession(B1, BrokerEpoch(2), False, False, EPOCH_1),
        Report("broker 1 is unfenced"),
    ]


def test_what_rests_on_an_uncommitted_record_waits_for_it_refusals_too() -> None:
    shell = ControllerShell(settings=ONE)
    one = shell.join(1)
    controller = shell.controller
    first = controller.create_topics(0, CreateTopics((NewTopic("t"),), timeout_ms=0), "first")
    append = first[0]
    assert isinstance(append, AppendRecords)
    assert [type(record) for record in append.records] == [TopicRecord, PartitionRecord]
    second = controller.create_topics(0, CreateTopics((NewTopic("t"),), timeout_ms=0), "second")
    beat = controller.heartbeat(0, one.broker_id, one.epoch, "beat")
    assert (second, beat) == ([], [])
    assert "t" not in controller.image.topics_by_name
    assert "t" in controller.decided.topics_by_name
    topic_id = TopicId("BwAAAAAAAAAAAAAAAAAAAg")
    assert controller.on_committed(0, append.last_offset)[1:] == [
        Reply(
            "second",
            TopicsCreated(
                (
                    CreatedTopic(
                        "t",
                        Failure(errors.TopicAlreadyExists.code, "topic t: it already exists"),
                    ),
                )
            ),
        ),
        Reply("beat", HeartbeatAccepted(EPOCH_1, False)),
        Reply("first", TopicsCreated((CreatedTopic("t", None, topic_id, 1, 1),))),
    ]


def test_several_operations_commit_with_one_call() -> None:
    shell = ControllerShell(settings=ONE)
    one = shell.join(1)
    controller = shell.controller
    effects = controller.allocate_producer_ids(0, one.broker_id, one.epoch, "a")
    effects += controller.allocate_producer_ids(0, one.broker_id, one.epoch, "b")
    appends = [effect for effect in effects if isinstance(effect, AppendRecords)]
    assert effects == appends
    assert appends[1].first_offset == appends[0].last_offset + 1
    replies = controller.on_committed(0, appends[1].last_offset)
    assert [e for e in replies if isinstance(e, Reply)] == [
        Reply("a", ProducerIdBlock(ProducerId(0), 1_000)),
        Reply("b", ProducerIdBlock(ProducerId(1_000), 1_000)),
    ]
    assert controller.on_committed(0, appends[1].last_offset) == []


def test_producer_ids_are_never_given_twice_over_restarts() -> None:
    # B-T27
    shell = ControllerShell(settings=ONE)
    one = shell.join(1)
    assert shell.call("allocate_producer_ids", B1, one.epoch) == ProducerIdBlock(
        ProducerId(0), 1_000
    )
    assert shell.log[-1] == ProducerIdsRecord(B1, one.epoch, ProducerId(1_000))
    again = ControllerShell(
        MetadataImage.from_records(shell.controller.image.records(), shell.controller.image.offset),
        settings=ONE,
    )
    answer = again.call("allocate_producer_ids", B1, one.epoch)
    assert answer == ProducerIdBlock(ProducerId(1_000), 1_000)
    stale = again.call("allocate_producer_ids", B1, BrokerEpoch(one.epoch - 1))
    assert isinstance(stale, Failure)
    assert stale.code == errors.StaleBrokerEpoch.code


def test_a_snapshot_is_due_after_so_many_records() -> None:
    shell = ControllerShell(
        settings=ControllerSettings(expected_brokers=1, snapshot_interval_records=10)
    )
    shell.join(1)
    assert not [e for e in shell.others if isinstance(e, SnapshotDue)]
    shell.create(partitions=8, replication=1)
    offset = shell.controller.image.offset
    assert [e for e in shell.others if isinstance(e, SnapshotDue)] == [SnapshotDue(offset, EPOCH_1)]


# ---- metadata for brokers ---------------------------------------------------------------------


def test_a_watcher_gets_what_is_committed_from_its_offset_on() -> None:
    shell = ControllerShell(settings=ONE)
    shell.join(1)
    shell.create(replication=1)
    batches = shell.controller.batches_since(Offset(0))
    assert [record for batch in batches for record in batch.records] == shell.log
    image = MetadataImage()
    for batch in batches:
        image.apply(batch)
    assert image == shell.controller.image
    late = shell.controller.batches_since(Offset(3))
    assert late[0].first_offset <= 3
    assert shell.controller.batches_since(Offset(image.offset + 1)) == ()


def test_a_watcher_too_far_behind_gets_a_snapshot() -> None:
    settings = ControllerSettings(expected_brokers=1, tail_records_max=3)
    shell = ControllerShell(settings=settings)
    shell.join(1)
    shell.create(replication=1)
    (batch,) = shell.controller.batches_since(Offset(0))
    assert batch.snapshot
    image = MetadataImage()
    image.apply(batch)
    assert image == shell.controller.image
    # And one that is only a little behind does not.
    assert not shell.controller.batches_since(image.offset)[0].snapshot


# ---- stopping ---------------------------------------------------------------------------------


def test_a_controlled_shutdown_moves_the_leaders_first() -> None:
    shell = ControllerShell()
    brokers = [shell.join(n) for n in (1, 2, 3)]
    shell.create(partitions=3)
    assert shell.call("controlled_shutdown", B1, brokers[0].epoch) == ShutdownPermitted(0)
    for number in range(3):
        partition = shell.partition(number=number)
        assert partition.leader != B1
        assert B1 not in partition.isr
    shell.broken(brokers[0])
    shell.advance(400, alive=tuple(brokers[1:]))
    assert shell.controller.image.brokers[B1].fenced
    assert shell.controller.image.brokers[B1].in_controlled_shutdown
    # It may join no ISR and is not unfenced until it registers anew.
    refused = shell.alter([1, 2, 3]).partitions[0].failure
    assert refused is not None
    assert refused.code == errors.IneligibleReplica.code
    shell.join(1, life=2)
    assert not shell.controller.image.brokers[B1].in_controlled_shutdown


def test_a_stopping_leader_waits_for_a_replica_that_may_catch_up() -> None:
    shell = ControllerShell()
    one, two = shell.join(1), shell.join(2)
    shell.create(assignment={0: [1, 2]})
    shell.alter([1])  # 2 lags behind
    controller = shell.controller
    shell.perform(controller.controlled_shutdown(shell.now_ms, B1, one.epoch, "stop"))
    assert "stop" not in shell.replies
    answer = shell.alter([1, 2])  # 2 has caught up: it leads, and 1 learns that it does not
    assert answer.partitions[0].failure is not None
    assert answer.partitions[0].failure.code == errors.NewLeaderElected.code
    assert answer.partitions[0].leader == two.broker_id
    assert shell.replies.pop("stop") == ShutdownPermitted(0)
    assert shell.partition().isr == (2,)
    assert (controller.elections.elections, controller.elections.unclean) == (1, 0)


def test_a_stopping_leader_does_not_wait_for_ever() -> None:
    shell = ControllerShell()
    one, two = shell.join(1), shell.join(2)
    shell.create(assignment={0: [1, 2]})
    shell.alter([1])
    shell.perform(shell.controller.controlled_shutdown(shell.now_ms, B1, one.epoch, "stop"))
    shell.advance(2_900, alive=(one, two))
    assert "stop" not in shell.replies
    shell.advance(200, alive=(one, two))
    assert shell.replies.pop("stop") == ShutdownPermitted(0)
    partition = shell.partition()
    assert (partition.leader, partition.isr) == (NO_LEADER, ())
    assert partition.eligible_leader_replicas == (1,)


def test_a_cluster_that_stops_in_order_keeps_its_in_sync_replicas() -> None:
    shell = ControllerShell()
    brokers = [shell.join(n) for n in (1, 2, 3)]
    shell.create()
    before = shell.partition()
    shell.others.clear()
    shell.perform(shell.controller.stop_cluster(shell.now_ms))
    assert shell.others == [
        TellSession(b.broker_id, b.epoch, False, True, EPOCH_1) for b in brokers
    ]
    for broker in brokers:
        assert shell.call("controlled_shutdown", broker.broker_id, broker.epoch) == (
            ShutdownPermitted(0)
        )
        shell.broken(broker)
    shell.advance(10_000)
    assert shell.partition() == before
    shell.perform(shell.controller.cluster_stopped(shell.now_ms))
    stopped = shell.partition()
    assert (stopped.leader, stopped.isr) == (NO_LEADER, ())
    assert stopped.eligible_leader_replicas == before.isr
    assert shell.controller.image.live_brokers() == []


@pytest.mark.parametrize("first", [1, 2, 3])
def test_after_a_stop_of_the_cluster_any_of_the_in_sync_replicas_leads(first: int) -> None:
    """Also when the others have lost their disks, and with one in-sync replica enough."""
    shell = ControllerShell()
    brokers = [shell.join(n) for n in (1, 2, 3)]
    shell.create()
    shell.perform(shell.controller.stop_cluster(shell.now_ms))
    for broker in brokers:
        shell.broken(broker)
    shell.perform(shell.controller.cluster_stopped(shell.now_ms))
    image = MetadataImage.from_records(
        shell.controller.image.records(), shell.controller.image.offset
    )
    again = ControllerShell(image, settings=shell.settings, now_ms=5)
    for other in {1, 2, 3} - {first}:
        again.register(other, life=2, log_intact=False)
    again.join(first, life=2)
    partition = again.partition()
    assert (partition.leader, partition.isr) == (first, (first,))


def test_a_leader_that_outlives_the_stop_cannot_shrink_its_isr() -> None:
    shell = ControllerShell()
    one, *_ = [shell.join(n) for n in (1, 2, 3)]
    shell.create()
    before = shell.partition()
    shell.perform(shell.controller.stop_cluster(shell.now_ms))
    shell.perform(shell.controller.cluster_stopped(shell.now_ms))
    wish = PartitionIsr(
        before.topic_id, 0, before.leader_epoch, before.partition_epoch,
        (BrokerState(one.broker_id, one.epoch),),
    )  # fmt: skip
    answer = shell.call("alter_partition", AlterPartition(one.broker_id, one.epoch, (wish,)))
    assert isinstance(answer, PartitionsAltered)
    assert [altered.failure.code for altered in answer.partitions if altered.failure] == [
        errors.FencedLeaderEpoch.code
    ]
    assert shell.partition().eligible_leader_replicas == before.isr


def test_a_broker_is_unregistered_only_when_it_is_gone() -> None:
    shell = ControllerShell()
    one, two = shell.join(1), shell.join(2)
    shell.create(assignment={0: [1, 2]}, config={"min.insync.replicas": "2"})
    refused = shell.call("unregister_broker", B1)
    assert isinstance(refused, Failure)
    assert refused.code == errors.InvalidRequest.code
    shell.lose(one)
    assert shell.partition().eligible_leader_replicas == (1,)
    assert shell.call("unregister_broker", B1) == BrokerUnregistered(B1)
    assert shell.partition().eligible_leader_replicas == ()
    assert B1 not in shell.controller.image.brokers
    unknown = shell.call("unregister_broker", B1)
    assert isinstance(unknown, Failure)
    assert unknown.code == errors.BrokerIdNotRegistered.code
    assert two.broker_id in shell.controller.image.brokers


# ---- elections that are asked for ---------------------------------------------------------------


def test_preferred_leaders_come_back_by_the_periodic_balance() -> None:
    settings = ControllerSettings(expected_brokers=3, leader_imbalance_check_ms=5_000)
    shell = ControllerShell(settings=settings)
    brokers = [shell.join(n) for n in (1, 2, 3)]
    shell.create(partitions=6)
    shell.lose(brokers[0])
    brokers[0] = shell.join(1, life=2)
    assert all(shell.partition(number=n).leader != 1 for n in range(6))
    for number in range(6):
        isr = [*shell.partition(number=number).isr, 1]
        assert shell.alter([int(b) for b in isr], number=number).failure is None
    assert shell.partition().isr[-1] == 1  # it joins at the end, the leader stays (K24)
    assert all(shell.partition(number=n).leader != 1 for n in range(6))
    shell.advance(5_100, alive=tuple(brokers))
    for number in range(6):
        partition = shell.partition(number=number)
        assert partition.leader == partition.replicas[0]


def test_a_small_imbalance_is_left_alone() -> None:
    settings = ControllerSettings(
        expected_brokers=2, leader_imbalance_check_ms=5_000, leader_imbalance_percentage=50
    )
    shell = ControllerShell(settings=settings)
    one, two = shell.join(1), shell.join(2)
    shell.create(assignment={0: [1, 2], 1: [1, 2]})
    # 2 leads one of the two partitions that 1 should lead: 50 % is not above 50 %
    shell.alter([1], number=0)
    shell.lose(one)
    one = shell.join(1, life=2)
    shell.alter([2, 1], number=1)
    partition = shell.partition(number=1)
    assert partition.leader == 2
    shell.advance(6_000, alive=(one, two))
    assert shell.partition(number=1).leader == 2


def test_elections_by_command() -> None:
    shell = ControllerShell()
    brokers = [shell.join(n) for n in (1, 2, 3)]
    shell.create(assignment={0: [1, 2, 3]})
    shell.lose(brokers[0])
    shell.join(1, life=2)

    def elect(*, unclean: bool = False, partition: int = 0) -> ElectedLeader:
        answer = shell.call("elect_leaders", ElectLeaders(unclean, (("t", partition),)))
        assert isinstance(answer, LeadersElected)
        return answer.partitions[0]

    away = elect().failure
    assert away is not None
    assert away.code == errors.PreferredLeaderNotAvailable.code
    shell.alter([2, 3, 1])
    assert elect() == ElectedLeader("t", 0, leader=B1)
    needless = elect().failure
    assert needless is not None
    assert needless.code == errors.ElectionNotNeeded.code
    unknown = elect(partition=7).failure
    assert unknown is not None
    assert unknown.code == errors.UnknownTopicOrPartition.code
    clean = elect(unclean=True).failure
    assert clean is not None
    assert clean.code == errors.ElectionNotNeeded.code
    for_all = shell.call("elect_leaders", ElectLeaders(True))
    assert isinstance(for_all, LeadersElected)
    assert for_all.failure is not None
    assert for_all.failure.code == errors.InvalidRequest.code


def test_an_unclean_election_by_command_is_loud() -> None:
    shell = ControllerShell()
    one, two = shell.join(1), shell.join(2)
    shell.create(assignment={0: [1, 2]})
    shell.alter([1])
    shell.lose(one)
    assert shell.partition().leader == NO_LEADER
    answer = shell.call("elect_leaders", ElectLeaders(True, (("t", 0),)))
    assert answer == LeadersElected((ElectedLeader("t", 0, leader=two.broker_id),))
    assert (shell.partition().isr, shell.partition().eligible_leader_replicas) == ((2,), ())
    reports = [e for e in shell.others if isinstance(e, Report) and e.warning]
    assert "acknowledged records may be lost" in reports[-1].message


def test_a_session_of_nobody_is_rejected() -> None:
    shell = ControllerShell()
    shell.perform(shell.controller.session_opened(0, B1, BrokerEpoch(3), "i"))
    (rejected,) = [e for e in shell.others if isinstance(e, RejectSession)]
    assert rejected.failure.code == errors.StaleBrokerEpoch.code


def test_the_cluster_is_described_with_its_unfenced_brokers() -> None:
    shell = ControllerShell()
    shell.join(1)
    shell.register(2)
    description = shell.controller.describe_cluster()
    assert [(b.id, b.host, b.port) for b in description.brokers] == [(1, "host-1", 9001)]
    assert description.controller_epoch == 1
    assert shell.controller.missing_brokers() == []


def test_a_partition_of_a_topic_starts_at_epoch_zero_with_all_in_sync() -> None:
    shell = ControllerShell()
    for number in (1, 2, 3):
        shell.join(number)
    topic_id = shell.create()
    assert shell.partition() == PartitionRecord(
        topic_id, 0, (BrokerId(1), BrokerId(2), BrokerId(3)),
        (BrokerId(1), BrokerId(2), BrokerId(3)), B1, LeaderEpoch(0), PartitionEpoch(0),
        directories=("directory-1", "directory-2", "directory-3"),
    )  # fmt: skip
