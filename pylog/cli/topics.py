"""`pylog topics`: create, list, describe, alter, delete."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from pylog import errors
from pylog.cli.activity import Look, record_counts, topic_looks, topic_rows
from pylog.cli.amounts import rate_shown, size_shown
from pylog.cli.context import (
    Seconds,
    Settings,
    answered,
    complete_topics,
    key_values,
    print_json,
    print_table,
    telling_outcomes,
    with_settings,
)
from pylog.cli.moments import moment_ms, time_shown
from pylog.cli.topic_sizes import ask_topic_sizes
from pylog.clock import SYSTEM_CLOCK
from pylog.model import (
    NewPartitions,
    NewTopic,
    PartitionDescription,
    TopicDescription,
    TopicPartition,
)
from pylog.plain_text import escaped

if TYPE_CHECKING:
    from pylog.client.admin.admin import AdminClient
    from pylog.client.admin.admin_types import ConfigEntry

SETTINGS_SECONDS_MAX: Final = 2.0
"""Brokers tell of topics also while the controller is away; only it knows their settings."""

EXISTING = click.argument(
    "names", metavar="TOPIC...", nargs=-1, required=True, shell_complete=complete_topics
)


@click.group()
def topics() -> None:
    """Create, list, describe, alter and delete topics."""


@topics.command()
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@click.option("--partitions", type=int, default=-1, help="Per topic. Default: num.partitions.")
@click.option("--replication-factor", type=int, default=-1, help="Default: "
              "default.replication.factor of the cluster.")  # fmt: skip
@click.option(
    "--replicas",
    "assignment",
    metavar="1,2;2,3;...",
    help="Instead of the two counts: brokers of each partition, the preferred leader first.",
)
@click.option("--config", "configs", metavar="KEY=VALUE", multiple=True, help="A topic's setting.")
@click.option("--if-not-exists", is_flag=True, help="No error for a topic that is there already.")
@click.option("--dry-run", is_flag=True, help="Only check; create nothing.")
@with_settings
def create(
    settings: Settings,
    names: tuple[str, ...],
    partitions: int,
    replication_factor: int,
    assignment: str | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
    dry_run: bool,
) -> None:
    """Create topics; returns when all their partitions have leaders.

    \b
    pylog topics create flights --partitions 6 --replication-factor 3
    pylog topics create orders --replicas "1,2;2,3" --config min.insync.replicas=2

    With 3 replicas and min.insync.replicas=2 a topic is written and read on while one broker is
    lost or restarted; with 5 and 3, while two are. With 1, a lost disk loses its records.
    """
    config = key_values(configs, "--config")
    if assignment is None:
        wanted = [NewTopic(name, partitions, replication_factor, config=config) for name in names]
    else:
        if partitions != -1 or replication_factor != -1:
            raise click.UsageError("--replicas says it all; leave the two counts out")
        replicas = dict(enumerate(_replicas(assignment)))
        wanted = [NewTopic(name, replica_assignment=replicas, config=config) for name in names]

    def show(name: str, topic_id: str) -> None:
        if settings.as_json:
            print_json({"name": name, "topic_id": topic_id})
        else:
            click.echo(f"{'valid' if dry_run else 'created'} {name}")

    with settings.admin() as admin, telling_outcomes(show):
        if if_not_exists:
            there = set(admin.list_topics(internal=True))
            wanted = [topic for topic in wanted if topic.name not in there]
        created = settings.once_brokers_are_there(
            lambda: admin.create_topics(wanted, validate_only=dry_run) if wanted else {}
        )
        for name, topic_id in created.items():
            show(name, topic_id)


def _replicas(text: str) -> list[list[int]]:
    try:
        return [[int(broker) for broker in part.split(",")] for part in text.split(";")]
    except ValueError:
        raise click.UsageError(
            f"--replicas {text}: write broker ids such as '1,2;2,3', one list for each partition"
        ) from None


@topics.command(name="list")
@click.option("--internal", is_flag=True, help="Internal topics too.")
@click.option("--names", "only_names", is_flag=True, help="Nothing but names, one a line.")
@click.option(
    "--interval",
    type=Seconds(min=0),
    default=1.0,
    show_default=True,
    metavar="S",
    help="Seconds over which rates are taken; 0: no rates, and no wait for them.",
)
@with_settings
def list_(settings: Settings, internal: bool, only_names: bool, interval: float) -> None:
    """List topics: partitions, replicas, records, size, and records that come a second.

    Records are those between the first and the last offset; compaction and transactions make them
    fewer. The size is that of one copy.

    \b
    pylog topics list
    pylog topics list --names
    pylog topics list --json | jq -r '.[] | select(.under_replicated > 0) | .name'
    pylog topics list --json --interval 0 | jq 'map(.size_bytes) | add'
    """
    with settings.admin() as admin:
        if only_names:
            names = admin.list_topics(internal=internal)
            if settings.as_json:
                print_json(names)
            else:
                for name in names:
                    click.echo(escaped(name))
            return
        rows = _listed(admin, internal, interval)
    if settings.as_json:
        print_json(rows)
        return
    print_table(
        ("topic", "partitions", "replicas", "records", "size", "records/s", "faults"),
        (
            (
                row["name"], row["partitions"], row["replicas"], _count(row["records"]),
                size_shown(row["size_bytes"]), rate_shown(row["records_per_second"]), _faults(row),
            )
            for row in rows
        ),
    )  # fmt: skip


def _listed(admin: AdminClient, internal: bool, interval: float) -> list[dict[str, Any]]:
    """A row for each topic, in the order of names. `interval`: seconds between the two looks that
    give its rate; 0: no rate.
    """
    first, began_ms = topic_looks(admin, internal=internal), SYSTEM_CLOCK.monotonic_ms()
    sizes, counts = ask_topic_sizes(admin), record_counts(admin, first)
    now, rates = first, {}
    if interval and first:
        SYSTEM_CLOCK.sleep(max(began_ms + interval * 1000 - SYSTEM_CLOCK.monotonic_ms(), 0) / 1000)
        now = topic_looks(admin, internal=internal)
        looks = (Look(began_ms, 0, first, {}), Look(SYSTEM_CLOCK.monotonic_ms(), 0, now, {}))
        rates = {row.topic: row.records for row in topic_rows(*looks)}
    return [
        {
            "name": name,
            "partitions": topic.partitions,
            "replicas": topic.replicas,
            "records": counts.get(name),
            "size_bytes": sizes[name].copy if name in sizes else None,
            "disk_bytes": sizes[name].disks if name in sizes else None,
            "records_per_second": rates.get(name),
            "offline": topic.offline,
            "under_replicated": topic.under_replicated,
        }
        for name, topic in sorted(now.items())
    ]


def _count(number: int | None) -> str | None:
    return None if number is None else f"{number:,}"


def _faults(row: Mapping[str, Any]) -> str:
    names = {"offline": "offline", "under_replicated": "under-replicated"}
    return ", ".join(f"{row[key]} {words}" for key, words in names.items() if row[key])


@topics.command()
@click.argument("names", metavar="[TOPIC]...", nargs=-1, shell_complete=complete_topics)
@click.option(
    "--under-replicated-partitions",
    "--under-replicated",
    "under_replicated",
    is_flag=True,
    help="Only partitions with replicas out of sync.",
)
@click.option(
    "--unavailable-partitions",
    "--offline",
    "unavailable",
    is_flag=True,
    help="Only partitions without a leader.",
)
@click.option(
    "--under-min-isr-partitions",
    "under_min_isr",
    is_flag=True,
    help="Only partitions with too few in-sync replicas for acks=all.",
)
@click.option(
    "--at-min-isr-partitions",
    "at_min_isr",
    is_flag=True,
    help="Only partitions with just as many in-sync replicas as acks=all needs.",
)
@with_settings
def describe(settings: Settings, /, names: tuple[str, ...], **filters: bool) -> int:
    """Show settings, leader and replicas; of all topics when none is named. With several of the
    options, what any of them takes.

    \b
    pylog topics describe flights
    pylog topics describe --under-replicated-partitions
    """
    asked = [_FILTERS[name] for name, wanted in filters.items() if wanted]
    with settings.admin() as admin:
        found, status = answered(lambda: admin.describe_topics(list(names) or None))
        entries = _settings_of(
            admin, found, needed=filters["under_min_isr"] or filters["at_min_isr"]
        )
    chosen = [
        dataclasses.replace(topic, partitions=_taken(topic, entries.get(topic.name, {}), asked))
        for topic in found.values()
    ]
    if asked:
        chosen = [topic for topic in chosen if topic.partitions]
    configs = {name: _own(of_topic) for name, of_topic in entries.items()}
    if not found and status:
        return status
    if settings.as_json:
        print_json(
            [{**dataclasses.asdict(topic), "configs": configs.get(topic.name)} for topic in chosen]
        )
    elif chosen:
        _print_topics(chosen, found, configs)
    return status


_FILTERS: Final[Mapping[str, Callable[[PartitionDescription, int], bool]]] = {
    "under_replicated": lambda partition, least: len(partition.isr) < len(partition.replicas),
    "unavailable": lambda partition, least: partition.leader is None,
    "under_min_isr": lambda partition, least: len(partition.isr) < least,
    "at_min_isr": lambda partition, least: len(partition.isr) == least,
}
"""By the names of the options; `least`: so many in-sync replicas acks=all needs."""


def _taken(
    topic: TopicDescription,
    entries: Mapping[str, ConfigEntry],
    asked: Sequence[Callable[[PartitionDescription, int], bool]],
) -> tuple[PartitionDescription, ...]:
    """The partitions that one of the filters takes; all without any."""
    entry = entries.get("min.insync.replicas")
    min_isr = int(entry.value or 1) if entry is not None else 1
    return tuple(
        partition
        for partition in topic.partitions
        if not asked or any(f(partition, min(min_isr, len(partition.replicas))) for f in asked)
    )


def _settings_of(
    admin: AdminClient, found: Mapping[str, TopicDescription], *, needed: bool
) -> dict[str, Mapping[str, ConfigEntry]]:
    """Each topic's settings; unless they are `needed`, none while the controller is away."""
    if not found:
        return {}
    topics = [("topic", name) for name in found]
    if needed:
        described = admin.describe_configs(topics)
    else:
        try:
            described = admin.describe_configs(topics, timeout=SETTINGS_SECONDS_MAX)
        except errors.PylogError:
            return {}
    return {resource.name: entries for resource, entries in described.items()}


