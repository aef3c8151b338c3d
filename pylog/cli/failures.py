"""The one form in which commands tell what went wrong: `pylog: NAME: why. Next step.` on standard
error, or, with `--json`, an object in a line of its own. Standard output has results alone.
"""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import ClassVar

import click

from pylog import errors
from pylog.cli.kafka_options import with_hint
from pylog.next_steps import OWN_WORDS, next_step
from pylog.plain_text import escaped, escaped_json


class Form:
    """The form of errors in this process, which runs one command: whether they are for machines."""

    as_json = False
    shown: ClassVar[set[str]] = set()
    """The next steps that a person has read already: several items may fail by one error."""

    @classmethod
    def choose(cls, arguments: Sequence[str]) -> None:
        """By whether `--json` is among the arguments, also among those that cannot be parsed."""
        options = arguments[: arguments.index("--")] if "--" in arguments else arguments
        cls.as_json = "--json" in options
        cls.shown = set()


def tell_error(error: BaseException, *, lead: str = "", **fields: object) -> None:
    """Reports the reason of a failure, or, where parts of a call failed, that of each of them.
    `lead` tells people the place of it, `fields` machines.
    """
    if isinstance(error, errors.PartialFailure):
        for part in error.errors.values():
            tell_error(part, lead=lead, **fields)
        return
    step = next_step(type(error)) if isinstance(error, errors.PylogError) else ""
    if not Form.as_json:
        text = in_words(error)
        if step and step not in Form.shown and type(error) not in OWN_WORDS:
            Form.shown.add(step)
            text = f"{text.rstrip('.')}. {step}"
        click.echo(f"pylog: {lead}{text}", err=True)
        return
    said: dict[str, object] = {"error": name_of(error), "message": message_of(error)}
    if isinstance(error, errors.PylogError):
        said |= {"code": error.code, "retriable": error.retriable, "next_step": step}
    _echo_json(said | fields)


def tell_usage(error: click.UsageError) -> None:
    """Reports wrong usage: to people with the usage line, as click shows it."""
    error = with_hint(error)
    if Form.as_json:
        tell_error(error)
        return
    shown = io.StringIO()
    error.show(shown)
    for line in shown.getvalue().splitlines():
        click.echo(escaped(line.expandtabs(4)), err=True)


def tell(text: str, **fields: object) -> None:
    """Something that a person should know and that is no result."""
    if Form.as_json:
        _echo_json({"message": text} | fields)
    else:
        click.echo(f"pylog: {text}", err=True)


def in_words(error: BaseException) -> str:
    """`NAME: why` of an error of pylog; of others why, in one line."""
    text = message_of(error)
    return f"{error.name}: {text}" if isinstance(error, errors.PylogError) else text


def name_of(error: BaseException) -> str:
    """The error's own name: Kafka's for an error of pylog."""
    return error.name if isinstance(error, errors.PylogError) else type(error).__name__


def message_of(error: BaseException) -> str:
    """The reason of an error, in one line that moves no cursor."""
    said = error.format_message() if isinstance(error, click.ClickException) else str(error)
    return escaped(" ".join(said.split())) or type(error).__name__


def _echo_json(said: dict[str, object]) -> None:
    click.echo(escaped_json(json.dumps(said)), err=True)
