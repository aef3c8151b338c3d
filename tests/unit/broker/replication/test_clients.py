"""What producers and consumers get from the replica manager, error by error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from broker.metadata.records import ConfigRecord, ConfigResourceType
from broker.replication.messages import (
    ColdRead,
    DeleteRecords,
    DeleteRecordsDone,
    Fetch,
    FetchDone,
    OffsetQuery,
    PartitionAck,
    PartitionBatch,
    PartitionData,
    PartitionFetch,
    Produce,
    ProduceDone,
    ReplicaFailed,
)
from broker.replication.settings import ReplicationSettings
from broker.storage.segment_reader import PagesCold
from pylog import errors
from pylog.model import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from pylog.records.builder import encode_batch
from tests.fakes import bad_batches
from tests.fakes.broker_group import T0, TOPIC_ID, WALL_MS, BrokerGroup

ONE, TWO, THREE = (BrokerId(number) for number in (1, 2, 3))
T1, T99 = TopicPartition("t", 1), TopicPartition("t", 99)


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    group = BrokerGroup(tmp_path)
    group.create_topic(partitions=2)
    group.run()
    return group


def freeze(group: BrokerGroup, *followers: BrokerId) -> None:
    group.cut_links = {(follower, ONE) for follower in followers or (TWO, THREE)}


def ack_codes(group: BrokerGroup, token: object) -> list[int]:
    done = group.answers[token]
    assert isinstance(done, ProduceDone)
    return [ack.failure.code if ack.failure else 0 for ack in done.acks]


def produce_many(
    group: BrokerGroup, *names: TopicPartition, acks: int = -1, timeout_ms: int = 10_000
) -> object:
    batches = tuple(PartitionBatch(name, None, encode_batch([b"v"])) for name in names)
    return group.send(1, Produce(acks, timeout_ms, batches))


def data_of(group: BrokerGroup, token: object) -> PartitionData:
    done = group.answers[token]
    assert isinstance(done, FetchDone)
    return done.partitions[0]


def code_of(group: BrokerGroup, token: object) -> int:
    failure = data_of(group, token).failure
    return failure.code if failure else 0


# ---- produce ------------------------------------------------------------------------------------


@pytest.mark.parametrize("acks", [0, 1])
def test_acks_zero_and_one_are_answered_at_once(group: BrokerGroup, acks: int) -> None:
    """F-R36."""
    freeze(group)
    token = group.produce(1, b"a", b"b", acks=acks)
    group.run()
    assert group.ack(token) == PartitionAck(T0, None, Offset(0), -1, Offset(0))
    assert group.marks(1) == (0, 0, 2)


def test_acks_is_checked_before_anything_else(group: BrokerGroup) -> None:
    """F-R46, bad input 13."""
    token = produce_many(group, T0, T99, acks=7)
    group.run()
    assert ack_codes(group, token) == [errors.InvalidRequiredAcks.code] * 2
    assert group.marks(1) == (0, 0, 0)


def test_a_partition_twice_in_a_request_is_refused(group: BrokerGroup) -> None:
    """Bad input 33."""
    token = produce_many(group, T0, T1, T0)
    group.run()
    assert ack_codes(group, token) == [errors.InvalidRequest.code] * 3
    assert group.marks(1) == (0, 0, 0)


@pytest.mark.parametrize("partition", [-1, 2, 99, 2**31 - 1])
def test_an_unknown_partition_fails_alone(group: BrokerGroup, partition: int) -> None:
    """F-R48, bad input 11."""
    token = produce_many(group, TopicPartition("t", partition), T0)
    group.run()
    assert ack_codes(group, token) == [errors.UnknownTopicOrPartition.code, 0]


def test_an_unknown_topic_and_an_unknown_topic_id(group: BrokerGroup) -> None:
    token = produce_many(group, TopicPartition("nope", 0))
    stale = group.produce(1, b"a", topic_id=TopicId("x" * 22))
    group.run()
    assert ack_codes(group, token) == [errors.UnknownTopicOrPartition.code]
    assert group.error(stale) == errors.UnknownTopicId.code


def test_a_follower_says_who_leads(group: BrokerGroup) -> None:
    """F-R47, bad input 35."""
    token = group.produce(2, b"a")
    group.run()
    ack = group.ack(token)
    assert ack.failure is not None
    assert ack.failure.code == errors.NotLeaderOrFollower.code
    assert (ack.current_leader, ack.current_leader_epoch, ack.base_offset) == (1, 0, -1)
    assert group.marks(2) == (0, 0, 0)


def test_a_broker_without_a_replica_says_who_leads(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path)
    group.create_topic(replicas=(1, 2))
    token = group.produce(3, b"a")
    group.run()
    ack = group.ack(token)
    assert ack.failure is not None
    assert (ack.failure.code, ack.current_leader) == (errors.NotLeaderOrFollower.code, 1)


def test_min_isr_counts_for_acks_all_only(tmp_path: Path) -> None:
    """F-R49, F-R50, F-R51, B-R14."""
    group = BrokerGroup(tmp_path)
    group.create_topic(min_isr=2)
    group.run()
    freeze(group)
    group.set_isr(1)
    group.tell()
    refused, taken = group.produce(1, b"a"), group.produce(1, b"b", acks=1)
    group.run()
    failure = group.ack(refused).failure
    assert failure is not None
    assert failure.code == errors.NotEnoughReplicas.code
    assert "[1]" in failure.message
    assert "min.insync.replicas=2" in failure.message
    assert group.error(taken) == 0
    assert group.marks(1) == (0, 0, 1), "and the high watermark stands still"


def test_the_isr_shrinks_below_the_minimum_while_a_produce_waits(tmp_path: Path) -> None:
    """B-R14: its batch is committed when the ISR has grown again, not before."""
    group = BrokerGroup(tmp_path)
    group.create_topic(min_isr=2)
    group.run()
    freeze(group)
    token = group.produce(1, b"a", timeout_ms=100_000)
    group.advance(50_000)
    assert group.record().isr == (ONE,)
    assert token not in group.answers
    assert group.marks(1) == (0, 0, 1)
    group.cut_links = set()
    group.advance(2_000)
    assert group.error(token) == 0


def test_committed_but_in_too_small_an_isr(tmp_path: Path) -> None:
    """The minimum is raised while a produce waits, and the last follower's fetch commits it."""
    group = BrokerGroup(tmp_path, brokers=2)
    group.create_topic(replicas=(1, 2), min_isr=1)
    group.run()
    token = group.produce(1, b"a")
    partition = group.managers[ONE]._hosted.by_name[T0]
    assert partition.leading is not None
    partition.high_watermark = Offset(1)  # as if committed just before
    group.set_isr(1)
    group.append(ConfigRecord(ConfigResourceType.TOPIC, "t", "min.insync.replicas", "2"))
    partition.leading.min_isr = 2
    partition.leading.isr = (ONE,)
    group.managers[ONE]._room.high_watermark_moved(partition)
    group._post(ONE, group.managers[ONE]._finish())
    group._mail.rotate(1)
    sender, effect = group._mail[0]
    assert sender == ONE
    assert isinstance(effect, ProduceDone)
    assert effect.token == token
    failure = effect.acks[0].failure
    assert failure is not None
    assert failure.code == errors.NotEnoughReplicasAfterAppend.code
    assert "[1]" in failure.message


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (encode_batch([b"x" * 2_000_000]), errors.MessageTooLarge),
        (encode_batch([b"abc"])[:-1], errors.CorruptMessage),
        (b"", errors.CorruptMessage),
        (encode_batch([b"x"])[:40], errors.CorruptMessage),
    ],
)
def test_what_the_log_refuses_is_named(
    group: BrokerGroup, batch: bytes, error: type[errors.PylogError]
) -> None:
    token = group.produce(1, batch=batch)
    group.run()
    failure = group.ack(token).failure
    assert failure is not None
    assert failure.code in (error.code, errors.InvalidRecord.code)
    assert failure.message
    assert group.marks(1) == (0, 0, 0)
    if error is errors.MessageTooLarge:
        assert "1048588" in failure.message


