"""Events and effects as short text."""

from __future__ import annotations

from pylog import errors
from pylog.client.fetching.fetch_events import Fetched, Notice
from pylog.client.fetching.user_events import Seek
from pylog.client.sending.producer_batch import Batch
from pylog.client.sending.send_events import Ack, BatchFailed, SendRequest
from pylog.model import TopicPartition
from pylog.records.builder import encode_batch
from tests.fakes.short_text import short_text

T0 = TopicPartition("t", 0)


def test_a_batch_is_told_by_its_place() -> None:
    batch = Batch(T0, 0, None, 100)
    batch.add(b"v", None, None, 0, 10)
    assert short_text(batch) == "t-0#?+1"
    batch.base_sequence = 3
    assert short_text(SendRequest(1, 2, (batch,))) == (
        "SendRequest(broker=1, correlation=2, batches=[t-0#3+1])"
    )
    failed = BatchFailed(batch, errors.InvalidRecord("too old"))
    assert short_text(failed) == "BatchFailed(batch=t-0#3+1, error=INVALID_RECORD: too old)"


def test_what_is_as_by_default_is_not_told() -> None:
    assert short_text(Ack(0)) == "Ack(code=0)"
    assert short_text(Seek(T0, 5)) == "Seek(topic_partition=t-0, offset=5)"
    assert short_text(Notice("so")) == "Notice(text='so')"


def test_bytes_are_told_by_the_batches_in_them() -> None:
    batches = encode_batch([b"a", b"b"], base_offset=7, leader_epoch=2)
    batches += encode_batch([b"c"], base_offset=9, leader_epoch=3)
    assert short_text(Fetched(T0, batches=batches)) == (
        "Fetched(topic_partition=t-0, batches=7..8@2 9..9@3)"
    )
    assert short_text(b"") == "no bytes"
    assert short_text(b"something else that is none of them, and is long enough" * 2) == "110 bytes"


def test_containers_are_told_in_one_order() -> None:
    assert short_text(frozenset({"b", "a"})) == "{'a', 'b'}"
    assert short_text({T0: (1, None)}) == "{t-0: [1, None]}"
    assert short_text(object()) == "object"
