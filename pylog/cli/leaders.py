"""`pylog leaders`: elections by command."""

from __future__ import annotations

import click

from pylog.cli.context import (
    Settings,
    complete_topics,
    confirm,
    print_json,
    print_table,
    telling_outcomes,
    with_settings,
)
from pylog.config import INT_MAX
from pylog.model import TopicPartition


@click.group()
def leaders() -> None:
    """Elect leaders of partitions."""


@leaders.command()
@click.argument(
    "where", metavar="[TOPIC|TOPIC:PARTITION]...", nargs=-1, shell_complete=complete_topics
)
@click.option(
    "--all", "everywhere", is_flag=True, help="Wherever the preferred leader does not lead."
)
@click.option(
    "--unclean",
    is_flag=True,
    help="Where nobody leads, take a live replica that is out of sync; what it lacks is lost.",
)
@click.option("--yes", is_flag=True, help="Do not ask before an unclean election.")
@with_settings
def elect(
    settings: Settings, where: tuple[str, ...], everywhere: bool, unclean: bool, yes: bool
) -> None:
    """Give partitions back to their preferred leaders, the first of their replicas.

    \b
    pylog leaders elect --all
    pylog leaders elect flights orders:0
    pylog leaders elect orders:0 --unclean
    """
    if everywhere == bool(where):
        raise click.UsageError("name topics or partitions, or give --all")
    if unclean and everywhere:
        raise click.UsageError("--unclean may lose records: name the partitions")
    if unclean and not yes:
        confirm("Records that the new leader lacks are lost. Go on?")
    found: dict[TopicPartition, int] = {}

    def show(tp: TopicPartition, leader: int) -> None:
        found[tp] = leader

    def tell() -> None:
        if settings.as_json:
            print_json(
                [
                    {"topic": tp.topic, "partition": tp.partition, "leader": leader}
                    for tp, leader in sorted(found.items())
                ]
            )
        elif found:
            rows = [(tp.topic, tp.partition, leader) for tp, leader in sorted(found.items())]
            print_table(("topic", "partition", "leader"), rows)
        else:
            click.echo("every preferred leader leads")

    with settings.admin() as admin:
        wanted = None if everywhere else _partitions(where, admin.describe_topics)
        try:
            with telling_outcomes(show):
                for tp, leader in admin.elect_leaders(wanted, unclean=unclean).items():
                    show(tp, leader)
        except click.exceptions.Exit:
            if found:
                tell()
            raise
    tell()


def _partitions(where: tuple[str, ...], describe: object) -> list[TopicPartition]:
    """A topic's name stands for all its partitions."""
    assert callable(describe)
    chosen: list[TopicPartition] = []
    for text in where:
        topic, colon, number = text.rpartition(":")
        if not colon:
            partitions = describe(text)[text].partitions
            chosen += [TopicPartition(text, p.partition) for p in partitions]
        elif number.isascii() and number.isdigit() and int(number) <= INT_MAX:
            chosen.append(TopicPartition(topic, int(number)))
        else:
            raise click.UsageError(f"{text}: write TOPIC:PARTITION, with a number up to {INT_MAX}")
    return list(dict.fromkeys(chosen))
