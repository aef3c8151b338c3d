"""`pylog sinks`: list, abort, forget."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from pylog.cli.context import (
    Settings,
    confirm,
    print_json,
    print_table,
    telling_outcomes,
    with_settings,
)
from pylog.clock import SYSTEM_CLOCK
from pylog.plain_text import escaped

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pylog.client.admin.sink_types import SinkListing


@click.group()
def sinks() -> None:
    """Look at the sinks of queries whose batches count once, and end what is left of them."""


@sinks.command(name="list")
@click.option("--query", "query_id", metavar="ID", help="Only of this query.")
@click.option("--sink", "sink_id", metavar="ID", help="Only of this name.")
@click.option("--receipts", is_flag=True, help="With where the records of the last batch lie.")
@with_settings
def list_(settings: Settings, /, query_id: str | None, sink_id: str | None, receipts: bool) -> None:
    """List the sinks of all brokers: the last batch that counts, attempts that are open, and since
    when the oldest one holds back readers of committed records.
    """
    with settings.admin() as admin, telling_outcomes(lambda _, part: _show(settings, part)):
        _show(settings, admin.list_sinks(query_id, sink_id, receipts=receipts))


@sinks.command()
@click.argument("query_id", metavar="QUERY")
@click.argument("sink_id", metavar="SINK")
@with_settings
def abort(settings: Settings, query_id: str, sink_id: str) -> None:
    """Abort the open attempts of a sink. Batches that count go on doing so."""
    with settings.admin() as admin:
        aborted = admin.abort_sink(query_id, sink_id)
    if settings.as_json:
        print_json({"query_id": query_id, "sink_id": sink_id, "aborted": aborted})
    else:
        click.echo(f"{aborted} attempt{'' if aborted == 1 else 's'} aborted")


@sinks.command()
@click.argument("query_id", metavar="QUERY")
@click.argument("sink_id", metavar="SINK")
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_settings
def forget(settings: Settings, query_id: str, sink_id: str, yes: bool) -> None:
    """Forget a sink whose query does not come back."""
    if not yes:
        confirm("If the query starts again, it writes its last batch a second time. Go on?")
    with settings.admin() as admin:
        admin.forget_sink(query_id, sink_id)
    if settings.as_json:
        print_json({"query_id": query_id, "sink_id": sink_id})
    else:
        click.echo(f"forgot sink {escaped(sink_id)} of query {escaped(query_id)}")


# ---- showing -----------------------------------------------------------------------------------


def _show(settings: Settings, found: Iterable[SinkListing]) -> None:
    if settings.as_json:
        print_json([_json(each) for each in found])
        return
    print_table(
        ("query", "sink", "coordinator", "run", "last batch", "rows", "decided", "open attempts",
         "prepared", "readers wait for", "receipt"),
        (
            (each.query_id, each.sink_id, each.coordinator, each.run_id, *_batch(each),
             each.open_attempts, each.prepared_attempts, _age(each.held_since_ms), _receipt(each))
            for each in found
        ),
    )  # fmt: skip


def _batch(sink: SinkListing) -> tuple[object, ...]:
    last = sink.last
    if last is None:
        return None, None, None
    decided = datetime.fromtimestamp(last.decided_ms / 1000, UTC)
    return last.batch_id, last.row_count, decided.isoformat(timespec="seconds")


def _receipt(sink: SinkListing) -> str:
    receipt = () if sink.last is None else sink.last.receipt
    return ", ".join(
        f"{topic}-{partition}: {first} to {last}" for topic, partition, first, last in receipt
    )


def _json(sink: SinkListing) -> dict[str, Any]:
    told = dataclasses.asdict(sink)
    if sink.last is not None:
        told["last"]["receipt"] = [each._asdict() for each in sink.last.receipt]
        told["last"]["overwritten"] = [each._asdict() for each in sink.last.overwritten]
    return told


def _age(since_ms: int | None) -> str | None:
    if since_ms is None:
        return None
    return f"{max(SYSTEM_CLOCK.wall_ms() - since_ms, 0) / 1000:.1f} s"
