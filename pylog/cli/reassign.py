"""`pylog reassign`: partitions move to other brokers, as by `kafka-reassign-partitions`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import IO, TYPE_CHECKING, Any, Final

import click

from pylog import errors
from pylog.cli import failures
from pylog.cli import reassignment_plans as plans
from pylog.cli.amounts import size_shown
from pylog.cli.context import (
    Settings,
    answered,
    complete_topics,
    print_json,
    print_table,
    telling_outcomes,
    with_settings,
)
from pylog.config import INT_MAX, LONG_MAX
from pylog.model import PartitionReassignment, TopicPartition

if TYPE_CHECKING:
    from pylog.client.admin.admin import AdminClient

RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
THROTTLED: Final = (
    "leader.replication.throttled.replicas",
    "follower.replication.throttled.replicas",
)
ALL_BROKERS: Final = ("broker", "")

PLAN = click.argument("plan_file", metavar="PLAN", type=click.File(encoding="utf-8"))
PRESERVE = click.option(
    "--preserve-throttles", is_flag=True, help="Leave the settings of a throttle as they are."
)


@click.group()
def reassign() -> None:
    """Move partitions to other brokers.

    \b
    pylog reassign plan orders payments --brokers 2,3,4 > plan.json
    pylog reassign execute plan.json --throttle 50000000 > back.json
    pylog reassign status plan.json
    """


@reassign.command()
@click.argument("topics", metavar="TOPIC...", nargs=-1, shell_complete=complete_topics)
@click.option("--all", "everything", is_flag=True, help="All topics, internal ones as well.")
@click.option(
    "--brokers", metavar="ID[,ID...]", help="Brokers that may be used; default: all live ones."
)
@click.option("--replicas", "factor", type=click.IntRange(1, INT_MAX), metavar="N",
              help="Replicas of each partition; default: as many as it has.")  # fmt: skip
@click.option(
    "--save-current",
    type=click.File("w", encoding="utf-8", lazy=True),
    metavar="FILE",
    help="Write the replicas of now to this file, as a plan for the way back.",
)
@with_settings
def plan(
    settings: Settings,
    topics: tuple[str, ...],
    everything: bool,
    brokers: str | None,
    factor: int | None,
    save_current: IO[str] | None,
) -> None:
    """Print a plan that has these topics on these brokers alone, spread evenly. Nothing changes.

    Replicas that can stay stay; those that move go to other racks than the partition's others.

    \b
    pylog reassign plan orders --brokers 2,3,4 > plan.json
    pylog reassign plan __consumer_offsets --replicas 3 > plan.json
    pylog reassign plan --all --brokers 1,2,3 > plan.json
    """
    if everything == bool(topics):
        raise click.UsageError("name topics, or give --all")
    wanted = None if brokers is None else _broker_ids(brokers)
    with settings.admin() as admin:
        cluster = admin.describe_cluster(include_fenced_brokers=True)
        racks = {broker.id: broker.rack for broker in cluster.brokers}
        if wanted is None:
            wanted = [broker.id for broker in cluster.brokers if not broker.fenced]
        unknown = [broker for broker in wanted if broker not in racks]
        if unknown:
            raise errors.BrokerIdNotRegistered(f"no broker {unknown[0]} is registered")
        current = _replicas_of(admin, admin.list_topics(internal=True) if everything else topics)
    proposed = plans.planned(current, {broker: racks[broker] for broker in wanted}, factor)
    if save_current is not None:
        save_current.write(plans.written(current) + "\n")
    click.echo(plans.written(proposed))


@reassign.command()
@PLAN
@click.option(
    "--throttle",
    type=click.IntRange(1, LONG_MAX),
    metavar="BYTES",
    help="So many bytes a second are copied to, and from, each broker at most.",
)
@click.option("--keep-replication-factor", is_flag=True,
              help="Refuse moves to more or fewer replicas than a partition has.")  # fmt: skip
@with_settings
def execute(
    settings: Settings, plan_file: IO[str], throttle: int | None, keep_replication_factor: bool
) -> int:
    """Let the partitions of a plan begin to move; print a plan for the way back.

    The moves go on in the background: `pylog reassign status` tells how far they are, and takes the
    throttle away when all are done. A move to other replicas takes the place of one that goes on.
    A throttle holds for all brokers; another `execute` of the plan with --throttle changes it.

    \b
    pylog reassign execute plan.json --throttle 50000000 > back.json
    """
    target = _plan_of(plan_file)
    with settings.admin() as admin:
        current = _known(admin, target)
        if throttle is not None:
            _throttle(admin, plans.throttled(current, target), throttle)
        begun: Mapping[TopicPartition, None] = {}
        try:
            begun, status = answered(lambda: _begin(admin, target, keep_replication_factor))
        finally:
            if throttle is not None and not begun:
                failures.tell(
                    "the throttle stays: `pylog reassign cancel` of the plan takes it away"
                )
    if not begun:
        return status
    click.echo(plans.written(current))
    limit = "" if throttle is None else f", with {size_shown(throttle)} a second at most"
    many = "1 partition begins" if len(begun) == 1 else f"{len(begun)} partitions begin"
    failures.tell(f"{many} to move{limit}")
    return status


def _begin(
    admin: AdminClient, target: plans.Plan, keep_replication_factor: bool
) -> Mapping[TopicPartition, None]:
    admin.alter_partition_reassignments(
        target, allow_replication_factor_change=not keep_replication_factor
    )
    return dict.fromkeys(target)


@reassign.command()
@PLAN
@PRESERVE
@with_settings
def status(settings: Settings, plan_file: IO[str], preserve_throttles: bool) -> None:
    """Tell how far the moves of a plan are; the throttle goes when all are done.

    \b
    pylog reassign status plan.json
    """
    target = _plan_of(plan_file)
    with settings.admin() as admin:
        moves = admin.list_partition_reassignments(list(target))
        current = _known(admin, target)
        rows = [_row(tp, target[tp], current.get(tp), moves.get(tp)) for tp in sorted(target)]
        if settings.as_json:
            print_json(rows)
        else:
            columns = ("topic", "partition", "state", "replicas", "adding", "removing")
            print_table(columns, ([_cell(row[name]) for name in columns] for row in rows))
        if not moves and not preserve_throttles:
            _end_throttle(admin, target)


@reassign.command()
@PLAN
@PRESERVE
@with_settings
def cancel(settings: Settings, plan_file: IO[str], preserve_throttles: bool) -> None:
    """Cancel the moves of a plan that go on: what was copied is deleted again.

    \b
    pylog reassign cancel plan.json
    """
    target = _plan_of(plan_file)
    with settings.admin() as admin:
        moves = admin.list_partition_reassignments(list(target))
        cancelled: list[TopicPartition] = []
        with telling_outcomes(lambda tp, _: cancelled.append(tp)):
            admin.alter_partition_reassignments(dict.fromkeys(moves))
            cancelled += moves
        if not preserve_throttles:
            _end_throttle(admin, target)
    if settings.as_json:
        named = [{"topic": tp.topic, "partition": tp.partition} for tp in sorted(cancelled)]
        print_json(named)
    else:
        for tp in sorted(cancelled):
            click.echo(f"cancelled {tp}")
        if not cancelled:
            click.echo("no partition of the plan moves")


@reassign.command(name="list")
@with_settings
def list_moves(settings: Settings) -> None:
    """Show all moves that go on.

    \b
    pylog reassign list
    """
    with settings.admin() as admin:
        moves = admin.list_partition_reassignments()
    rows = [_row(tp, None, None, move) for tp, move in sorted(moves.items())]
    if settings.as_json:
        print_json(rows)
    elif rows:
        columns = ("topic", "partition", "replicas", "adding", "removing")
        print_table(columns, ([_cell(row[name]) for name in columns] for row in rows))
    else:
        click.echo("no partition moves")


def _plan_of(file: IO[str]) -> plans.Plan:
    try:
        return plans.read(file.read())
    except UnicodeDecodeError as error:
        raise click.UsageError(f"the plan is no text in UTF-8: {error}") from None


def _row(
    tp: TopicPartition,
    target: tuple[int, ...] | None,
    replicas: tuple[int, ...] | None,
    move: PartitionReassignment | None,
) -> dict[str, Any]:
    if move is not None:
        state, replicas = "moves", move.replicas
    elif replicas is None:
        state = "there is no such partition"
    else:
        state = "done" if replicas == target else "has other replicas"
    return {
        "topic": tp.topic,
        "partition": tp.partition,
        "state": state,
        "replicas": list(replicas or ()),
        "adding": list(move.adding_replicas) if move else [],
        "removing": list(move.removing_replicas) if move else [],
    }


def _cell(value: object) -> object:
    return ",".join(map(str, value)) if isinstance(value, list) else value


def _broker_ids(text: str) -> list[int]:
    ids = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and len(part) < 10 for part in ids):
        raise click.UsageError(f"--brokers {text:.80}: write ID,ID,...")
    return list(dict.fromkeys(map(int, ids)))


def _replicas_of(admin: AdminClient, topics: Iterable[str]) -> plans.Plan:
    return {
        TopicPartition(name, partition.partition): tuple(partition.replicas)
        for name, topic in admin.describe_topics(list(topics)).items()
        for partition in topic.partitions
    }


def _known(admin: AdminClient, target: plans.Plan) -> plans.Plan:
    """The replicas of now of those partitions of the plan that exist: in the midst of a move those
    that it began with.
    """
    topics = dict.fromkeys(tp.topic for tp in target)
    try:
        found = _replicas_of(admin, topics)
    except errors.PartialFailure as partly:
        there = [str(name) for name in partly.results]
        found = _replicas_of(admin, there) if there else {}
    except errors.UnknownTopicOrPartition:
        found = {}
    moves = admin.list_partition_reassignments(list(target))
    for tp, move in moves.items():
        found[tp] = tuple(b for b in move.replicas if b not in move.adding_replicas)
    return {tp: found[tp] for tp in target if tp in found}


def _throttle(admin: AdminClient, settings: Mapping[str, dict[str, str]], rate: int) -> None:
    changes: dict[Any, Any] = {("topic", topic): values for topic, values in settings.items()}
    changes[ALL_BROKERS] = dict.fromkeys(RATES, str(rate))
    admin.incremental_alter_configs(changes)


def _end_throttle(admin: AdminClient, target: plans.Plan) -> None:
    """Take the settings away that a throttle of this plan has left: of its topics, and, when
    nothing moves any more, of the brokers.
    """
    topics = _with_any(admin, THROTTLED, [("topic", tp.topic) for tp in target])
    brokers = _with_any(admin, RATES, [ALL_BROKERS])
    if brokers and admin.list_partition_reassignments():
        brokers = {}
        failures.tell("other partitions move: the brokers' throttle stays")
    if topics or brokers:
        admin.incremental_alter_configs({**topics, **brokers})
        failures.tell("the throttle is taken away")


def _with_any(
    admin: AdminClient, names: tuple[str, ...], resources: list[tuple[str, str]]
) -> dict[Any, Any]:
    """For each resource that has some of these settings of its own: None for each of them."""
    questions: dict[Any, list[str] | None] = {each: list(names) for each in resources}
    described: Callable[..., Mapping[Any, Any]] = admin.describe_configs
    try:
        found = described(questions)
    except errors.PartialFailure as partly:
        found = dict(partly.results)
    except errors.UnknownTopicOrPartition:
        found = {}
    own = ("DYNAMIC_TOPIC_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG")
    gone = {
        resource: {name: None for name, entry in entries.items() if entry.source in own}
        for resource, entries in found.items()
    }
    return {resource: values for resource, values in gone.items() if values}
