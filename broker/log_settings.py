"""`logging.format` and `logging.level`: what they may be. Pure; `logs.py` goes by it."""

from __future__ import annotations

from typing import Final

from pylog.errors import InvalidConfig

FORMATS: Final = ("text", "logfmt", "json")
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
DEFAULT_LEVEL: Final = "INFO"


def parse_levels(text: str) -> dict[str, str]:
    """`INFO,pylog.grpc=DEBUG` as levels by logger, `""` for all others; InvalidConfig says what is
    wrong with it.
    """
    levels = {"": DEFAULT_LEVEL}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, level = item.rpartition("=")
        level = level.strip().upper()
        if level not in LEVELS:
            raise InvalidConfig(
                f"logging.level={text!r}: {item!r} is not a level ({', '.join(LEVELS)}), nor "
                "<logger>=<level>"
            )
        levels[name.strip()] = level
    return levels
