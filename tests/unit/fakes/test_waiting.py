"""The helpers by which tests wait."""

from __future__ import annotations

import pytest

from tests.fakes.waiting import eventually


def test_it_looks_until_the_condition_holds() -> None:
    told = iter([False, False, True])
    assert eventually(30, lambda: next(told), "the third look") > 0
    assert next(told, None) is None


def test_what_never_holds_is_named() -> None:
    with pytest.raises(AssertionError, match=r"not within 0\.01 s: the impossible"):
        eventually(0.01, lambda: False, "the impossible")