def test_control_batches_and_internal_topics_are_not_for_clients(tmp_path: Path) -> None:
    """Bad inputs 6 and 21."""
    group = BrokerGroup(tmp_path)
    group.create_topic(name="__offsets")
    group.create_topic(topic_id=TopicId("u" * 22))
    group.run()
    internal = TopicPartition("__offsets", 0)
    refused = group.produce(1, b"a", name=internal)
    control = group.produce(1, batch=bad_batches.sealed(bad_batches.record(b"a"), 0x20))
    spoilt = bytearray(encode_batch([b"a"]))
    spoilt[22] |= 0x20  # on the way: the same bit, but not the CRC of it
    damaged = group.produce(1, batch=bytes(spoilt))
    item = PartitionBatch(internal, None, encode_batch([b"a"]))
    own = group.send(1, Produce(-1, 1_000, (item,), internal=True))
    group.run()
    assert group.error(refused) == errors.TopicAuthorizationFailed.code
    assert group.error(control) == errors.InvalidRecord.code
    assert group.error(damaged) == errors.CorruptMessage.code
    assert group.error(own) == 0


def test_each_partition_gets_its_own_outcome_at_the_time_out(group: BrokerGroup) -> None:
    """F-R38, F-R39."""
    group.create_topic(replicas=(1,), name="solo", topic_id=TopicId("s" * 22))
    group.run()
    freeze(group)
    token = produce_many(group, T0, TopicPartition("solo", 0), timeout_ms=500)
    group.advance(499)
    assert token not in group.answers
    group.advance(1)
    group.run()
    assert ack_codes(group, token) == [errors.RequestTimedOut.code, 0]
    assert group.managers[ONE].waiting_requests == 0


