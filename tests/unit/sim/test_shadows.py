"""The ghost state of all partitions."""

from __future__ import annotations

from collections import Counter

import pytest

from pylog.model import BrokerId, TopicId
from tests.sim.ghost import Violation
from tests.sim.shadows import Shadows


def test_nobody_has_to_hold_the_records_of_a_deleted_topic() -> None:
    shadows = Shadows(Counter(), lambda *_: None, lambda: 0)
    ghost = shadows.ghost(TopicId("t"), 0)
    ghost.members = (BrokerId(3),)
    ghost.committed_end = 5
    with pytest.raises(Violation, match="I4: broker 3"):
        ghost.check_members()
    shadows.topic_deleted(TopicId("t"))
    ghost.check_members()
