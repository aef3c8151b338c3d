"""Options of Kafka's tools and of kcat that `pylog` writes otherwise: what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

_TOPIC: Final = "The topic is an argument of the command."
_GROUP: Final = "The group is an argument of the command."
_SERVERS: Final = "Write -b HOST:PORT behind `pylog` or behind the whole command."
_SETTING: Final = "Write --config KEY=VALUE, once for each setting."
_ENTITY: Final = "Type and name are arguments of the command, as in `topic flights`."
_MODE: Final = "Write `pylog consume`, `pylog produce` or `pylog topics describe`."

HINTS: Final[Mapping[str, str]] = {
    "--topic": _TOPIC,
    "-t": _TOPIC,
    "--group": _GROUP,
    "-G": "Write --group GROUP.",
    "--bootstrap-server": _SERVERS,
    "--bootstrap-servers": _SERVERS,
    "--broker-list": _SERVERS,
    "-b": _SERVERS,
    "--property": _SETTING + " Keys are read by --key-separator and printed by --format.",
    "--producer-property": _SETTING,
    "--consumer-property": _SETTING,
    "--command-property": _SETTING,
    "-X": _SETTING,
    "--timeout-ms": "Write --timeout S, in seconds.",
    "--time": "Write --at.",
    "--entity-type": _ENTITY,
    "--entity-name": _ENTITY,
    "--entity-default": "Write `default` in place of the name.",
    "--add-config": "Write --set KEY=VALUE.",
    "--delete-config": "Write --delete KEY.",
    "--dry-run": "Without --execute nothing is changed.",
    "--num-records": "Write --records.",
    "--throughput": "Write --rate.",
    "-C": _MODE,
    "-P": _MODE,
    "-L": _MODE,
    "-o": "Write --offset.",
    "-c": "Write --max-messages.",
    "-e": "Write --until-end.",
    "-f": "Write --format.",
    "-p": "Write --partition.",
    "-K": "Write --key-separator TEXT, or %k in --format.",
    "-J": "Write --json.",
}
"""By the option as it is typed; only where a command has no such option itself."""


def with_hint(error: click.UsageError) -> click.UsageError:
    """The same error, or, for one of Kafka's options, an error that names what `pylog` has in its
    place.
    """
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return error
    hint = HINTS.get(error.option_name)
    command, name = error.ctx.command, error.option_name.removeprefix("--")
    if isinstance(command, click.Group) and name in command.commands:
        hint = f"It is a command: `{error.ctx.command_path} {name}`."
    if hint is None:
        return error
    said = f"No such option {error.option_name!r}. {hint}"
    return click.NoSuchOption(error.option_name, said, ctx=error.ctx)