def test_the_loss_of_leadership_is_told_at_once(group: BrokerGroup) -> None:
    """B-W4."""
    freeze(group)
    produced = group.produce(1, b"a")
    fetched = group.fetch(1, 0, max_wait_ms=60_000)
    group.run()
    group.elect(2)
    group.tell(ONE)
    group.run()
    assert group.error(produced) == errors.NotLeaderOrFollower.code
    assert code_of(group, fetched) == errors.NotLeaderOrFollower.code
    assert data_of(group, fetched).current_leader == TWO
    assert group.managers[ONE].waiting_requests == 0


def test_leader_again_in_a_later_epoch_does_not_confirm_what_it_took_before(
    group: BrokerGroup,
) -> None:
    freeze(group)
    token = group.produce(1, b"a")
    group.elect(2)
    group.elect(1, isr=(1,))
    group.tell(ONE)
    group.run()
    assert group.error(token) == errors.NotLeaderOrFollower.code


def test_a_duplicate_is_answered_when_the_original_is_committed(group: BrokerGroup) -> None:
    """B-T19, bad input 24."""
    freeze(group)
    batch = encode_batch([b"a", b"b"], producer_id=7, producer_epoch=0, base_sequence=0)
    first = group.produce(1, batch=batch)
    again = group.produce(1, batch=batch)
    gap = group.produce(
        1, batch=encode_batch([b"z"], producer_id=7, producer_epoch=0, base_sequence=9)
    )
    group.run()
    assert first not in group.answers
    assert again not in group.answers
    assert group.error(gap) == errors.OutOfOrderSequenceNumber.code
    group.cut_links = set()
    group.advance(1_000)
    assert group.ack(first).base_offset == group.ack(again).base_offset == 0
    assert group.marks(1) == (0, 2, 2)


