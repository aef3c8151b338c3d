from __future__ import annotations

import pytest

from pylog.client.ranges.range_reader import RangeReader
from pylog.client.settings import CONSUMER_SETTINGS
from pylog.model import TopicPartition
from pylog.records.builder import encode_batch
from pylog_connector.forensics import by_whom, oldest, why_deleted
from pylog_connector.options import source_options
from pylog_connector.planning import UNKNOWN
from tests.fakes.fake_cluster import FakeCluster


@pytest.mark.parametrize(
    ("policy", "time", "size", "told"),
    [
        ("delete", "60000", "-1", "by retention (retention.ms=60000) or by request"),
        ("delete", "-1", "9", "by retention (retention.bytes=9) or by request"),
        (
            "compact,delete", "5", "9",
            "by retention (retention.ms=5 and retention.bytes=9) or by request",
        ),
        ("delete", "-1", "-1", "by request (the topic's retention.ms and retention.bytes are off)"),
        ("compact", "5", "9", "by request (with cleanup.policy=compact retention deletes nothing)"),
        (None, "5", "9", UNKNOWN),
    ],
)  # fmt: skip
def test_what_settings_leave_as_a_cause(
    policy: str | None, time: str, size: str, told: str
) -> None:
    settings = {"cleanup.policy": policy, "retention.ms": time, "retention.bytes": size}
    assert by_whom(settings) == told
    assert by_whom({}) == UNKNOWN


def test_how_old_the_first_record_is() -> None:
    assert oldest(None) == ""
    assert oldest(-1) == ", and no record is left"
    assert oldest(1_700_000_000_123).endswith("is of 2023-11-14T22:13:20.123+00:00")
    assert oldest(2**62) == ""


def test_a_cluster_is_asked() -> None:
    with FakeCluster() as cluster:
        partition = cluster.create_topic("a").partitions[0]
        partition.append(encode_batch([b"x"], timestamps=5))
        servers = cluster.bootstrap_servers
        options = source_options(
            {"pylog.bootstrap.servers": servers[0], "subscribe": "a"}, streaming=True
        )
        reader = RangeReader(CONSUMER_SETTINGS.parse({"bootstrap_servers": servers}))
        try:
            told = why_deleted(options, reader, TopicPartition("a", 0))
        finally:
            reader.close()
    assert told.startswith("by re")
    assert told.endswith("the oldest record left is of 1970-01-01T00:00:00.005+00:00")