def _own(entries: Mapping[str, ConfigEntry]) -> dict[str, str | None]:
    """The settings of the topic itself."""
    return {
        entry.name: entry.value
        for entry in entries.values()
        if entry.source == "DYNAMIC_TOPIC_CONFIG"
    }


def _print_topics(
    topics: Iterable[TopicDescription],
    whole: Mapping[str, TopicDescription],
    configs: Mapping[str, Mapping[str, str | None]],
) -> None:
    """The lines of Kafka's own tool, with its labels, which other tools look for."""
    for topic in topics:
        partitions = whole[topic.name].partitions
        settings = (
            ",".join(f"{name}={value}" for name, value in configs[topic.name].items())
            if topic.name in configs
            else "(the controller does not answer)"
        )
        _print_fields(
            "",
            ("Topic", topic.name),
            ("TopicId", topic.topic_id),
            ("PartitionCount", len(partitions)),
            ("ReplicationFactor", max((len(p.replicas) for p in partitions), default=0)),
            ("Configs", settings),
        )
        for p in topic.partitions:
            _print_fields(
                "\t",
                ("Topic", topic.name),
                ("Partition", p.partition),
                ("Leader", "none" if p.leader is None else p.leader),
                ("Replicas", _ids(p.replicas)),
                ("Isr", _ids(p.isr)),
                ("Elr", _ids(p.eligible_leader_replicas)),
                ("Offline", _ids(p.offline_replicas)),
                ("LeaderEpoch", p.leader_epoch),
            )