def test_a_failing_disk_takes_one_replica_offline_and_answers_everyone(
    group: BrokerGroup,
) -> None:
    """F-R40, F-R72."""
    freeze(group)
    waiting = group.produce(1, b"a")
    polling = group.fetch(1, 0, max_wait_ms=60_000)
    log = group.logs[ONE].get(T0)
    assert log is not None

    def broken(*_args: object, **_more: object) -> None:
        raise OSError(5, "Input/output error")

    log.append_as_leader = broken  # type: ignore[method-assign]
    failed = group.produce(1, b"b")
    healthy = group.produce(1, b"c", name=T1, acks=1)
    group.run()
    for token in (waiting, failed):
        assert group.error(token) == errors.KafkaStorageError.code
    assert code_of(group, polling) == errors.KafkaStorageError.code
    assert group.error(healthy) == 0
    told = [e for _, e in group.other_effects if isinstance(e, ReplicaFailed)]
    assert [(e.topic_partition, e.topic_id) for e in told] == [(T0, TOPIC_ID)]
    later = group.produce(1, b"d", acks=1)
    group.run()
    assert group.error(later) == errors.KafkaStorageError.code


def test_a_cancelled_request_leaves_nothing_behind(group: BrokerGroup) -> None:
    """B-W5."""
    freeze(group)
    manager = group.managers[ONE]
    followers = manager.waiting_requests
    assert followers == 2
    for _ in range(2_000):
        token = group.fetch(1, 0, max_wait_ms=300_000)
        manager.cancel(token)
    assert manager.waiting_requests == followers
    produced = group.produce(1, b"a")
    manager.cancel(produced)
    manager.cancel("never heard of")
    assert manager.waiting_requests == 0
    group.cut_links = set()
    group.advance(1_000)
    assert produced not in group.answers
    assert group.marks(1) == (0, 1, 1)


def test_too_many_waiting_requests_are_refused_by_name(tmp_path: Path) -> None:
    group = BrokerGroup(tmp_path, settings=ReplicationSettings(waiting_requests_max=4))
    group.create_topic()
    group.run()
    freeze(group)
    tokens = [group.fetch(1, 0, max_wait_ms=60_000) for _ in range(4)]
    refused = group.fetch(1, 0, max_wait_ms=60_000)
    produced = group.produce(1, b"a")
    group.run()
    assert code_of(group, refused) == errors.ThrottlingQuotaExceeded.code
    assert group.error(produced) == errors.ThrottlingQuotaExceeded.code
    assert group.marks(1) == (0, 0, 0)
    assert any(token not in group.answers for token in tokens)


def test_too_many_partitions_in_a_request(tmp_path: Path) -> None:
    """Bad input 33."""
    group = BrokerGroup(tmp_path, settings=ReplicationSettings(request_partitions_max=2))
    group.create_topic(partitions=3)
    names = [TopicPartition("t", number) for number in range(3)]
    token = produce_many(group, *names)
    items = tuple(PartitionFetch(name, None, Offset(0), 100) for name in names)
    fetched = group.send(1, Fetch(0, 1, 100, items))
    group.run()
    assert ack_codes(group, token) == [errors.InvalidRequest.code] * 3
    assert code_of(group, fetched) == errors.InvalidRequest.code


# ---- fetch --------------------------------------------------------------------------------------


def test_a_long_poll_ends_with_the_high_watermark_not_with_the_append(group: BrokerGroup) -> None:
    """F-R22, F-R31, F-R43."""
    token = group.fetch(1, 0, max_wait_ms=60_000)
    freeze(group)
    group.produce(1, b"a")
    group.run()
    assert token not in group.answers
    group.cut_links = set()
    group.advance(1_001)
    data = data_of(group, token)
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (1, 1, 0)
    assert data.records == group.stored(1)


def test_a_long_poll_ends_empty_after_its_wait(group: BrokerGroup) -> None:
    token = group.fetch(1, 0, max_wait_ms=300)
    group.advance(299)
    assert token not in group.answers
    group.advance(1)
    group.run()
    assert data_of(group, token).records == b""


