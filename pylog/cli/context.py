"""The common part of all commands: the global options, clients, and ways to print."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import math
import os
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, TypeVar, cast

import click

from pylog import errors
from pylog.cli import failures
from pylog.cli.terminal import is_plain
from pylog.clock import SYSTEM_CLOCK
from pylog.plain_text import escaped, escaped_json

if TYPE_CHECKING:
    from rich.table import Table

    from pylog.client.admin.admin import AdminClient

P = ParamSpec("P")
T = TypeVar("T")
KeyT = TypeVar("KeyT", bound=Hashable)

DEFAULT_SERVERS: Final = "127.0.0.1:9092"
WAIT_S: Final = 1.0
"""For a cluster that nobody has started: somebody may just be doing it."""
COMPLETION_SECONDS_MAX: Final = 1.0
NUMBER_MAX: Final = 1e6
TRY_AGAIN_S: Final = 0.2
COLUMN_GAP: Final = 3
"""Between two columns of a table."""


class Seconds(click.FloatRange):
    """A number of seconds (or of records a second) with which one can reckon: not nan, not inf."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number) or number > NUMBER_MAX:
            self.fail(f"{value} is not a number up to {NUMBER_MAX:.0f}.", param, ctx)
        return float(number)


class Bytes(click.types.StringParamType):
    """A text that stands for bytes, whatever they are; other texts must be UTF-8."""


BYTES: Final = Bytes()


@dataclass(frozen=True, slots=True)
class Settings:
    """The global options."""

    bootstrap_servers: str
    as_json: bool
    api_timeout_s: float
    routing: str = "direct"
    wait_s: float = WAIT_S

    def client(self) -> dict[str, Any]:
        """Keyword arguments for any client object."""
        logging.getLogger("pylog.client").addHandler(logging.NullHandler())
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "default_api_timeout_ms": int(self.api_timeout_s * 1000),
            "bootstrap_timeout_ms": int(self.wait_s * 1000),
            "client_routing": self.routing,
        }

    def once_brokers_are_there(self, create: Callable[[], T]) -> T:
        """The result of `create`. A cluster that has just been started may have too few brokers
        yet: where the user gave a longer `--wait`, `create` is tried again for so long.
        """
        wait_s = self.wait_s if self.wait_s > WAIT_S else 0
        deadline_ms = SYSTEM_CLOCK.monotonic_ms() + wait_s * 1000
        while True:
            try:
                return create()
            except (errors.InvalidReplicationFactor, errors.PartialFailure) as error:
                if not _too_few_brokers(error) or SYSTEM_CLOCK.monotonic_ms() >= deadline_ms:
                    raise
            SYSTEM_CLOCK.sleep(TRY_AGAIN_S)

    def admin(self) -> AdminClient:
        """An admin client for the cluster."""
        from pylog.client.admin.admin import AdminClient

        return AdminClient(**self.client())


def _too_few_brokers(error: errors.PylogError) -> bool:
    if not isinstance(error, errors.PartialFailure):
        return True
    faults = error.errors.values()
    return not error.results and all(isinstance(f, errors.InvalidReplicationFactor) for f in faults)


