"""`pylog configs`: which settings hold, where they come from, and changing them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Final

import click

from pylog.cli.context import (
    Settings,
    complete_topics,
    key_values,
    print_json,
    print_table,
    telling_outcomes,
    with_settings,
)
from pylog.plain_text import escaped

if TYPE_CHECKING:
    from pylog.client.admin.admin_types import ConfigEntry, ConfigResource

SOURCES: Final = {
    "DYNAMIC_TOPIC_CONFIG": "topic",
    "DYNAMIC_GROUP_CONFIG": "group",
    "DYNAMIC_BROKER_CONFIG": "broker",
    "DYNAMIC_DEFAULT_BROKER_CONFIG": "all brokers",
    "STATIC_BROKER_CONFIG": "start",
    "DEFAULT_CONFIG": "default",
}


def _complete_names(ctx: click.Context, parameter: click.Parameter, begun: str) -> list[str]:
    if ctx.params.get("kind") == "topic":
        return complete_topics(ctx, parameter, begun)
    names = ("default",) if ctx.params.get("kind") == "broker" else ()
    return [name for name in names if name.startswith(begun)]


KINDS = ("topic", "broker", "group")
KIND = click.argument("kind", metavar="|".join(KINDS), type=click.Choice(KINDS))


@click.group()
def configs() -> None:
    """Describe and alter settings of topics, brokers and groups.

    A broker is meant by its id; `default` (or `<default>`) means the defaults of all brokers. A
    group need not exist to have settings. docs/configuration.md describes each setting.
    """


@configs.command()
@KIND
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=_complete_names)
@click.option("--key", "keys", metavar="KEY", multiple=True, help="Only this one; may be repeated.")
@click.option("--changed", is_flag=True, help="Only settings that are not at their default.")
@click.option("--sources", is_flag=True, help="All sources of each value, the strongest first.")
@with_settings
def describe(
    settings: Settings,
    kind: str,
    names: tuple[str, ...],
    keys: tuple[str, ...],
    changed: bool,
    sources: bool,
) -> None:
    """Show settings, and where each value comes from.

    \b
    Sources, the strongest first:
      topic        set for the topic
      group        set for the group
      broker       set for this broker, while it runs
      all brokers  set for all brokers, while they run
      start        what the broker (of topics and groups: the controller) was started with
      default      Kafka's default

    \b
    pylog configs describe topic flights --changed
    pylog configs describe broker 1 --key log.segment.bytes --sources
    pylog configs describe broker default
    pylog configs describe group billing --changed
    """

    def show(resource: ConfigResource, entries: dict[str, ConfigEntry]) -> None:
        shown = [e for e in entries.values() if not (changed and e.is_default)]
        if settings.as_json:
            print_json(_as_json(resource, shown))
        else:
            click.echo(escaped(f"{resource}:" if shown else f"{resource}: nothing is set"))
            if shown:
                _print(shown, sources=sources)

    questions: dict[Any, list[str] | None] = {(kind, name): list(keys) or None for name in names}
    with settings.admin() as admin, telling_outcomes(show):
        for resource, entries in admin.describe_configs(questions).items():
            show(resource, entries)


def _print(entries: list[ConfigEntry], *, sources: bool) -> None:
    columns = ["setting", "value", "from", "changes"] + (["all sources"] if sources else [])
    rows = []
    for entry in entries:
        value = "(secret)" if entry.sensitive else entry.value
        row = [entry.name, value, SOURCES.get(entry.source, entry.source)]
        row.append("restart" if entry.read_only else "live")
        if sources:
            row.append(
                ", ".join(f"{SOURCES.get(s.source, s.source)}: {s.value}" for s in entry.synonyms)
            )
        rows.append(row)
    print_table(columns, rows)


def _as_json(resource: ConfigResource, entries: list[ConfigEntry]) -> dict[str, Any]:
    described = []
    for entry in entries:
        values = dataclasses.asdict(entry)
        values["synonyms"] = [synonym._asdict() for synonym in entry.synonyms]
        described.append(values)
    return {"type": resource.type, "name": resource.name, "configs": described}


@configs.command()
@KIND
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=_complete_names)
@click.option("--set", "new", metavar="KEY=VALUE", multiple=True, help="A new value.")
@click.option("--delete", "gone", metavar="KEY", multiple=True, help="Back to the default.")
@click.option("--append", "appended", metavar="KEY=ITEMS", multiple=True, help="Items for a list.")
@click.option(
    "--subtract", "subtracted", metavar="KEY=ITEMS", multiple=True, help="Items out of a list."
)
@click.option("--dry-run", is_flag=True, help="Only check; change nothing.")
@with_settings
def alter(
    settings: Settings,
    kind: str,
    names: tuple[str, ...],
    new: tuple[str, ...],
    gone: tuple[str, ...],
    appended: tuple[str, ...],
    subtracted: tuple[str, ...],
    dry_run: bool,
) -> None:
    """Change settings of topics, brokers and groups; returns when the live brokers go by them.

    All changes of one topic, broker or group hold, or none. Settings that are not named stay as
    they are.

    \b
    pylog configs alter topic flights --set retention.ms=3600000 --delete segment.bytes
    pylog configs alter topic flights --append cleanup.policy=compact
    pylog configs alter broker default --set min.insync.replicas=2
    pylog configs alter group billing --set consumer.session.timeout.ms=50000
    """
    from pylog.client.admin.admin_types import AlterConfigOp

    ops = [
        *(AlterConfigOp(key, value) for key, value in key_values(new, "--set").items()),
        *(AlterConfigOp(key, None, "delete") for key in gone),
        *(
            AlterConfigOp(key, value, op)
            for op, items in (("append", appended), ("subtract", subtracted))
            for key, value in key_values(items, f"--{op}").items()
        ),
    ]
    if not ops:
        raise click.UsageError("nothing to change: give --set, --delete, --append or --subtract")

    def show(resource: ConfigResource, _none: None) -> None:
        if settings.as_json:
            print_json({"type": resource.type, "name": resource.name, "changed": not dry_run})
        else:
            click.echo(escaped(f"{'valid for' if dry_run else 'changed'} {resource}"))

    from pylog.client.admin.admin_types import config_resource

    wanted = {config_resource((kind, name)): ops for name in names}
    with settings.admin() as admin, telling_outcomes(show):
        admin.incremental_alter_configs(wanted, validate_only=dry_run)
    for resource in wanted:
        show(resource, None)
