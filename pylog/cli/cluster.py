"""`pylog cluster`: the cluster, its brokers and their log directories."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import click

from pylog import errors
from pylog.cli.amounts import instant_shown, size_shown
from pylog.cli.context import (
    Settings,
    confirm,
    print_json,
    print_table,
    telling_outcomes,
    with_settings,
)
from pylog.clock import SYSTEM_CLOCK
from pylog.model import BrokerDescription, ClusterDescription
from pylog.plain_text import escaped

if TYPE_CHECKING:
    from pylog.client.admin.admin_types import LogDirDescription
    from pylog.client.admin.broker_types import BrokerStatus


FENCED_SHOWN_MAX: Final = 5
NOT_OFFERED: Final = ("add-broker", "drain", "roll")


class _ClusterCommands(click.Group):
    """Commands that are to come say what to do meanwhile; nothing lists them."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in NOT_OFFERED:
            raise errors.NotOffered(
                f"pylog cluster {cmd_name} is not offered yet; `pylog docs adding-brokers` has the "
                "steps by hand"
            )
        return super().get_command(ctx, cmd_name)


@click.group(cls=_ClusterCommands)
def cluster() -> None:
    """Look at the cluster and its brokers."""


@cluster.command()
@with_settings
def describe(settings: Settings) -> None:
    """Show the cluster's id, its brokers, and what each of them leads and holds.

    A broker that is registered but does not serve, because it has stopped, died or lost touch with
    the controller, is fenced.
    """
    with settings.admin() as admin:
        found = admin.describe_cluster(include_fenced_brokers=True)
        topics = admin.describe_topics()
    led: dict[int | None, int] = {}
    held: dict[int, int] = {}
    for topic in topics.values():
        for partition in topic.partitions:
            led[partition.leader] = led.get(partition.leader, 0) + 1
            for broker in partition.replicas:
                held[broker] = held.get(broker, 0) + 1
    if settings.as_json:
        values = dataclasses.asdict(found)
        for broker in values["brokers"]:
            broker["leaders"] = led.get(broker["id"], 0)
            broker["replicas"] = held.get(broker["id"], 0)
        values["offline_partitions"] = led.get(None, 0)
        print_json(values)
        return
    click.echo(f"cluster {escaped(found.cluster_id)}, {_controller(found)}")
    now_ms = SYSTEM_CLOCK.wall_ms()
    click.echo(_liveness(found.brokers, now_ms))
    if led.get(None):
        click.echo(
            f"{led[None]} partitions have no leader: pylog topics describe --unavailable-partitions"
        )
    print_table(
        ("broker", "address", "rack", "epoch", "leads", "replicas", "state"),
        (
            (
                b.id, f"{b.host}:{b.port}", b.rack, b.epoch, led.get(b.id, 0), held.get(b.id, 0),
                _state(b, now_ms),
            )
            for b in found.brokers
        ),
    )  # fmt: skip


def _liveness(brokers: Sequence[BrokerDescription], now_ms: int) -> str:
    """`2 of 3 brokers are live, broker 2 is fenced since 12:03:11 UTC`."""
    live = sum(not broker.fenced for broker in brokers)
    text = f"{live} of {len(brokers)} brokers {'is' if live == 1 else 'are'} live"
    away = [f"broker {b.id} is {_state(b, now_ms)}" for b in brokers if b.fenced]
    more = f" and {len(away) - FENCED_SHOWN_MAX} more" if len(away) > FENCED_SHOWN_MAX else ""
    return ", ".join((text, *away[:FENCED_SHOWN_MAX])) + more


def _state(broker: BrokerDescription, now_ms: int) -> str:
    if not broker.fenced:
        return "live"
    since_ms = broker.fenced_since_ms
    return "fenced" if since_ms is None else f"fenced since {instant_shown(since_ms, now_ms)}"


def _controller(found: ClusterDescription) -> str:
    text = f"controller epoch {found.controller_epoch}"
    if found.controller is not None:
        text += f" at {escaped(found.controller)}"
    if found.controller_since_ms is not None:
        since = datetime.fromtimestamp(found.controller_since_ms / 1000, UTC)
        text += f" since {since:%Y-%m-%d %H:%M:%S} UTC"
    return text


@cluster.command(name="log-dirs")
@click.argument("brokers", metavar="[BROKER]...", nargs=-1, type=int)
@click.option("--replicas", is_flag=True, help="Each replica, not only each directory.")
@with_settings
def log_dirs(settings: Settings, brokers: tuple[int, ...], replicas: bool) -> None:
    """Show the directories of brokers (default: all live ones): room, size, replicas."""
    found: dict[int, list[LogDirDescription]] = {}

    def show(broker: int, directories: list[LogDirDescription]) -> None:
        found[broker] = directories

    def tell() -> None:
        if settings.as_json:
            print_json([_as_json(broker, d) for broker in sorted(found) for d in found[broker]])
        elif replicas:
            _print_replicas(found)
        else:
            _print_directories(found)

    with settings.admin() as admin:
        try:
            with telling_outcomes(show):
                found.update(admin.describe_log_dirs(brokers or None))
        except click.exceptions.Exit:
            if found:
                tell()
            raise
    tell()


