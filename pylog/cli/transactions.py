"""`pylog transactions`: list, describe, producers, abort, find-hanging."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from pylog.cli.context import (
    Settings,
    print_json,
    print_table,
    telling_outcomes,
    with_settings,
)
from pylog.cli.moments import SPANS, span_ms, time_shown
from pylog.clock import SYSTEM_CLOCK
from pylog.config import INT_MAX, LONG_MAX
from pylog.model import TopicPartition
from pylog.plain_text import escaped

if TYPE_CHECKING:
    from pylog.client.admin.transaction_types import (
        HangingTransaction,
        ProducerState,
        TransactionDescription,
    )


@click.group()
def transactions() -> None:
    """Look at transactions and their producers, and abort what hangs."""


@transactions.command(name="list")
@click.option("--state", "states", multiple=True, help="Only in this state: Ongoing, "
              "PrepareCommit, ...; may come several times.")  # fmt: skip
@click.option("--producer-id", "producer_ids", type=click.IntRange(0, LONG_MAX), multiple=True,
              help="Only of this producer; may come several times.")  # fmt: skip
@click.option("--older-than", metavar="SPAN", help="Only with a transaction that is open for "
              f"longer: {SPANS}.")  # fmt: skip
@click.option("--pattern", help="Only ids that match this regular expression (RE2) as a whole.")
@with_settings
def list_(
    settings: Settings,
    /,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    older_than: str | None,
    pattern: str | None,
) -> None:
    """List the transactional ids of all brokers."""
    with settings.admin() as admin:
        found = admin.list_transactions(
            states or None,
            producer_ids=producer_ids or None,
            older_than_ms=None if older_than is None else _span_ms(older_than),
            pattern=pattern,
        )
    if settings.as_json:
        print_json([each._asdict() for each in found])
    else:
        columns = ("transactional id", "coordinator", "producer", "state", "query", "sink")
        print_table(columns, found)


@transactions.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@with_settings
def describe(settings: Settings, ids: tuple[str, ...]) -> None:
    """Show what the coordinators of transactional ids know of them."""
    with settings.admin() as admin, telling_outcomes(lambda _, one: _show(settings, [one])):
        _show(settings, admin.describe_transactions(ids).values())


@transactions.command()
@click.argument("topic")
@click.option("--partition", type=click.IntRange(0, INT_MAX), help="Only of this one.")
@with_settings
def producers(settings: Settings, topic: str, partition: int | None) -> None:
    """Show the producers that the leaders of a topic's partitions know."""
    with settings.admin() as admin:
        if partition is None:
            (described,) = admin.describe_topics([topic]).values()
            wanted = [TopicPartition(topic, each.partition) for each in described.partitions]
        else:
            wanted = [TopicPartition(topic, partition)]
        found = admin.describe_producers(wanted)
    if settings.as_json:
        print_json([_producer_json(tp, one) for tp, each in found.items() for one in each])
        return
    print_table(
        ("partition", "producer", "epoch", "last sequence", "last record", "coordinator epoch",
         "open since offset"),
        (
            (tp, one.producer_id, one.producer_epoch, one.last_sequence,
             time_shown(one.last_timestamp_ms), one.coordinator_epoch, one.start_offset)
            for tp, each in found.items()
            for one in each
        ),
    )  # fmt: skip


@transactions.command()
@click.argument("transactional_id", metavar="[ID]", required=False)
@click.option("--topic", help="Of one that hangs: a partition's topic.")
@click.option("--partition", type=click.IntRange(0, INT_MAX), help="The partition's number.")
@click.option("--start-offset", type=click.IntRange(0, LONG_MAX),
              help="Where the transaction begins in it.")  # fmt: skip