def _print_fields(indent: str, *fields: tuple[str, object]) -> None:
    click.echo(indent + "\t".join(f"{label}: {escaped(str(value))}" for label, value in fields))


def _ids(brokers: tuple[int, ...]) -> str:
    return ",".join(map(str, brokers))


@topics.command()
@EXISTING
@click.option("--partitions", type=int, help="The new total; it can only grow.")
@click.option(
    "--replicas",
    "assignment",
    metavar="1,2;2,3;...",
    help="Brokers of each partition that is added. Default: the controller places them.",
)
@click.option("--config", "new", metavar="KEY=VALUE", multiple=True, help="A new value.")
@click.option("--delete-config", "gone", metavar="KEY", multiple=True, help="Back to the default.")
@with_settings
def alter(
    settings: Settings,
    names: tuple[str, ...],
    partitions: int | None,
    assignment: str | None,
    new: tuple[str, ...],
    gone: tuple[str, ...],
) -> None:
    """Add partitions, change settings.

    Records stay where they are, but new records of a key may go to another partition than old ones.

    \b
    pylog topics alter flights --partitions 12
    pylog topics alter flights --config retention.ms=3600000
    """
    if partitions is None and not new and not gone:
        raise click.UsageError("nothing to change: give --partitions, --config or --delete-config")
    if assignment is not None and partitions is None:
        raise click.UsageError("--replicas needs --partitions")
    changes: dict[str, str | None] = dict(key_values(new, "--config"))
    for key in gone:
        if key in changes:
            raise click.UsageError(f"{key} is both set and deleted")
        changes[key] = None

    def show(item: Any, _value: object) -> None:
        name = item if isinstance(item, str) else item.name
        if settings.as_json:
            print_json({"name": name})
        else:
            click.echo(f"altered {name}")

    with settings.admin() as admin, telling_outcomes(show):
        if changes:
            wanted = {("topic", name): changes for name in names}
            admin.incremental_alter_configs(wanted)
        if partitions is not None:
            lists = None if assignment is None else _replicas(assignment)
            grown = NewPartitions(partitions, lists)
            admin.create_partitions(dict.fromkeys(names, grown))
    for name in names:
        show(name, None)


