"""`pylog groups`: list, describe, members, reset-offsets, delete."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, Final

import click

from pylog import errors
from pylog.cli import failures, offset_plans
from pylog.cli.context import (
    Settings,
    answered,
    print_json,
    print_table,
    telling_outcomes,
    with_settings,
)
from pylog.cli.moments import moment_ms, seconds_shown, span_ms
from pylog.cli.offset_plans import Plan, Rule
from pylog.clock import SYSTEM_CLOCK
from pylog.config import LONG_MAX
from pylog.model import OffsetAndMetadata, TopicPartition
from pylog.plain_text import escaped

if TYPE_CHECKING:
    from pylog.client.admin.admin import AdminClient
    from pylog.client.admin.admin_types import GroupDescription, GroupMember, PartitionLag

SOME = click.argument("names", metavar="GROUP...", nargs=-1)
ALL: Final = click.option("--all-groups", is_flag=True, help="All groups of the cluster.")


@click.group()
def groups() -> None:
    """Look at groups of consumers and at share groups, set where they go on, delete them."""


@groups.command(name="list")
@click.option("--state", "states", multiple=True, help="Only groups in this state: Stable, Empty, "
              "...; may come several times.")  # fmt: skip
@click.option(
    "--type", "types", multiple=True, help="Only groups of this type: consumer, classic, share."
)
@with_settings
def list_(settings: Settings, states: tuple[str, ...], types: tuple[str, ...]) -> None:
    """List the groups of all brokers."""
    with settings.admin() as admin:
        found = admin.list_groups(states or None, types or None)
    if settings.as_json:
        print_json([dataclasses.asdict(group) for group in found])
    else:
        print_table(
            ("group", "type", "state", "protocol type"),
            ((each.group_id, each.type, each.state, each.protocol_type) for each in found),
        )


@groups.command()
@SOME
@ALL
@with_settings
def describe(settings: Settings, names: tuple[str, ...], all_groups: bool) -> int:
    """Show who reads what, where each partition's position is, and how far it is behind: in
    records, and in seconds, which is the age of the oldest record that the group has not passed.

    \b
    pylog groups describe flights-loader
    pylog groups describe --all-groups
    """
    with settings.admin() as admin:
        chosen = _chosen(admin, names, all_groups)
        described, status = _described(admin, chosen)
        lags = admin.group_lag(list(described)) if described else {}
    if not described and status:
        return status
    if settings.as_json:
        print_json([_as_json(described[name], lags[name]) for name in described])
        return status
    for name, group in described.items():
        _show_head(group)
        show_lags = _show_share_lags if group.type == "share" else _show_lags
        show_lags(group, lags[name])
        if group.type == "streams":
            _show_tasks(group)
    return status


@groups.command()
@SOME
@ALL
@with_settings
def members(settings: Settings, names: tuple[str, ...], all_groups: bool) -> int:
    """Show the members of groups, and what each reads."""
    with settings.admin() as admin:
        chosen = _chosen(admin, names, all_groups)
        described, status = _described(admin, chosen)
    if not described and status:
        return status
    if settings.as_json:
        print_json(
            [
                {"group_id": name, **_member_json(member)}
                for name, group in described.items()
                for member in group.members
            ]
        )
        return status
    for group in described.values():
        _show_head(group)
        print_table(
            ("member", "instance", "protocol", "client", "host", "epoch", "reads"),
            (
                (
                    member.member_id,
                    member.instance_id,
                    member.type,
                    member.client_id,
                    member.client_host,
                    member.epoch,
                    ", ".join(map(str, _work_of(member))),
                )
                for member in group.members
            ),
        )
    return status


@groups.command(name="reset-offsets")
@SOME
@ALL
@click.option("--topic", "topics", metavar="TOPIC[:0,1]", multiple=True,
              help="These partitions; may come several times.")  # fmt: skip
@click.option(
    "--all-topics", is_flag=True, help="All partitions in which the group has a position."
)
@click.option("--to-earliest", is_flag=True, help="To the first record.")
@click.option("--to-latest", is_flag=True, help="To the end: only what comes from now on.")
@click.option("--to-datetime", metavar="TIME", help="To the first record at or after a time: "
              "2024-01-31T12:00, or milliseconds since 1970.")  # fmt: skip
@click.option("--by-duration", metavar="SPAN", help="The same, so long ago: P1D, PT30M, 90s.")
@click.option("--to-offset", type=click.IntRange(0, LONG_MAX), help="To this offset.")
@click.option("--shift-by", type=int, help="So many records on; a negative number goes back.")
@click.option("--to-current", is_flag=True, help="To where it is, with --export to keep that.")
@click.option("--from-file", type=click.File(encoding="utf-8"), help="To the offsets of a CSV file "
              "of lines topic,partition,offset (for several groups group,topic,...).")  # fmt: skip
@click.option("--execute", is_flag=True, help="Do it; else only the plan is shown.")
@click.option("--export", is_flag=True, help="Print the plan as CSV, for --from-file.")
@with_settings
def reset_offsets(
    settings: Settings,
    /,
    names: tuple[str, ...],
    all_groups: bool,
    topics: tuple[str, ...],
    all_topics: bool,
    from_file: IO[str] | None,
    execute: bool,
    export: bool,
    **where: Any,
) -> None:
    """Set where groups without live members go on. Without --execute only the plan is shown. A
    share group forgets what became of single records in the partitions that are set.

    \b
    pylog groups reset-offsets loader --topic flights --to-earliest
    pylog groups reset-offsets loader --all-topics --by-duration P1D --execute
    """
    rule = _rule(where, from_file is not None)
    scope = offset_plans.scopes(topics)
    if not (bool(scope) ^ all_topics ^ (from_file is not None)):
        raise click.UsageError("give one of --topic, --all-topics and --from-file")
    with settings.admin() as admin:
        chosen = _chosen(admin, names, all_groups)
        wanted = offset_plans.read_csv(from_file, chosen) if from_file is not None else {}
        plans: dict[str, Plan] = {}
        shares: list[str] = []
        for name in chosen:
            if _type_without_members(admin, name) == "share":
                shares.append(name)
                current = _starts(admin, name)
            else:
                current = admin.list_group_offsets(name)
            if from_file is not None:
                offsets = wanted.get(name, {})
                plans[name] = offset_plans.to_offsets(offsets.__getitem__)(
                    admin, current, [*offsets]
                )
            else:
                assert rule is not None
                places = [*current] if all_topics else offset_plans.partitions_of(admin, scope)
                plans[name] = rule(admin, current, places)
            if not plans[name].changes and not plans[name].faults:
                why = (
                    "has no position in any partition"
                    if all_topics
                    else "is in no line of the file"
                )
                plans[name].notes.append(f"nothing is to be set: group {name!r} {why}")
        _show_plans(settings, plans, export=export, executed=execute)
        if any(plan.faults for plan in plans.values()):
            raise click.exceptions.Exit(1)
        if execute:
            for name, plan in plans.items():
                if plan.changes and name in shares:
                    admin.alter_share_group_offsets(
                        name, {tp: each.new for tp, each in plan.changes.items()}
                    )
                elif plan.changes:
                    admin.alter_group_offsets(
                        name,
                        {tp: OffsetAndMetadata(each.new) for tp, each in plan.changes.items()},
                    )
    to_set = any(plan.changes for plan in plans.values())
    if to_set and not execute and not export and not settings.as_json:
        failures.tell("nothing is changed: add --execute to do it")


@groups.command()
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@with_settings
def delete(settings: Settings, names: tuple[str, ...]) -> None:
    """Delete groups without live members, with all their offsets."""

    def show(name: str, _nothing: None) -> None:
        if settings.as_json:
            print_json({"group_id": name})
        else:
            click.echo(f"deleted {escaped(name)}")

    with settings.admin() as admin, telling_outcomes(show):
        admin.delete_groups(names)
        for name in names:
            show(name, None)


# ---- what is asked -------------------------------------------------------------------------------


def _chosen(admin: AdminClient, names: Sequence[str], all_groups: bool) -> list[str]:
    if bool(names) == all_groups:
        raise click.UsageError("give groups, or --all-groups")
    return list(names) or [group.group_id for group in admin.list_groups()]


def _described(
    admin: AdminClient, names: Sequence[str]
) -> tuple[Mapping[str, GroupDescription], int]:
    return answered(lambda: admin.describe_groups(names) if names else {})


def _type_without_members(admin: AdminClient, name: str) -> str | None:
    """The group's type; None of one that is not there: it is about to be made. NonEmptyGroup while
    it has members.
    """
    try:
        group = admin.describe_groups(name)[name]
    except errors.GroupIdNotFound:
        return None
    if group.members:
        raise errors.NonEmptyGroup(
            f"group {name!r} has {len(group.members)} live members, which would go on where they "
            "are and commit that: stop them first"
        )
    return group.type


def _starts(admin: AdminClient, name: str) -> dict[TopicPartition, OffsetAndMetadata | None]:
    """A share group's start offsets, as what else groups have committed."""
    return {
        tp: None if at is None else OffsetAndMetadata(at.start_offset)
        for tp, at in admin.list_share_group_offsets(name).items()
    }