def _as_json(broker: int, directory: LogDirDescription) -> dict[str, object]:
    return {
        "broker": broker,
        "path": directory.path,
        "directory_id": directory.directory_id,
        "total_bytes": directory.total_bytes,
        "usable_bytes": directory.usable_bytes,
        "error": str(directory.error) if directory.error else None,
        "replicas": [
            {
                "topic": tp.topic,
                "partition": tp.partition,
                "size": r.size,
                "offset_lag": r.offset_lag,
                "log_start_offset": r.log_start_offset,
                "log_end_offset": r.log_end_offset,
                "error": str(r.error) if r.error else None,
            }
            for tp, r in sorted(directory.replicas.items())
        ],
    }


def _print_directories(found: dict[int, list[LogDirDescription]]) -> None:
    print_table(
        ("broker", "directory", "replicas", "size", "free", "of", "error"),
        (
            (
                broker, d.path, len(d.replicas),
                size_shown(sum(r.size for r in d.replicas.values())),
                size_shown(d.usable_bytes), size_shown(d.total_bytes), d.error,
            )
            for broker in sorted(found)
            for d in found[broker]
        ),
    )  # fmt: skip


def _print_replicas(found: dict[int, list[LogDirDescription]]) -> None:
    print_table(
        ("broker", "directory", "topic", "partition", "size", "first", "end", "behind", "error"),
        (
            (
                broker, d.path, tp.topic, tp.partition, size_shown(r.size), r.log_start_offset,
                r.log_end_offset, r.offset_lag, r.error,
            )
            for broker in sorted(found)
            for d in found[broker]
            for tp, r in sorted(d.replicas.items())
        ),
    )  # fmt: skip


@cluster.command(name="brokers")
@click.argument("brokers", metavar="[BROKER]...", nargs=-1, type=int)
@click.option("--replicas", is_flag=True, help="Each replica with its role, too.")
@with_settings
def brokers_(settings: Settings, brokers: tuple[int, ...], replicas: bool) -> None:
    """Show how brokers (default: all live ones) are: their listeners, parts and replicas."""
    found: dict[int, BrokerStatus] = {}

    def tell() -> None:
        if settings.as_json:
            print_json([_status_as_json(status) for _, status in sorted(found.items())])
            return
        for broker in sorted(found):
            _print_status(found[broker], replicas=replicas)

    with settings.admin() as admin:
        try:
            with telling_outcomes(found.__setitem__):
                found.update(admin.describe_brokers(brokers or None))
        except click.exceptions.Exit:
            tell()
            raise
    tell()


def _status_as_json(status: BrokerStatus) -> dict[str, object]:
    values = dataclasses.asdict(dataclasses.replace(status, replicas={}))
    values["replicas"] = [
        {"topic": tp.topic, "partition": tp.partition, **dataclasses.asdict(replica)}
        for tp, replica in sorted(status.replicas.items())
    ]
    return values


def _print_status(status: BrokerStatus, *, replicas: bool) -> None:
    text = f"broker {status.id}, pylog {escaped(status.version)}"
    if status.rack is not None:
        text += f", rack {escaped(status.rack)}"
    if status.registered_ms is None:
        text += ", not registered"
    else:
        since = datetime.fromtimestamp(status.registered_ms / 1000, UTC)
        text += f", epoch {status.epoch}, registered {since:%Y-%m-%d %H:%M:%S} UTC"
    click.echo(text)
    print_table(
        ("listener", "address", "protocol", "for", "state", "connections"),
        (
            (
                each.name, f"{each.host}:{each.port}", each.protocol, each.purpose,
                "open" if each.is_open else "closed", each.connections,
            )
            for each in status.listeners
        ),
    )  # fmt: skip
    click.echo()
    print_table(
        ("part", "state", "detail"), ((part.name, part.state, part.detail) for part in status.parts)
    )
    click.echo()
    if not replicas:
        return
    print_table(
        ("topic", "partition", "role", "leader", "epoch", "in sync", "first", "committed", "end",
         "fault"),
        (
            (
                tp.topic, tp.partition, r.role, "none" if r.leader is None else r.leader,
                r.leader_epoch, ",".join(map(str, r.isr)), r.log_start_offset, r.high_watermark,
                r.log_end_offset, r.fault,
            )
            for tp, r in sorted(status.replicas.items())
        ),
    )  # fmt: skip
    click.echo()


@cluster.command()
@click.argument("broker", type=int)
@click.option("--yes", is_flag=True, help="Do not ask.")
@with_settings
def unregister(settings: Settings, broker: int, yes: bool) -> None:
    """Forget a broker that has stopped and will not come back; its replicas count as lost."""
    if not yes:
        confirm(f"Broker {broker} and its replicas are given up. Go on?")
    with settings.admin() as admin:
        admin.unregister_broker(broker)
    if settings.as_json:
        print_json({"broker": broker})
    else:
        click.echo(f"unregistered broker {broker}")
