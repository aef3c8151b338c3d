"""`pylog groups`: what its options mean."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import click
import pytest

from pylog.cli.groups import _rule
from pylog.cli.offset_plans import read_csv

NONE_OF_THEM: dict[str, Any] = {
    "to_earliest": False, "to_latest": False, "to_datetime": None, "by_duration": None,
    "to_offset": None, "shift_by": None, "to_current": False,
}  # fmt: skip


@pytest.mark.parametrize("option", ["to_offset", "shift_by"])
def test_0_is_an_offset_and_a_shift(option: str) -> None:
    assert _rule({**NONE_OF_THEM, option: 0}, has_file=False) is not None
    with pytest.raises(click.UsageError, match="give one of"):
        _rule({**NONE_OF_THEM, option: 0}, has_file=True)


def test_one_target_is_needed() -> None:
    with pytest.raises(click.UsageError, match="give one of"):
        _rule(NONE_OF_THEM, has_file=False)
    assert _rule(NONE_OF_THEM, has_file=True) is None


def test_a_span_that_is_none_is_told_with_its_option() -> None:
    for text, words in (("P5M", "'P5M' is not a span of time"), ("99999999999d", "longer than")):
        with pytest.raises(click.UsageError) as refused:
            _rule({**NONE_OF_THEM, "by_duration": text}, has_file=False)
        assert refused.value.message.startswith("--by-duration: ")
        assert words in refused.value.message


def _no_text() -> Iterable[str]:
    yield b"\xff".decode()


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (_no_text(), "--from-file: it is no text in UTF-8"),
        (["t,0,1", "t" * 200_000], "--from-file: line 2: field larger than"),
        (["t,0,1", "t,0"], "--from-file: line 2 is not group,topic,partition,offset"),
        (["h,t,0,1"], "--from-file: line 1: group 'h' is not one of the groups"),
    ],
)
def test_a_file_that_is_no_plan(lines: Iterable[str], words: str) -> None:
    with pytest.raises(click.ClickException) as refused:
        read_csv(lines, ["g"])
    assert refused.value.message.startswith(words)