def _rule(where: Mapping[str, Any], has_file: bool) -> Rule | None:
    """The plan that is asked for; None for a file."""
    # By identity: 0, which is equal to False, is an offset.
    given = {name: each for name, each in where.items() if each is not None and each is not False}
    if len(given) + has_file != 1:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in where)
        raise click.UsageError(f"give one of {options} and --from-file")
    if has_file:
        return None
    [(name, value)] = given.items()
    made: dict[str, Callable[[], Rule]] = {
        "to_earliest": lambda: offset_plans.to_end("earliest"),
        "to_latest": lambda: offset_plans.to_end("latest"),
        "to_datetime": lambda: offset_plans.to_time(_moment(value)),
        "by_duration": lambda: offset_plans.to_time(_ago(value)),
        "to_offset": lambda: offset_plans.to_offsets(lambda _: int(value)),
        "shift_by": lambda: offset_plans.by_shift(value),
        "to_current": offset_plans.to_current,
    }
    return made[name]()


def _moment(text: str) -> int:
    try:
        found = moment_ms(text)
    except ValueError:
        raise click.UsageError(
            f"--to-datetime {text}: write a time such as 2024-01-31T12:00, or milliseconds"
        ) from None
    if not 0 <= found <= LONG_MAX:
        raise click.UsageError(f"--to-datetime {text}: no record can be of that time")
    return found