@click.option("--producer-id", type=click.IntRange(0, LONG_MAX), help="Or whose it is.")
@with_settings
def abort(
    settings: Settings,
    /,
    transactional_id: str | None,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
    producer_id: int | None,
) -> None:
    """Abort the open transaction of an id, whose producer is fenced with that; or one that hangs in
    a partition, as find-hanging shows it.

    \b
    pylog transactions abort orders-loader-1
    pylog transactions abort --topic orders --partition 3 --start-offset 1200
    """
    of_partition = (topic, partition, start_offset, producer_id)
    if transactional_id is not None:
        if any(given is not None for given in of_partition):
            raise click.UsageError("give a transactional id, or options of a partition, not both")
        with settings.admin() as admin:
            admin.abort_transaction(transactional_id)
        _tell_aborted(settings, {"transactional_id": transactional_id}, transactional_id)
        return
    if topic is None or partition is None or (start_offset is None) == (producer_id is None):
        raise click.UsageError(
            "give a transactional id; or --topic, --partition, and --start-offset or --producer-id"
        )
    with settings.admin() as admin:
        admin.abort_transaction(
            TopicPartition(topic, partition), start_offset=start_offset, producer_id=producer_id
        )
    place = {"topic": topic, "partition": partition}
    given = {"start_offset": start_offset, "producer_id": producer_id}
    _tell_aborted(
        settings,
        place | {name: number for name, number in given.items() if number is not None},
        str(TopicPartition(topic, partition)),
    )


def _tell_aborted(settings: Settings, what: Mapping[str, object], name: str) -> None:
    if settings.as_json:
        print_json(what)
    else:
        click.echo(f"aborted the transaction of {escaped(name)}")


@transactions.command(name="find-hanging")
@click.option(
    "--topic", "topics", multiple=True, help="Only in this topic; may come several times."
)
@click.option("--older-than", metavar="SPAN", default="15m", show_default=True,
              help="Only with no record since so long.")  # fmt: skip
@with_settings
def find_hanging(settings: Settings, topics: tuple[str, ...], older_than: str) -> None:
    """Find transactions that no coordinator will end, and that hold back readers of committed
    records.
    """
    age_ms = _span_ms(older_than)
    with settings.admin() as admin, telling_outcomes(lambda _, one: _show_hanging(settings, [one])):
        found = admin.find_hanging_transactions(topics or None, older_than_ms=age_ms)
        _show_hanging(settings, found)


# ---- showing -----------------------------------------------------------------------------------


def _show(settings: Settings, found: Iterable[TransactionDescription]) -> None:
    if settings.as_json:
        print_json(
            [
                {**dataclasses.asdict(each), "partitions": list(map(str, each.partitions))}
                for each in found
            ]
        )
        return
    print_table(
        ("transactional id", "coordinator", "producer", "epoch", "state", "time-out", "open for",
         "partitions"),
        (
            (each.transactional_id, each.coordinator, each.producer_id, each.producer_epoch,
             each.state, "none" if each.timeout_ms is None else f"{each.timeout_ms / 1000:g} s",
             _age(each.start_time_ms), ", ".join(map(str, each.partitions)))
            for each in found
        ),
    )  # fmt: skip


def _show_hanging(settings: Settings, found: Iterable[HangingTransaction]) -> None:
    if settings.as_json:
        print_json(
            [
                {
                    **_producer_json(each.partition, each.producer),
                    "transactional_id": each.transactional_id,
                }
                for each in found
            ]
        )
        return
    print_table(
        ("topic", "partition", "start offset", "producer", "epoch", "last record",
         "transactional id"),
        (
            (*each.partition, each.producer.start_offset, each.producer.producer_id,
             each.producer.producer_epoch, time_shown(each.producer.last_timestamp_ms),
             each.transactional_id)
            for each in found
        ),
    )  # fmt: skip


def _producer_json(tp: TopicPartition, producer: ProducerState) -> dict[str, Any]:
    return {"topic": tp.topic, "partition": tp.partition, **dataclasses.asdict(producer)}


def _span_ms(text: str) -> int:
    try:
        return span_ms(text)
    except ValueError as error:
        raise click.UsageError(f"--older-than: {error}") from None


def _age(since_ms: int | None) -> str | None:
    if since_ms is None:
        return None
    return f"{max(SYSTEM_CLOCK.wall_ms() - since_ms, 0) / 1000:.1f} s"
