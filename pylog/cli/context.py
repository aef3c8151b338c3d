"""What all commands share: the global options, clients, and ways to print."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

import click

if TYPE_CHECKING:
    from pylog.client.admin import AdminClient

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Settings:
    """The global options."""

    bootstrap_servers: str
    as_json: bool
    api_timeout_s: float

    def client(self) -> dict[str, Any]:
        """Keyword arguments for any client object."""
        logging.getLogger("pylog.client").addHandler(logging.NullHandler())
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "default_api_timeout_ms": int(self.api_timeout_s * 1000),
        }

    def admin(self) -> AdminClient:
        """An admin client for the cluster."""
        from pylog.client.admin import AdminClient

        return AdminClient(**self.client())


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
        return command(
            replace(
                settings,
                bootstrap_servers=servers_here or settings.bootstrap_servers,
                as_json=json_here or settings.as_json,
            ),
            *args,
            **kwargs,
        )

    return run


def print_json(value: object) -> None:
    """One object on one line."""
    click.echo(json.dumps(value, ensure_ascii=False))


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table for people: as wide as its contents when the output is not a terminal."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    console = Console(soft_wrap=False)
    if not console.is_terminal:
        console = Console(width=10_000)
    console.print(table)
