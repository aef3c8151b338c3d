"""The replica managers of three brokers, message by message."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.broker_group import BrokerGroup


@pytest.fixture
def group(tmp_path: Path) -> BrokerGroup:
    return BrokerGroup(tmp_path)


def test_acks_all_is_answered_once_every_in_sync_replica_has_the_batch(group: BrokerGroup) -> None:
    group.create_topic()
    group.run()
    token = group.produce(1, b"a", b"b", b"c")
    assert token not in group.answers
    group.run()
    assert group.ack(token).failure is None
    assert group.ack(token).base_offset == 0
    assert group.marks(1) == (0, 3, 3)
    assert group.stored(1) == group.stored(2) == group.stored(3)
    group.advance(10)
    assert group.marks(2) == group.marks(3) == (0, 3, 3)
