"""Fetches of consumers from the replica manager, error by error."""

from __future__ import annotations

from pathlib import Path

import pytest

from pylog import errors
from pylog.model import BrokerId, LeaderEpoch, Offset, TopicPartition
from pylog.records.builder import ControlType, encode_control_batch
from pylog_broker.replication.effects import ColdRead, FetchDone
from pylog_broker.replication.fetch_messages import Fetch, PartitionData, PartitionFetch
from pylog_broker.replication.offset_messages import OffsetQuery
from pylog_broker.storage.log.validator import INTERNAL
from pylog_broker.storage.segments.segment_reader import PagesCold
from tests.fakes.broker_group import T0, WALL_MS, BrokerGroup
from tests.fakes.logs import bases_of, batch_of

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


def data_of(group: BrokerGroup, token: object) -> PartitionData:
    done = group.answers[token]
    assert isinstance(done, FetchDone)
    return done.partitions[0]


def code_of(group: BrokerGroup, token: object) -> int:
    failure = data_of(group, token).failure
    return failure.code if failure else 0


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


def offset(group: BrokerGroup, timestamp_ms: int, broker: int = 1) -> tuple[int, int]:
    answer = group.offset_of(broker, OffsetQuery(T0, timestamp_ms))
    return (answer.failure.code if answer.failure else 0), answer.offset


def test_a_reader_of_committed_records_hears_of_aborted_transactions(group: BrokerGroup) -> None:
    log = next(p.log for p in group.managers[ONE].partitions() if p.topic_partition == T0)
    for batch in (
        batch_of(b"a", b"b", producer=(1, 0, 0), transactional=True),
        batch_of(b"c", producer=(2, 0, 0), transactional=True),
        encode_control_batch(
            ControlType.ABORT,
            producer_id=1,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=WALL_MS,
        ),
        encode_control_batch(
            ControlType.COMMIT,
            producer_id=2,
            producer_epoch=0,
            coordinator_epoch=0,
            timestamp_ms=WALL_MS,
        ),
        batch_of(b"d", producer=(3, 0, 0), transactional=True),
    ):
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(0), wall_ms=WALL_MS, origin=INTERNAL)
    group.produce(1, b"e")
    group.run()

    def read(offset: int, read_committed: bool) -> tuple[list[int], tuple[tuple[int, int], ...]]:
        item = PartitionFetch(T0, None, Offset(offset), 1 << 20)
        token = group.send(1, Fetch(0, 1, 1 << 20, (item,), read_committed))
        group.run()
        data = data_of(group, token)
        assert (data.high_watermark, data.last_stable_offset) == (7, 5)
        return bases_of(data.records), data.aborted

    assert read(0, True) == ([0, 2, 3, 4], ((1, 0),))
    assert read(1, True) == ([0, 2, 3, 4], ((1, 0),))
    assert read(4, True) == ([4], ())
    assert read(5, True) == ([], ())
    assert read(0, False) == ([0, 2, 3, 4, 5, 6], ())
