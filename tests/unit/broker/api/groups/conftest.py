from __future__ import annotations

import pytest

from pylog.model import BrokerId, ControllerEpoch, LeaderEpoch, Offset, PartitionEpoch, TopicId
from pylog_broker.coordinator.groups.config import GroupConfig
from pylog_broker.metadata.image import MetadataImage
from pylog_broker.metadata.messages import MetadataBatch
from pylog_broker.metadata.records import PartitionRecord, TopicRecord
from tests.fakes.group_coordinators import FakeCoordinators
from tests.fakes.group_shard import GroupShard

ONE = (BrokerId(1),)
TOPICS = {"t": (TopicId("T" * 21 + "A"), 2), "u": (TopicId("U" * 21 + "A"), 1)}


@pytest.fixture
def image() -> MetadataImage:
    """The topics t, of two partitions, and u, of one."""
    made, epochs = MetadataImage(), (LeaderEpoch(0), PartitionEpoch(0))
    for name, (topic, count) in TOPICS.items():
        records = [
            PartitionRecord(topic, number, ONE, ONE, ONE[0], *epochs) for number in range(count)
        ]
        first = Offset(made.offset + 1)
        made.apply(MetadataBatch(ControllerEpoch(1), first, (TopicRecord(name, topic), *records)))
    return made


@pytest.fixture
def coordinators() -> FakeCoordinators:
    """Groups whose first rebalance waits for nobody."""
    return FakeCoordinators(GroupShard(GroupConfig(initial_rebalance_delay_ms=0)))