def test_min_bytes_counts_over_all_partitions(group: BrokerGroup) -> None:
    items = tuple(PartitionFetch(name, None, Offset(0), 1_000) for name in (T0, T1))
    token = group.send(1, Fetch(60_000, 150, 10_000, items))
    group.produce(1, b"x" * 20)
    group.run()
    assert token not in group.answers
    group.produce(1, b"x" * 20, name=T1)
    group.run()
    done = group.answers[token]
    assert isinstance(done, FetchDone)
    assert [len(data.records) > 80 for data in done.partitions] == [True, True]


def test_a_batch_above_every_limit_is_still_given_whole_but_only_the_first(
    group: BrokerGroup,
) -> None:
    """F-R66's rule for consumers (KIP-74), bad input 31."""
    for name in (T0, T1):
        group.produce(1, b"x" * 5_000, name=name)
        group.produce(1, b"y" * 5_000, name=name)
    group.run()
    items = tuple(PartitionFetch(name, None, Offset(0), size) for name, size in ((T0, 10), (T1, 9)))
    token = group.send(1, Fetch(0, 1, 100, items))
    group.run()
    done = group.answers[token]
    assert isinstance(done, FetchDone)
    sizes = [len(data.records) for data in done.partitions]
    assert 5_000 < sizes[0] < 5_200
    assert sizes[1] == 0


@pytest.mark.parametrize("size", [0, -1, -(2**31), 2**31 - 1])
def test_silly_sizes_are_clamped(group: BrokerGroup, size: int) -> None:
    """Bad input 31."""
    group.produce(1, b"a")
    group.run()
    item = PartitionFetch(T0, None, Offset(0), size)
    for request in (
        Fetch(size, 1, size, (item,)),
        Fetch(10 * 86_400_000, 2**31 - 1, size, (item,)),
    ):
        token = group.send(1, request)
        group.advance(300_000)
        assert data_of(group, token).records == group.stored(1)


@pytest.mark.parametrize(("offset", "text"), [(-1, "[0, 2]"), (3, "[0, 2]"), (10**15, "[0, 2]")])
def test_out_of_range_names_the_range(group: BrokerGroup, offset: int, text: str) -> None:
    """Bad input 30."""
    freeze(group)
    group.produce(1, b"a", b"b", acks=1)
    token = group.fetch(1, offset, max_wait_ms=60_000)
    group.run()
    failure = data_of(group, token).failure
    assert failure is not None
    assert failure.code == errors.OffsetOutOfRange.code
    assert text in failure.message
    assert data_of(group, token).log_start_offset == 0


def test_between_high_watermark_and_end_a_consumer_waits(group: BrokerGroup) -> None:
    freeze(group)
    group.produce(1, b"a", b"b", acks=1)
    token = group.fetch(1, 1)
    group.run()
    assert (code_of(group, token), data_of(group, token).records) == (0, b"")


@pytest.mark.parametrize(
    ("epoch", "code"),
    [(0, errors.FencedLeaderEpoch.code), (1, 0), (2, errors.UnknownLeaderEpoch.code)],
)
def test_leader_epochs_are_checked(group: BrokerGroup, epoch: int, code: int) -> None:
    """F-R54, bad input 34."""
    group.elect(1)
    group.tell()
    token = group.fetch(1, 0, epoch=epoch, max_wait_ms=0 if code == 0 else 60_000)
    group.run()
    assert code_of(group, token) == code


def test_a_consumer_on_a_cut_tail_is_told_where_its_epoch_ends(group: BrokerGroup) -> None:
    """B-R30, KIP-320."""
    group.produce(1, b"a", b"b")
    group.run()
    group.elect(1)
    group.tell()
    group.produce(1, b"c")
    group.run()
    item = PartitionFetch(T0, None, Offset(3), 1_000, LeaderEpoch(1), LeaderEpoch(0))
    token = group.send(1, Fetch(60_000, 1, 1_000, (item,)))
    group.run()
    data = data_of(group, token)
    assert data.diverging is not None
    assert (data.diverging.epoch, data.diverging.end_offset, data.records) == (0, 2, b"")


