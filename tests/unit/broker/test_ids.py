"""Random ids, as Kafka's."""

from __future__ import annotations

from uuid import UUID

from pylog.model import topic_id_to_bytes
from pylog_broker.ids import random_id


def test_an_id_is_22_characters_of_its_16_bytes() -> None:
    made = UUID(int=0x0123_4567_89AB_CDEF_0123_4567_89AB_CDEF)
    assert random_id(lambda: made) == "ASNFZ4mrze8BI0VniavN7w"
    assert topic_id_to_bytes(random_id()) != topic_id_to_bytes(random_id())


def test_none_begins_with_a_dash_which_begins_an_option() -> None:
    dashed = [UUID(bytes=bytes([0xFB, n]) + bytes(14)) for n in range(3)]
    drawn = iter([*dashed, UUID(int=7), *dashed])
    assert random_id(lambda: next(drawn)) == "AAAAAAAAAAAAAAAAAAAABw"
