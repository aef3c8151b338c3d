"""The limits for names and sizes in requests about groups."""

from __future__ import annotations

import pytest

from pylog.errors import InvalidGroupId, InvalidRequest, InvalidTopic
from pylog_broker.api.groups.names import check_group_id, check_names, check_size, check_topics


def test_a_group_has_a_name_of_up_to_255_characters() -> None:
    for name in ("g", "g" * 250, "ü" * 255, "a group, with blanks"):
        check_group_id(name)
    with pytest.raises(InvalidGroupId, match=r"^group_id is empty$"):
        check_group_id("")
    check_group_id("", may_be_empty=True)
    for empty in (False, True):
        with pytest.raises(InvalidGroupId, match=r"^group_id has 1048576 characters; .* 255$"):
            check_group_id("g" * (1 << 20), may_be_empty=empty)


def test_a_name_that_is_too_long_is_told_by_its_field() -> None:
    check_names(member_id="m" * 512, instance_id="i" * 249, rack_id=None)
    with pytest.raises(InvalidRequest, match=r"^instance_id has 250 characters; .* 249$"):
        check_names(member_id="m", instance_id="i" * 250)
    with pytest.raises(InvalidRequest, match=r"^member_id has 513 characters; .* 512$"):
        check_names(member_id="m" * 513)


def test_too_many_bytes_are_told_by_what_they_are() -> None:
    check_size("assignments", 10, 10)
    with pytest.raises(InvalidRequest, match=r"^assignments: 11 bytes; the limit is 10$"):
        check_size("assignments", 11, 10)


def test_a_topic_that_cannot_be_is_named() -> None:
    check_topics(("t", "a.b_c-1"))
    with pytest.raises(InvalidTopic, match="a b"):
        check_topics(("t", "a b"))