def _ago(text: str) -> int:
    try:
        return max(SYSTEM_CLOCK.wall_ms() - span_ms(text), 0)
    except ValueError as error:
        raise click.UsageError(f"--by-duration: {error}") from None


# ---- what is shown -------------------------------------------------------------------------------


def _show_head(group: GroupDescription) -> None:
    parts = [
        f"group {escaped(group.group_id)}",
        f"{group.type} protocol",
        group.state,
        f"coordinator {group.coordinator.id} ({group.coordinator.host}:{group.coordinator.port})",
    ]
    if group.assignor:
        parts.append(f"assignor {escaped(group.assignor)}")
    if group.group_epoch is not None:
        parts.append(f"epoch {group.group_epoch}")
    click.echo(", ".join(parts))


def _readers(group: GroupDescription) -> dict[TopicPartition, GroupMember]:
    """The member that alone reads a partition; in a share group nobody does."""
    if group.type == "share":
        return {}
    return {tp: member for member in group.members for tp in member.assignment or ()}


def _show_share_lags(group: GroupDescription, lags: Mapping[TopicPartition, PartitionLag]) -> None:
    """Members read partitions together, so the number of members is shown."""
    readers = Counter(tp for member in group.members for tp in member.assignment or ())
    print_table(
        ("topic", "partition", "start", "end", "lag", "members"),
        (
            (
                tp.topic,
                tp.partition,
                None if lag.committed is None else lag.committed.offset,
                lag.end_offset if lag.error is None else lag.error.name,
                lag.lag,
                readers[tp],
            )
            for tp, lag in sorted(lags.items())
        ),
    )
    _show_sum(lags)


