"""Copies of replicas that are out of sync keep to a rate, and nothing else does (KIP-73)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pylog import errors
from pylog.config import LONG_MAX
from pylog.model import BrokerId, PartitionEpoch
from pylog_broker.config import TopicConfig
from pylog_broker.metadata.records import ConfigRecord, ConfigResourceType
from pylog_broker.replication.settings import ReplicationSettings
from pylog_broker.replication.throttle import ReplicationThrottle
from pylog_broker.throttled_replicas import is_throttled
from tests.fakes.broker_group import BrokerGroup

BATCHES, BATCH_BYTES = 20, 1_000


def test_without_a_rate_everything_passes() -> None:
    throttle = ReplicationThrottle()
    throttle.passed(0, 1 << 40)
    assert (throttle.wait_ms(0), throttle.is_limited) == (0, False)


def test_what_is_above_the_rate_is_waited_off() -> None:
    throttle = ReplicationThrottle()
    throttle.set_rate(9_000, 1_000)
    assert throttle.wait_ms(10_000) == 0
    throttle.passed(10_000, 1_500)  # a second's worth comes at once
    assert throttle.wait_ms(10_000) == 500
    assert throttle.wait_ms(10_499) == 1
    assert throttle.wait_ms(10_500) == 0
    throttle.passed(10_500, 60_000)
    assert throttle.wait_ms(10_500) == 1_000  # a minute, looked at each second
    throttle.set_rate(10_500, 2_000)
    assert throttle.wait_ms(10_500) == 0
    throttle.set_rate(10_500, 0)
    assert throttle.wait_ms(99_000) == 1_000
    throttle.set_rate(99_000, LONG_MAX)
    assert throttle.wait_ms(99_000) == 0


@given(st.lists(st.tuples(st.integers(0, 3_000), st.integers(1, 5_000)), max_size=40))
def test_the_mean_is_never_above_the_rate(steps: list[tuple[int, int]]) -> None:
    throttle, now_ms, passed = ReplicationThrottle(), 0, 0
    throttle.set_rate(0, 1_000)
    for pause_ms, size in steps:
        now_ms += pause_ms
        if not throttle.wait_ms(now_ms):
            # what came before has been waited off, but for a second's worth
            assert passed <= 1_000 * (now_ms / 1000 + 1) + 1
            throttle.passed(now_ms, size)
            passed += size


@pytest.mark.parametrize("entries", [("*",), ("0:3",), ("7:1", "0:3")])
def test_named_replicas(entries: tuple[str, ...]) -> None:
    assert is_throttled(entries, 0, BrokerId(3))


@pytest.mark.parametrize("entries", [(), ("0:33",), ("10:3", "0:1")])
def test_other_replicas(entries: tuple[str, ...]) -> None:
    assert not is_throttled(entries, 0, BrokerId(3))


@pytest.mark.parametrize("text", ["*,0:1", "0", "0:", ":1", "a:1", "0:1:2", "0:-1"])
def test_what_names_no_replica_is_refused(text: str) -> None:
    for side in ("leader", "follower"):
        setting = f"{side}.replication.throttled.replicas"
        with pytest.raises(errors.InvalidConfig, match=f"{setting}: .* must be partition:broker"):
            TopicConfig.from_mapping({setting: text})


def throttled(tmp_path: Path, side: str, replicas: str, rate: int = BATCH_BYTES) -> BrokerGroup:
    """A partition on 1 and 2 with 20 KB; 3 begins to copy it, an answer holds one batch."""
    settings = ReplicationSettings(replica_fetch_max_bytes=BATCH_BYTES)
    group = BrokerGroup(tmp_path, 3, settings=settings)
    group.create_topic((1, 2), config={f"{side}.replication.throttled.replicas": replicas})
    cluster = ConfigResourceType.CLUSTER
    group.append(ConfigRecord(cluster, "", f"{side}.replication.throttled.rate", str(rate)))
    group.tell()
    for _ in range(BATCHES):
        group.produce(1, b"v" * (BATCH_BYTES - 70))
    group.run()
    assert group.marks(2)[2] == BATCHES
    old = group.record()
    group.append(
        replace(
            old,
            replicas=(*old.replicas, BrokerId(3)),
            adding_replicas=(BrokerId(3),),
            partition_epoch=PartitionEpoch(old.partition_epoch + 1),
            directories=("dir-1-1", "dir-2-1", "dir-3-1"),
        )
    )
    group.tell()
    return group


SIDES = [("follower", "0:3"), ("follower", "*"), ("leader", "0:1"), ("leader", "*")]


@pytest.mark.parametrize(("side", "replicas"), SIDES)
def test_a_copy_keeps_to_the_rate(tmp_path: Path, side: str, replicas: str) -> None:
    group = throttled(tmp_path, side, replicas)
    group.advance(5_000)
    assert 4 <= group.marks(3)[2] <= 7
    assert group.record().isr == (1, 2)
    # those in sync go on at once
    token = group.produce(1, b"v" * 5_000)
    group.run()
    assert group.error(token) == 0
    group.advance(30_000)
    assert set(group.record().isr) == {1, 2, 3}
    assert group.stored(3) == group.stored(1)


@pytest.mark.parametrize(
    ("side", "replicas"), [("follower", "0:2,1:3"), ("leader", "0:2,0:3"), ("follower", "")]
)
def test_others_are_not_held_back(tmp_path: Path, side: str, replicas: str) -> None:
    group = throttled(tmp_path, side, replicas)
    group.advance(1_000)
    assert set(group.record().isr) == {1, 2, 3}


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttle_that_is_taken_away_lets_go_at_once(tmp_path: Path, side: str) -> None:
    group = throttled(tmp_path, side, "*", rate=0)
    group.advance(60_000)
    assert group.marks(3)[2] == 0
    cluster = ConfigResourceType.CLUSTER
    group.append(ConfigRecord(cluster, "", f"{side}.replication.throttled.rate", None))
    group.tell()
    group.advance(2_000)
    assert set(group.record().isr) == {1, 2, 3}


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_replica_that_has_joined_the_isr_waits_no_more(tmp_path: Path, side: str) -> None:
    group = throttled(tmp_path, side, "*")
    group.advance(5_300)
    assert group.marks(3)[2] < BATCHES
    group.set_isr(1, 2, 3)  # commits wait for it from now on
    group.tell()
    group.run()  # and no time passes
    assert group.marks(3)[2] == BATCHES
