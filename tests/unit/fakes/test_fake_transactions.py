"""The coordinator that the clients' tests talk to decides as one would expect."""

from __future__ import annotations

from pylog import errors
from pylog.model import TopicPartition
from pylog.records.builder import encode_batch
from pylog.records.reader import iter_records
from pylog.records.transactions import without_aborted
from pylog.rpc.v1 import log_pb2
from tests.fakes.fake_topics import FakePartition, FakeTopic
from tests.fakes.fake_transactions import TransactionalIds


def world() -> tuple[TransactionalIds, FakePartition]:
    partition = FakePartition(1)
    return TransactionalIds({"t": FakeTopic("id", [partition])}), partition


def write(ids: TransactionalIds, partition: FakePartition, epoch: int, sequence: int) -> int:
    producer_id = ids.ids["a"].producer_id
    batch = encode_batch(
        [b"%d.%d" % (epoch, sequence)],
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )
    code = ids.enter("a", log_pb2.PartitionBatch(topic="t", partition=0, batch=batch))
    return code or partition.append(batch)[0]


def committed(partition: FakePartition) -> list[bytes | None]:
    readable = partition.readable(log_pb2.READ_COMMITTED)
    data = partition.read(0, 1 << 30, readable)
    return [r.value for r in iter_records(without_aborted(data, partition.aborted), "t", 0)]


def test_readers_see_what_is_committed_and_nothing_behind_what_is_open() -> None:
    ids, partition = world()
    known = ids.begin("a")
    assert write(ids, partition, 0, 0) == 0
    assert committed(partition) == []
    assert ids.end("a", known.producer_id, 0, committed=True)[0] == 0
    assert write(ids, partition, 1, 0) == 0
    assert committed(partition) == [b"0.0"]
    assert ids.end("a", known.producer_id, 1, committed=False)[0] == 0
    assert write(ids, partition, 2, 0) == 0
    assert ids.end("a", known.producer_id, 2, committed=True)[0] == 0
    assert committed(partition) == [b"0.0", b"2.0"]


def test_a_decision_is_told_again_and_another_one_is_refused() -> None:
    ids, partition = world()
    known = ids.begin("a")
    write(ids, partition, 0, 0)
    for _ in range(2):
        code, after = ids.end("a", known.producer_id, 0, committed=True)
        assert (code, after.epoch) == (0, 1)
    fenced = errors.ProducerFenced.code
    assert ids.end("a", known.producer_id, 0, committed=False)[0] == fenced
    assert ids.end("nobody", 1, 0, committed=True)[0] == errors.InvalidProducerIdMapping.code


def test_a_newer_producer_fences_and_aborts() -> None:
    ids, partition = world()
    known = ids.begin("a")
    write(ids, partition, 0, 0)
    epoch = ids.begin("a").epoch
    assert epoch > 1
    assert write(ids, partition, 0, 1) == errors.ProducerFenced.code
    assert ids.end("a", known.producer_id, 0, committed=True)[0] == errors.ProducerFenced.code
    assert committed(partition) == []


def test_offsets_count_with_the_transaction() -> None:
    ids, _ = world()
    known = ids.begin("a")
    place = "g", TopicPartition("t", 0)
    known.offsets[place] = 5
    ids.end("a", known.producer_id, 0, committed=False)
    assert ids.committed == {}
    known.offsets[place] = 6
    ids.end("a", known.producer_id, 1, committed=True)
    assert ids.committed == {place: 6}


def test_after_a_time_out_an_abort_tells_the_epoch_to_go_on_with() -> None:
    ids, partition = world()
    known = ids.begin("a")
    write(ids, partition, 0, 0)
    ids.time_out("a")
    assert write(ids, partition, 0, 1) == errors.ProducerFenced.code
    code, after = ids.end("a", known.producer_id, 0, committed=False)
    assert (code, after.epoch) == (0, 1)