def test_consumers_are_sent_to_the_leader(group: BrokerGroup) -> None:
    """F-R02."""
    token = group.fetch(2, 0, max_wait_ms=60_000)
    group.run()
    data = data_of(group, token)
    assert code_of(group, token) == errors.NotLeaderOrFollower.code
    assert (data.current_leader, data.current_leader_epoch) == (1, 0)


def test_a_partition_twice_in_a_fetch(group: BrokerGroup) -> None:
    item = PartitionFetch(T0, None, Offset(0), 100)
    token = group.send(1, Fetch(0, 1, 100, (item, item)))
    group.run()
    assert code_of(group, token) == errors.InvalidRequest.code


def test_one_bad_partition_of_a_fetch_does_not_hide_the_others(group: BrokerGroup) -> None:
    group.produce(1, b"a")
    group.run()
    items = tuple(PartitionFetch(name, None, Offset(0), 1_000) for name in (T99, T0))
    token = group.send(1, Fetch(60_000, 1, 1_000, items))
    group.run()
    done = group.answers[token]
    assert isinstance(done, FetchDone)
    bad, good = done.partitions
    assert bad.failure is not None
    assert bad.failure.code == errors.UnknownTopicOrPartition.code
    assert good.records == group.stored(1)


class ColdOnce:
    """A log's `read` whose first hurried call meets cold pages."""

    def __init__(self, group: BrokerGroup) -> None:
        log = group.logs[ONE].get(T0)
        assert log is not None
        self.read = log.read
        self.warmed = 0
        log.read = self  # type: ignore[assignment]

    def __call__(self, *args: object, nowait: bool = False, **more: object) -> object:
        if nowait:
            raise ColdPages(self)
        return self.read(*args, **more)  # type: ignore[arg-type]


class ColdPages(PagesCold):
    def __init__(self, owner: ColdOnce) -> None:
        Exception.__init__(self, "cold")
        self.owner = owner

    def warm(self) -> None:
        self.owner.warmed += 1


def test_cold_pages_are_read_elsewhere_and_everything_is_checked_again(
    group: BrokerGroup,
) -> None:
    group.produce(1, b"a")
    group.run()
    cold = ColdOnce(group)
    manager = group.managers[ONE]
    item = PartitionFetch(T0, None, Offset(0), 1_000)
    request = Fetch(0, 1, 1_000, (item,))
    [first] = manager.fetch(group.now_ms, request, "a")
    [second] = manager.fetch(group.now_ms, request, "b")
    [third] = manager.fetch(group.now_ms, request, "c")
    assert isinstance(first, ColdRead)
    assert isinstance(second, ColdRead)
    assert isinstance(third, ColdRead)
    assert callable(first.read)
    first.read()
    assert cold.warmed == 1
    [done] = manager.on_cold_read(group.now_ms, first)
    assert isinstance(done, FetchDone)
    assert done.partitions[0].records == cold.read(0, 1_000, upper_bound=1).records
    group.elect(2)
    group.tell(ONE)
    late = [e for e in manager.on_cold_read(group.now_ms, second) if isinstance(e, FetchDone)]
    failure = late[0].partitions[0].failure
    assert failure is not None
    assert failure.code == errors.NotLeaderOrFollower.code
    manager.cancel("c")
    assert manager.on_cold_read(group.now_ms, third) == []


# ---- offsets by time ----------------------------------------------------------------------------


def offset(group: BrokerGroup, timestamp_ms: int, broker: int = 1) -> tuple[int, int]:
    answer = group.managers[BrokerId(broker)].list_offsets(OffsetQuery(T0, timestamp_ms))
    return (answer.failure.code if answer.failure else 0), answer.offset


