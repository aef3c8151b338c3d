"""The log directories of a broker, and those of them that do not work: remembered in each that
does. So one whose disk is not mounted at a start is known to be missing, and is not taken for a new
one; and one that failed is known to have failed when it is back, also on the same boot of the
machine.

A JSON file of pylog's own, `log-directories.json`; brokers with one directory have none.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pylog_broker.storage.errors import StartPutOff
from pylog_broker.storage.files import Files, is_of_the_moment

ROSTER: Final = "log-directories.json"

_VERSION: Final = 0

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Roster:
    """Directory ids by path, as of a start. A directory that was away has an older generation.

    `doubtful`: the paths of those that were not there, or have failed since and could not note it.
    Data that was not synced in them need not be there when they are back.
    """

    generation: int = 0
    ids: Mapping[str, str] = field(default_factory=dict)
    doubtful: frozenset[str] = frozenset()

    def encode(self) -> bytes:
        """The content of the file."""
        content = {
            "version": _VERSION,
            "generation": self.generation,
            "directories": dict(sorted(self.ids.items())),
            "doubtful": sorted(self.doubtful),
        }
        return (json.dumps(content, indent=1) + "\n").encode("utf-8")

    @classmethod
    def decode(cls, data: bytes) -> Roster:
        """The reverse; ValueError when it makes no sense."""
        try:
            content = json.loads(data)
            if content["version"] != _VERSION:
                raise ValueError(f"its version is {content['version']!r}")
            ids = {str(path): str(id) for path, id in content["directories"].items()}
            doubtful = frozenset(str(path) for path in content.get("doubtful", ()))
            return cls(int(content["generation"]), ids, doubtful)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"it lacks a usable {error}") from error


def newest_roster(files: Files, directories: Iterable[str]) -> Roster:
    """The newest one that these directories remember; an empty one when none does. StartPutOff."""
    newest = Roster()
    for directory in directories:
        path = f"{directory}/{ROSTER}"
        try:
            found = Roster.decode(files.read_all(path))
        except FileNotFoundError:
            continue
        except (OSError, ValueError) as error:
            if is_of_the_moment(error):
                raise StartPutOff(f"{path} cannot be read now: {error}") from error
            logger.warning("ignoring %s: %s", path, error)
            continue
        if found.generation > newest.generation:
            newest = found
    return newest


def write_roster(files: Files, directory: str, roster: Roster) -> None:
    """Replace it, durably. OSError."""
    files.write_atomic(f"{directory}/{ROSTER}", roster.encode())
