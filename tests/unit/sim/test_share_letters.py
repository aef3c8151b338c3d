"""The twin of dead letters: which may be written, and which are there."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from pylog.model import TopicId, TopicPartition
from pylog_broker.group_settings import GroupSettings, SameSettings
from pylog_broker.share.dead_letters import Copied, next_batch
from pylog_broker.share.sessions import SharePartitionKey
from pylog_broker.share.share_partition import DeadLetters
from tests.sim.contents import Contents, Original, fingerprint
from tests.sim.ghost import Batch, PartitionGhost
from tests.sim.share_letters import DEAD_LETTERS, ShareLetters
from tests.sim.violation import Violation

TOPIC, LETTERS = TopicId("A" * 22), TopicId("B" * 22)
KEY = SharePartitionKey("s0", TOPIC, 0)
COPIES = SameSettings(GroupSettings(errors_deadletterqueue_copy_record_enable=True))


class Shadows:
    """The committed contents of a topic with one record, and of the dead-letter topic."""

    def __init__(self) -> None:
        contents = Contents()
        contents.sent(1, Original((TOPIC, 0), (b"k",), (b"v",), (7,)))
        self.ghosts = {id_: PartitionGhost((id_, 0), contents) for id_ in (TOPIC, LETTERS)}
        self.commit(TOPIC, 1)

    def ghost(self, topic_id: TopicId, _partition: int) -> PartitionGhost:
        return self.ghosts[topic_id]

    def commit(self, topic_id: TopicId, mark: int) -> None:
        ghost = self.ghosts[topic_id]
        ghost.committed.append(Batch(0, 0, 0, mark, -1, -1, -1))
        ghost._bases.append(0)


class World:
    def __init__(self) -> None:
        topics = [
            SimpleNamespace(name=name, topic_id=id_, partitions=[0])
            for name, id_ in (("t", TOPIC), (DEAD_LETTERS, LETTERS))
        ]
        self.shadows = Shadows()
        cluster: Any = SimpleNamespace(
            sometimes=Counter(),
            shadows=self.shadows,
            image=SimpleNamespace(
                topics_by_name={each.name: each for each in topics},
                topics_by_id={each.topic_id: each for each in topics},
            ),
        )
        self.letters = ShareLetters(cluster)

    def send(self, count: int = 2, value: bytes = b"v") -> int:
        """The fingerprint of the batch."""
        batch = next_batch(
            [DeadLetters(0, 0, count, is_rejected=False)],
            0,
            TopicPartition("t", 0),
            "s0",
            {0: Copied(b"k", value)},
            until=1,
            most=1,
            wall_ms=9,
            bytes_max=1_000,
            record_bytes_max=1_000,
        ).records
        self.letters.sends("b1", batch, TopicPartition(DEAD_LETTERS, 0), COPIES)
        return fingerprint(batch)


def test_a_letter_is_there_when_it_is_committed() -> None:
    world = World()
    world.letters.given_up(KEY, 0, 2)
    mark = world.send()
    assert not world.letters.is_there(KEY, 0)
    world.shadows.commit(LETTERS, mark)
    assert world.letters.is_there(KEY, 0)
    assert not world.letters.is_there(KEY, 1)


def test_a_letter_is_of_what_is_given_up() -> None:
    world = World()
    with pytest.raises(Violation, match="given up as None"):
        world.send()
    world.letters.given_up(KEY, 0, 2)
    with pytest.raises(Violation, match="delivered 1x"):
        world.send(count=1)


def test_a_letter_has_what_its_record_has() -> None:
    world = World()
    world.letters.given_up(KEY, 0, 2)
    with pytest.raises(Violation, match="and not"):
        world.send(value=b"w")
