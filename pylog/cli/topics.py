"""`pylog topics`: create, list, describe, delete."""

from __future__ import annotations

import dataclasses

import click

from pylog.cli.context import Settings, print_json, print_table, with_settings
from pylog.model import NewTopic


@click.group()
def topics() -> None:
    """Create, list, describe and delete topics."""


@topics.command()
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option("--partitions", type=int, default=1, show_default=True, help="Per topic.")
@click.option("--replication-factor", type=int, default=-1, help="Default: the cluster's default.")
@click.option(
    "--config", "configs", metavar="KEY=VALUE", multiple=True, help="A topic configuration."
)
@with_settings
def create(
    settings: Settings,
    names: tuple[str, ...],
    partitions: int,
    replication_factor: int,
    configs: tuple[str, ...],
) -> None:
    """Create topics; returns when all their partitions have leaders."""
    config = {}
    for item in configs:
        key, equals, value = item.partition("=")
        if not equals:
            raise click.UsageError(f"--config {item}: write KEY=VALUE")
        config[key] = value
    wanted = [NewTopic(name, partitions, replication_factor, config=config) for name in names]
    with settings.admin() as admin:
        created = admin.create_topics(wanted)
    for name, topic_id in created.items():
        if settings.as_json:
            print_json({"name": name, "topic_id": topic_id})
        else:
            click.echo(f"created {name}")


@topics.command(name="list")
@click.option("--internal", is_flag=True, help="Internal topics too.")
@with_settings
def list_(settings: Settings, internal: bool) -> None:
    """List the topics' names."""
    with settings.admin() as admin:
        names = admin.list_topics(internal=internal)
    if settings.as_json:
        print_json(names)
    else:
        for name in names:
            click.echo(name)


@topics.command()
@click.argument("names", metavar="[TOPIC]...", nargs=-1)
@with_settings
def describe(settings: Settings, names: tuple[str, ...]) -> None:
    """Show leader and replicas of each partition; of all topics when none is named."""
    with settings.admin() as admin:
        found = admin.describe_topics(list(names) or None)
    if settings.as_json:
        print_json([dataclasses.asdict(topic) for topic in found.values()])
        return
    print_table(
        ("topic", "id", "partition", "leader", "epoch", "replicas", "in sync", "offline"),
        (
            (
                topic.name,
                topic.topic_id,
                p.partition,
                "none" if p.leader is None else p.leader,
                p.leader_epoch,
                _ids(p.replicas),
                _ids(p.isr),
                _ids(p.offline_replicas),
            )
            for topic in found.values()
            for p in topic.partitions
        ),
    )


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))


@topics.command()
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@with_settings
def delete(settings: Settings, names: tuple[str, ...]) -> None:
    """Delete topics with all their records."""
    with settings.admin() as admin:
        deleted = admin.delete_topics(names)
    for name, topic_id in deleted.items():
        if settings.as_json:
            print_json({"name": name, "topic_id": topic_id})
        else:
            click.echo(f"deleted {name}")
