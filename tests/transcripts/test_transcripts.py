"""Conversations with the cores: each file is what is said, and what the core wants done.

A file is made of steps, with a blank line behind each: a command, `----`, and what it gives, a line
for each effect. Lines that begin with # are for the reader. The first step chooses the core.
PYLOG_REWRITE=1 writes the files anew: what has changed is then seen in the difference.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.short_text import short_text
from tests.transcripts.worlds import WORLDS

HERE = Path(__file__).parent
REWRITE = "PYLOG_REWRITE"
FILES = sorted(HERE.glob("*.txt"))


def rewritten(text: str) -> str:
    """The file with what the core gives now."""
    lines: list[str] = []
    world: Any = None
    is_output = False
    for line in text.splitlines():
        is_output = (is_output or line == "----") and bool(line)
        if is_output:
            continue
        lines.append(line)
        if not line or line.startswith("#"):
            continue
        name, *words = line.split()
        given = [word for word in words if "=" not in word]
        named = dict(word.split("=", 1) for word in words if "=" in word)
        effects: list[object] = []
        if world is None:
            world = WORLDS[name](*given, **named)
        else:
            effects = getattr(world, name)(*given, **named)
        said = [effect if isinstance(effect, str) else short_text(effect) for effect in effects]
        lines += ["----", *(said or ["nothing"])]
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_conversation_goes_as_written(file: Path) -> None:
    written = file.read_text()
    now = rewritten(written)
    if os.environ.get(REWRITE) == "1":
        file.write_text(now)
    elif now != written:
        assert now.splitlines() == written.splitlines()


def test_there_are_conversations_with_each_core() -> None:
    chosen = {
        next(line.split()[0] for line in file.read_text().splitlines() if line[:1] not in ("#", ""))
        for file in FILES
    }
    assert chosen == set(WORLDS)
    assert len(FILES) >= 12