@topics.command()
@EXISTING
@with_settings
def delete(settings: Settings, names: tuple[str, ...]) -> None:
    """Delete topics with all their records."""

    def show(name: str, topic_id: str) -> None:
        if settings.as_json:
            print_json({"name": name, "topic_id": topic_id})
        else:
            click.echo(f"deleted {name}")

    with settings.admin() as admin, telling_outcomes(show):
        for name, topic_id in admin.delete_topics(names).items():
            show(name, topic_id)


@topics.command()
@EXISTING
@click.option(
    "--at",
    default="latest",
    show_default=True,
    metavar="earliest|latest|max_timestamp|MS|TIME",
    help="Which: the first, the end, that of the largest timestamp, or the first at a time (ms "
    "since 1970, or 2024-01-31T12:00).",
)
@with_settings
def offsets(settings: Settings, names: tuple[str, ...], at: str) -> int:
    """Show an offset of each partition."""
    spec = _offset_spec(at)
    with settings.admin() as admin:
        found, status = answered(lambda: admin.describe_topics(names))
        wanted = [TopicPartition(t.name, p.partition) for t in found.values() for p in t.partitions]
        listed, missed = answered(lambda: admin.list_offsets(dict.fromkeys(wanted, spec)))
    if not listed and (status or missed):
        return 1
    rows = [
        (
            tp.topic,
            tp.partition,
            None if at is None else at.offset,
            None if at is None or at.timestamp_ms < 0 else at.timestamp_ms,
        )
        for tp, at in listed.items()
    ]
    columns = ("topic", "partition", "offset", "timestamp")
    if settings.as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
    else:
        print_table(columns, ((*row[:3], time_shown(row[3])) for row in rows))
    return status or missed


def _offset_spec(text: str) -> str | int:
    if text in _OFFSET_SPECS:
        return _OFFSET_SPECS[text]
    try:
        found = moment_ms(text)
    except ValueError:
        raise click.UsageError(
            f"--at {text}: give earliest, latest, max_timestamp, milliseconds since 1970, or a "
            "time such as 2024-01-31T12:00"
        ) from None
    if found < 0:
        raise click.UsageError(f"--at {text}: no record is of a time before 1970")
    return found


_OFFSET_SPECS: Final[Mapping[str, str]] = {
    **{name: name for name in ("earliest", "latest", "max_timestamp")},
    "-1": "latest",
    "-2": "earliest",
    "-3": "max_timestamp",
    "max-timestamp": "max_timestamp",
}
"""Also as Kafka's kafka-get-offsets writes them."""
