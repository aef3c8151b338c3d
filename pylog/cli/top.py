"""`pylog top`: topics, rates, groups and lag, live in a terminal."""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import click

from pylog import errors
from pylog.cli import failures
from pylog.cli.activity import Look, group_rows, look, topic_rows
from pylog.cli.amounts import rate_shown
from pylog.cli.context import Seconds, Settings, print_json, print_table, table_of, with_settings
from pylog.cli.moments import seconds_shown
from pylog.cli.terminal import is_plain
from pylog.clock import SYSTEM_CLOCK

TOPIC_COLUMNS: Final = ("topic", "partitions", "offline", "under-replicated", "records/s")
GROUP_COLUMNS: Final = ("group", "state", "members", "lag", "lag s", "records/s")


@click.command()
@click.option("--interval", type=Seconds(min=0.1), default=2.0, show_default=True,
              metavar="SECONDS", help="Between two looks.")  # fmt: skip
@click.option("--count", type=click.IntRange(min=1), help="Looks, then end. Default: until Ctrl-C.")
@click.option("--internal", is_flag=True, help="Internal topics too.")
@click.option("--rows", type=click.IntRange(min=1), default=20, show_default=True,
              help="Topics, and groups, at most.")  # fmt: skip
@with_settings
def top(settings: Settings, interval: float, count: int | None, internal: bool, rows: int) -> None:
    """Watch topics and groups: the busiest topics and the groups furthest behind first.

    Rates are of records between two looks, so the first one has none. A group's rate is that of its
    commits; its lag in seconds is the age of the oldest record that it has not passed.

    \b
    pylog top
    pylog top --count 2 --interval 10 --json
    """
    before: Look | None = None
    with (
        settings.admin() as admin,
        _screen(settings, rows) as show,
        contextlib.suppress(KeyboardInterrupt),
    ):
        for turn in itertools.count(1):
            try:
                now = look(admin, internal=internal)
            except errors.PylogError as error:
                if before is None:
                    raise
                failures.tell_error(error)
            else:
                show(before, now)
                before = now
            if turn == count:
                return
            SYSTEM_CLOCK.sleep(interval)


Show = Callable[["Look | None", Look], None]


@contextlib.contextmanager
def _screen(settings: Settings, rows: int) -> Iterator[Show]:
    """The function that shows a look. On a terminal each look replaces the one before."""
    if settings.as_json:
        yield _show_json
        return
    if is_plain(sys.stdout):
        yield lambda before, now: _show_plain(before, now, rows)
        return
    from rich.console import Group
    from rich.live import Live

    with Live(screen=True, auto_refresh=False) as live:

        def show(before: Look | None, now: Look) -> None:
            tables = (table_of(columns, lines) for columns, lines in _tables(before, now, rows))
            live.update(Group(_head(now), "", *tables), refresh=True)

        yield show


def _head(now: Look) -> str:
    return f"{now.brokers} brokers, {len(now.topics)} topics, {len(now.groups)} groups"


def _tables(
    before: Look | None, now: Look, rows: int
) -> list[tuple[Sequence[str], list[Sequence[object]]]]:
    topics = [(*row[:-1], rate_shown(row.records)) for row in topic_rows(before, now)[:rows]]
    groups = [
        (*row[:-2], seconds_shown(row.lag_seconds), rate_shown(row.records))
        for row in group_rows(before, now)[:rows]
    ]
    return [(TOPIC_COLUMNS, [*topics]), (GROUP_COLUMNS, [*groups])]


def _show_plain(before: Look | None, now: Look, rows: int) -> None:
    click.echo(_head(now))
    for columns, lines in _tables(before, now, rows):
        print_table(columns, lines)
    click.echo()


def _show_json(before: Look | None, now: Look) -> None:
    topics = [row._asdict() for row in topic_rows(before, now)]
    groups = [row._asdict() for row in group_rows(before, now)]
    print_json({"brokers": now.brokers, "topics": topics, "groups": groups})