def with_settings(command: Callable[Concatenate[Settings, P], Any]) -> Callable[..., Any]:
    """Give a command the settings, and let `-b` and `--json` stand after its name as well."""

    @click.option("-b", "--bootstrap-servers", "servers_here", hidden=True)
    @click.option("--json", "json_here", is_flag=True, help="Print JSON, for machines.")
    @click.pass_context
    @functools.wraps(command)
    def run(
        ctx: click.Context,
        /,
        servers_here: str | None,
        json_here: bool,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Any:
        settings = ctx.find_object(Settings)
        assert settings is not None
        for parameter in ctx.command.params:
            if parameter.type is click.STRING and parameter.name in kwargs:
                kwargs[parameter.name] = _in_utf8(kwargs[parameter.name], ctx, parameter)
        return command(
            replace(
                settings,
                bootstrap_servers=settings.bootstrap_servers
                if servers_here is None
                else servers_here,
                as_json=json_here or settings.as_json,
            ),
            *args,
            **kwargs,
        )

    return run


def _in_utf8(given: Any, ctx: click.Context, parameter: click.Parameter) -> Any:
    """A text, or several, also where the locale cannot read the bytes that it came as."""
    if isinstance(given, tuple):
        return tuple(_in_utf8(each, ctx, parameter) for each in given)
    if not isinstance(given, str):
        return given
    try:
        return os.fsencode(given).decode()
    except UnicodeError:
        raise click.BadParameter(f"{given!r} is no text in UTF-8.", ctx, parameter) from None


def complete_topics(ctx: click.Context, _parameter: click.Parameter, begun: str) -> list[str]:
    """For the shell: names of topics that begin like this; none when the cluster is slow."""
    root = ctx.find_root().params.get("bootstrap_servers")
    servers = root or os.environ.get("PYLOG_BOOTSTRAP_SERVERS") or DEFAULT_SERVERS
    try:
        with Settings(servers, False, COMPLETION_SECONDS_MAX).admin() as admin:
            return [name for name in admin.list_topics() if name.startswith(begun)]
    except errors.PylogError:
        return []


def key_values(items: Iterable[str], option: str) -> dict[str, str]:
    """`KEY=VALUE` texts as a mapping; UsageError names the one that is not, or comes twice."""
    values: dict[str, str] = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{option} {item}: write KEY=VALUE")
        if key in values:
            raise click.UsageError(f"{option} {item}: {key} is given twice")
        values[key] = value
    return values


def client_settings(items: Iterable[str], taken: Iterable[str]) -> dict[str, Any]:
    """`--config` of produce and consume as keyword arguments; not what has an option of its own."""
    values = key_values(items, "--config")
    for key in values:
        if key.replace(".", "_") in taken:
            raise click.UsageError(f"--config {key}=...: there is an option of the command for it")
    return {key.replace(".", "_"): value for key, value in values.items()}


@contextlib.contextmanager
def telling_outcomes(show: Callable[[Any, Any], None]) -> Iterator[None]:
    """Reports a call of which only some items failed: `show` for each success, one line for each
    failure, and the exit status of a failure.
    """
    try:
        yield
    except errors.PartialFailure as partly:
        for item, value in partly.results.items():
            show(item, value)
        failures.tell_error(partly)
        raise click.exceptions.Exit(1) from partly


def answered(ask: Callable[[], Mapping[KeyT, T]]) -> tuple[Mapping[KeyT, T], int]:
    """All that could be had, and the exit status: what failed is reported."""
    try:
        return ask(), 0
    except errors.PartialFailure as partly:
        failures.tell_error(partly)
        return cast("Mapping[KeyT, T]", partly.results), 1


def confirm(question: str) -> None:
    """Comes back when a person has said yes; ClickException where the answer is no, or nobody can
    answer.
    """
    if failures.Form.as_json:
        raise click.UsageError("--json asks no question: give --yes to go on")
    try:
        answer = click.confirm(question, err=True)
    except click.Abort as abort:
        if not isinstance(abort.__context__, EOFError):
            raise  # Ctrl-C
        click.echo(err=True)
        raise click.ClickException("nobody answers: give --yes to go on without asking") from None
    if not answer:
        raise click.ClickException("nothing is changed")


def print_json(value: object) -> None:
    """One object on one line; in ASCII where the output takes no other text."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    click.echo(escaped_json(json.dumps(value, ensure_ascii=encoding != "utf8")))


def table_of(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table for people. Text from servers is no markup in it, and moves no cursor."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold", min_width=_longest_word(column))
    for row in rows:
        table.add_row(*(Text("" if cell is None else escaped(str(cell))) for cell in row))
    return table


def _longest_word(column: str) -> int:
    return max(map(len, column.split()), default=0)


def _least_width(columns: Sequence[str]) -> int:
    """Of a table in which no word of a head is broken."""
    return sum(_longest_word(column) + COLUMN_GAP for column in columns)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table for people: as wide as its contents when the output is not a terminal."""
    from rich.console import Console

    table = table_of(columns, rows)
    if sys.stdout.isatty():
        plain = is_plain(sys.stdout)
        console = Console(force_terminal=True, color_system=None if plain else "auto")
        # In a narrower terminal heads are single letters below each other, and cells are empty:
        # it breaks the lines itself.
        console.width = max(console.width, _least_width(columns))
        console.print(table)
        return
    wide = Console(width=10_000, color_system=None)
    with wide.capture() as captured:
        wide.print(table)
    # Not the spaces that fill up the last column: they only get in the way of other tools.
    click.echo("\n".join(line.rstrip() for line in captured.get().splitlines()))
