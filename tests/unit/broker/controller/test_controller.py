"""Event in, whole list of effects out; what waits for the commit; start; ids."""

from __future__ import annotations

from pylog import errors
from pylog.model import (
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
from pylog_broker.controller.controller import Controller
from pylog_broker.controller.effects import (
    AppendRecords,
    Effect,
    Publish,
    RejectSession,
    Reply,
    Report,
    SnapshotDue,
    TellSession,
    machine_of,
)
from pylog_broker.controller.settings import ControllerSettings
from pylog_broker.metadata.admin import CreatedTopic, CreateTopics, TopicsCreated
from pylog_broker.metadata.features import METADATA_VERSION, NEWEST_LEVEL
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import (
    BrokerRegistered,
    Failure,
    HeartbeatAccepted,
    MetadataBatch,
    ProducerIdBlock,
)
from pylog_broker.metadata.records import (
    BrokerChangeRecord,
    ClusterRecord,
    ControllerEpochRecord,
    FeatureLevelRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from tests.fakes.controller_shell import ControllerShell, counting_ids

ONE = ControllerSettings(expected_brokers=1)
EPOCH_1 = ControllerEpoch(1)
B1 = BrokerId(1)


def new_controller() -> Controller:
    make = counting_ids()
    assert callable(make)
    return Controller(machine_of(MetadataImage()), ONE, make)


def committed(controller: Controller, effects: list[Effect]) -> list[Effect]:
    """The effects that follow when the appends among `effects` commit."""
    follow: list[Effect] = []
    for effect in effects:
        if isinstance(effect, AppendRecords):
            follow += controller.on_committed(0, effect.last_offset)
    return follow


# ---- start, commit ----------------------------------------------------------------------------


def test_the_first_start_names_the_cluster_and_raises_the_epoch_before_anything_else() -> None:
    controller = new_controller()
    cluster = "BwAAAAAAAAAAAAAAAAAAAQ"
    records = (
        ClusterRecord(cluster),
        ControllerEpochRecord(EPOCH_1, 77),
        FeatureLevelRecord(METADATA_VERSION, NEWEST_LEVEL),
    )
    assert controller.start(0, 77) == [AppendRecords(Offset(0), records)]
    assert controller.image == MetadataImage()  # nothing is shown before the commit
    assert controller.on_committed(0, Offset(2)) == [
        Publish(MetadataBatch(EPOCH_1, Offset(0), records, committed_offset=Offset(2))),
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
        B1, BrokerEpoch(3), request.incarnation_id, request.host_id, None,
        request.listeners, request.directory_id,
        request.boot_id, software=request.software,
    )  # fmt: skip
    effects = controller.register_broker(5, request, "token")
    assert effects == [AppendRecords(Offset(3), (record,))]
    assert committed(controller, effects) == [
        Publish(MetadataBatch(EPOCH_1, Offset(3), (record,), committed_offset=Offset(3))),
        Report("broker 1 registered from host host-1, epoch 3"),
        Reply("token", BrokerRegistered(BrokerEpoch(3), EPOCH_1)),
    ]
    # The answer got lost: the same incarnation asks again and gets the same epoch.
    assert controller.register_broker(6, request, "again") == [
        Reply("again", BrokerRegistered(BrokerEpoch(3), EPOCH_1))
    ]
    opened = controller.session_opened(7, B1, BrokerEpoch(3), request.incarnation_id)
    assert opened == [TellSession(B1, BrokerEpoch(3), True, False, EPOCH_1)]
    # It has not replayed its own registration, or does not want to serve yet: it stays fenced.
    assert controller.session_progress(8, B1, BrokerEpoch(3), Offset(2), True) == []
    assert controller.session_progress(8, B1, BrokerEpoch(3), Offset(3), False) == []
    change = BrokerChangeRecord(B1, BrokerEpoch(3), fenced=False, in_controlled_shutdown=False)
    effects = controller.session_progress(9, B1, BrokerEpoch(3), Offset(3), True)
    assert effects == [AppendRecords(Offset(4), (change,))]
    assert committed(controller, effects) == [
        Publish(MetadataBatch(EPOCH_1, Offset(4), (change,), committed_offset=Offset(4))),
        TellSession(B1, BrokerEpoch(3), False, False, EPOCH_1),
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


# ---- what else there is to ask ---------------------------------------------------------------


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