def _show_sum(lags: Mapping[TopicPartition, PartitionLag]) -> None:
    known = [lag.lag for lag in lags.values() if lag.lag is not None]
    if known:
        seconds = [lag.lag_seconds for lag in lags.values() if lag.lag_seconds is not None]
        oldest = f", the oldest {seconds_shown(max(seconds))} s old" if any(seconds) else ""
        click.echo(f"lag in all: {sum(known)} records{oldest}")


def _show_lags(group: GroupDescription, lags: Mapping[TopicPartition, PartitionLag]) -> None:
    readers = _readers(group)

    def rows() -> Iterable[Sequence[object]]:
        for tp in sorted(lags):
            lag, member = lags[tp], readers.get(tp)
            end = lag.end_offset if lag.error is None else lag.error.name
            yield (
                tp.topic,
                tp.partition,
                None if lag.committed is None else lag.committed.offset,
                end,
                lag.lag,
                seconds_shown(lag.lag_seconds),
                member and member.member_id,
                member and member.client_host,
                member and member.client_id,
            )

    columns = (
        "topic", "partition", "committed", "end", "lag", "lag s", "member", "host", "client",
    )  # fmt: skip
    print_table(columns, rows())
    _show_sum(lags)


def _work_of(member: GroupMember) -> Iterable[object]:
    """The partitions that it reads, or its active tasks."""
    return member.assignment or (() if member.tasks is None else member.tasks.active)


def _show_tasks(group: GroupDescription) -> None:
    print_table(
        ("member", "process", "epoch", "active", "standby", "warm-up"),
        (
            (
                member.member_id,
                member.process_id,
                member.epoch,
                *(", ".join(map(str, tasks)) for tasks in member.tasks or ()),
            )
            for member in group.members
        ),
    )


def _as_json(
    group: GroupDescription, lags: Mapping[TopicPartition, PartitionLag]
) -> dict[str, Any]:
    readers = _readers(group)
    described = {
        field.name: getattr(group, field.name)
        for field in dataclasses.fields(group)
        if field.name not in ("members", "coordinator")
    }
    return {
        **described,
        "coordinator": group.coordinator.id,
        "members": [_member_json(member) for member in group.members],
        "partitions": [
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "committed_offset": None if lag.committed is None else lag.committed.offset,
                "end_offset": lag.end_offset,
                "lag": lag.lag,
                "lag_seconds": lag.lag_seconds,
                "member_id": readers[tp].member_id if tp in readers else None,
                "error": None if lag.error is None else lag.error.name,
            }
            for tp, lag in sorted(lags.items())
        ],
    }


def _member_json(member: GroupMember) -> dict[str, Any]:
    return dataclasses.asdict(member)


def _show_plans(
    settings: Settings, plans: Mapping[str, Plan], *, export: bool, executed: bool
) -> None:
    if export:
        click.echo(offset_plans.write_csv(plans, with_group=len(plans) > 1), nl=False)
    elif settings.as_json:
        print_json(
            [
                {
                    "group_id": name,
                    "topic": tp.topic,
                    "partition": tp.partition,
                    "offset": change.current,
                    "new_offset": change.new,
                    "executed": executed,
                }
                for name, plan in plans.items()
                for tp, change in plan.changes.items()
            ]
        )
    else:
        print_table(
            ("group", "topic", "partition", "offset", "new offset"),
            (
                (name, tp.topic, tp.partition, change.current, change.new)
                for name, plan in plans.items()
                for tp, change in plan.changes.items()
            ),
        )
    for plan in plans.values():
        for note in plan.notes:
            failures.tell(escaped(note))
        for fault in plan.faults.values():
            failures.tell_error(fault)
