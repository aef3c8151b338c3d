"""The sink's errors for refusals, in the words of those who refuse."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from pylog.client.producer.producer import Producer
from pylog.errors import InvalidConfig, InvalidTimestamp, MessageTooLarge, PylogError
from pylog.records.builder import encode_batch
from pylog_broker.config import TopicConfig
from pylog_broker.storage.log.validator import Origin, checked_header
from pylog_connector import errors
from pylog_connector.options import SinkOptions, sink_options
from pylog_connector.refusals import failed
from pylog_connector.sink_rows import TopicRows, rows_by_topic
from pylog_connector.writing import write_batches
from tests.fakes.fake_cluster import FakeCluster

NOW_MS = 1_700_000_000_000
SINK = sink_options({"kafka.bootstrap.servers": "h:1"})


def parts(**columns: Any) -> list[TopicRows]:
    """The second batch of a task whose first one had ten rows; every other row is topic b's."""
    count = len(columns["value"])
    batch = pa.record_batch({**columns, "topic": ["a", "b"] * (count // 2)})
    return list(rows_by_topic(batch, SINK, [*columns, "topic"], 10))


def refusal(check: Callable[[], object]) -> PylogError:
    with pytest.raises(PylogError) as error:
        check()
    return type(error.value)(f"b-0: {error.value}")


def by_broker(settings: dict[str, str], **batch: Any) -> PylogError:
    config = TopicConfig.from_mapping(settings)
    return refusal(lambda: checked_header(encode_batch([b"v"], **batch), config, Origin(), NOW_MS))


def test_a_timestamp_is_told_with_row_value_and_remedy() -> None:
    stamps = pa.array([NOW_MS, NOW_MS, None, 5_000, 6_000, 7_000], pa.timestamp("ms", tz="UTC"))
    _, part = parts(key=list("uvwxyz"), value=["1"] * 6, timestamp=stamps)
    error = by_broker({"message.timestamp.before.max.ms": "1000"}, timestamps=[5_000])
    told = failed("b", part, error, SINK)
    assert isinstance(told, errors.SinkRow)
    assert str(told) == (
        "[PYLOG_SINK_ROW] topic b: the column timestamp is 1970-01-01T00:00:05.000+00:00 in row 13 "
        "of the task (from 0), with key b'x': b-0: timestamp 5000 is 1699999995000 ms in the "
        "broker's past; message.timestamp.before.max.ms is 1000; correct the column timestamp, or "
        "change that setting of the topic"
    )


def test_a_timestamp_in_a_year_that_python_has_not() -> None:
    far_ms = 1_000_000_000_000_000
    stamps = pa.array([0, far_ms], pa.timestamp("ms", tz="UTC"))
    _, part = parts(value=["1"] * 2, timestamp=stamps)
    error = by_broker({"message.timestamp.after.max.ms": "1000"}, timestamps=[far_ms])
    assert f"is {far_ms} ms since 1970 in row 11 of the task" in str(failed("b", part, error, SINK))


def test_a_key_that_a_compacted_topic_misses() -> None:
    _, part = parts(key=["u", "v", "w", None], value=["1"] * 4)
    error = by_broker({"cleanup.policy": "compact"})
    told = failed("b", part, error, SINK)
    assert isinstance(told, errors.SinkRow)
    assert "the column key is null in row 13 of the task (from 0), with key null" in str(told)
    assert "give each row a key" in str(failed("b", None, error, SINK))


def test_a_batch_too_large_names_the_limit_that_applied() -> None:
    by_topic = by_broker({"max.message.bytes": "20"})
    assert str(failed("b", None, by_topic, SINK)).endswith(
        "max.message.bytes is 20; raise max.message.bytes of topic b, or write smaller rows"
    )
    assert "pylog." not in str(failed("b", None, by_topic, SINK))
    by_client = MessageTooLarge(
        "topic b: the record takes up to 30 bytes; max_request_size is 20. Raise it"
    )
    assert str(failed("b", None, by_client, SINK)) == (
        "[PYLOG_SINK_ROW] topic b: the record takes up to 30 bytes; pylog.max.request.size is 20. "
        "Raise it"
    )


def test_settings_that_contradict_each_other_are_told_as_options() -> None:
    told = failed("b", None, InvalidConfig("batch_max_size=1: at least batch_size=2"), SINK)
    assert isinstance(told, errors.InvalidOption)
    assert "pylog.batch.max.size=1: at least pylog.batch.size=2" in str(told)


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster() as running:
        yield running


def options(cluster: FakeCluster) -> SinkOptions:
    return sink_options({"pylog.bootstrap.servers": cluster.bootstrap_servers[0], "topic": "a"})


def test_a_partition_that_is_not_there_is_told_with_its_row(cluster: FakeCluster) -> None:
    cluster.create_topic("a")
    table = pa.record_batch({"value": ["1"] * 3, "partition": pa.array([0, None, 7], pa.int32())})
    with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        error = refusal(lambda: producer.send_arrow("a", table))
    told = failed("a", TopicRows("a", table, 4), error, SINK)
    assert isinstance(told, errors.UnknownTopic)
    assert "correct the column partition in row 6 of the task (from 0)" in str(told)


def test_rows_are_kept_until_they_can_no_longer_be_refused(cluster: FakeCluster) -> None:
    cluster.create_topic("a")
    cluster.produce_faults.extend([0, InvalidTimestamp.code])
    stamps = pa.array([NOW_MS], pa.timestamp("ms", tz="UTC"))
    batch = pa.record_batch({"value": ["1"], "timestamp": stamps})
    with pytest.raises(errors.SinkRow, match="refused by the test; correct the column timestamp"):
        write_batches([batch, batch], options(cluster), ["value", "timestamp"])