def test_offsets_by_time_and_by_name(group: BrokerGroup) -> None:
    """Bad input 36."""
    for at in (1_000, 3_000, 2_000):
        group.produce(1, batch=encode_batch([b"v"], timestamps=WALL_MS + at))
    group.run()
    assert offset(group, -1) == (0, 3)
    assert offset(group, -2) == (0, 0)
    assert offset(group, -3) == (0, 1)
    assert offset(group, WALL_MS + 1_001) == (0, 1)
    assert offset(group, WALL_MS + 3_001) == (0, -1)
    assert offset(group, 2**63 - 1) == (0, -1)
    assert offset(group, -4)[0] == errors.InvalidRequest.code
    assert offset(group, -1, broker=2)[0] == errors.NotLeaderOrFollower.code
    answer = group.managers[ONE].list_offsets(OffsetQuery(T0, -1, LeaderEpoch(4)))
    assert answer.failure is not None
    assert answer.failure.code == errors.UnknownLeaderEpoch.code
    answer = group.managers[ONE].list_offsets(OffsetQuery(T0, WALL_MS + 3_000))
    assert (answer.offset, answer.timestamp_ms, answer.leader_epoch) == (1, WALL_MS + 3_000, 0)
    assert answer.topic_id == TOPIC_ID


def test_a_new_leader_does_not_let_the_end_move_back(group: BrokerGroup) -> None:
    """B-R29, KIP-207."""
    group.produce(1, b"a")
    group.run()
    assert offset(group, -1) == (0, 1)
    group.elect(2)
    group.cut_links = {(ONE, TWO), (THREE, TWO)}
    group.tell()
    group.run()
    assert group.marks(2) == (0, 0, 1)
    assert offset(group, -1, broker=2) == (errors.OffsetNotAvailable.code, -1)
    assert offset(group, WALL_MS + 10**6, broker=2) == (errors.OffsetNotAvailable.code, -1)
    assert offset(group, -2, broker=2) == (0, 0)
    group.cut_links = set()
    group.advance(1_001)
    assert offset(group, -1, broker=2) == (0, 1)


# ---- delete records -----------------------------------------------------------------------------


def low(group: BrokerGroup, token: object) -> list[tuple[int, int]]:
    done = group.answers[token]
    assert isinstance(done, DeleteRecordsDone)
    return [
        (mark.failure.code if mark.failure else 0, mark.low_watermark) for mark in done.watermarks
    ]


def delete(group: BrokerGroup, *offsets: tuple[TopicPartition, int]) -> object:
    wanted = tuple((name, Offset(offset)) for name, offset in offsets)
    return group.send(1, DeleteRecords(wanted, 5_000))


def test_records_are_deleted_everywhere_before_the_answer(group: BrokerGroup) -> None:
    """F-R33, F-R34."""
    group.produce(1, b"a", b"b", b"c")
    group.advance(10)
    token = delete(group, (T0, 2))
    assert token not in group.answers
    group.advance(10)
    assert low(group, token) == [(0, 2)]
    assert [group.marks(broker) for broker in (1, 2, 3)] == [(2, 3, 3)] * 3
    token = delete(group, (T0, -1), (T0, 0))
    group.run()
    assert low(group, token)[0][0] == errors.InvalidRequest.code
    token = delete(group, (T0, -1), (T99, 0), (T1, 5))
    group.advance(10)
    assert low(group, token) == [
        (0, 3),
        (errors.UnknownTopicOrPartition.code, -1),
        (errors.OffsetOutOfRange.code, -1),
    ]
    assert group.marks(3) == (3, 3, 3)


def test_deleting_waits_for_live_replicas_only_and_not_for_ever(group: BrokerGroup) -> None:
    group.produce(1, b"a", b"b")
    group.advance(10)
    group.cut_links = {(THREE, ONE)}
    token = delete(group, (T0, 1))
    group.advance(5_000)
    assert low(group, token) == [(errors.RequestTimedOut.code, -1)]
    again = delete(group, (T0, 2))
    group.advance(1_000)
    assert again not in group.answers
    group.append(replace(group.image.brokers[THREE], fenced=True))
    group.tell()
    group.run()
    assert low(group, again) == [(0, 2)]
