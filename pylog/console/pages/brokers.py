"""Brokers with their disks, what they lead, and their settings."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pylog import errors
from pylog.client.admin.admin_types import ConfigResource, LogDirDescription
from pylog.console.asking import words_of
from pylog.console.forms import read_form
from pylog.console.hub import Hub
from pylog.console.options import ASK_SECONDS
from pylog.console.rendering import page
from pylog.console.snapshot import Snapshot
from pylog.model import BrokerDescription, TopicPartition


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker in one line. `behind`: replicas of it that are not in their ISR; `not_preferred`:
    partitions that it should lead and does not.
    """

    id: int
    broker: BrokerDescription | None
    leads: int
    replicas: int
    behind: int
    not_preferred: int
    disks: list[LogDirDescription]


def broker_rows(snapshot: Snapshot) -> list[BrokerRow]:
    """All brokers that are registered or that have replicas."""
    told = snapshot.cluster.value
    brokers = {} if told is None else {broker.id: broker for broker in told.brokers}
    leads: dict[int, int] = {}
    replicas: dict[int, int] = {}
    behind: dict[int, int] = {}
    missed: dict[int, int] = {}
    for topic in snapshot.topics.value.values():
        for each in topic.partitions:
            if each.leader is not None:
                leads[each.leader] = leads.get(each.leader, 0) + 1
            if each.replicas and each.leader != each.replicas[0]:
                missed[each.replicas[0]] = missed.get(each.replicas[0], 0) + 1
            for broker in each.replicas:
                replicas[broker] = replicas.get(broker, 0) + 1
                if broker not in each.isr:
                    behind[broker] = behind.get(broker, 0) + 1
    return [
        BrokerRow(
            id,
            brokers.get(id),
            leads.get(id, 0),
            replicas.get(id, 0),
            behind.get(id, 0),
            missed.get(id, 0),
            list(snapshot.disks.value.get(id, [])),
        )
        for id in sorted({*brokers, *replicas})
    ]


async def brokers(request: Request) -> Response:
    """All brokers."""
    hub: Hub = request.app.state.hub
    rows = broker_rows(hub.knowledge.snapshot)
    events = [each for each in hub.knowledge.changes if each.kind in ("election", "ISR", "broker")]
    return page(
        request, "brokers.html", rows=rows, events=events[:20], fault="",
        not_preferred=sum(row.not_preferred for row in rows),
    )  # fmt: skip


async def broker(request: Request) -> Response:
    """One broker's disks and settings."""
    hub: Hub = request.app.state.hub
    id = request.path_params["id"]
    found = [row for row in broker_rows(hub.knowledge.snapshot) if row.id == id]
    if not found:
        raise errors.BrokerIdNotRegistered(f"there is no broker {id}")
    resource = ConfigResource("broker", str(id))
    entries, fault = [], ""
    try:
        told = await hub.ask(
            lambda: hub.clients.admin.describe_configs([resource], timeout=ASK_SECONDS)
        )
        entries = sorted(told[resource].values(), key=lambda each: (each.is_default, each.name))
    except errors.PylogError as error:
        fault = words_of(error)
    return page(request, "broker.html", live=False, row=found[0], entries=entries, fault=fault)


async def elect(request: Request) -> Response:
    """Give partitions back to their preferred leaders, where these are in sync."""
    hub: Hub = request.app.state.hub
    await read_form(request)
    wanted = [
        TopicPartition(topic.name, each.partition)
        for topic in hub.knowledge.snapshot.topics.value.values()
        for each in topic.partitions
        if each.replicas and each.leader != each.replicas[0] and each.replicas[0] in each.isr
    ]
    if wanted:
        try:
            await hub.ask(lambda: hub.clients.admin.elect_leaders(wanted, timeout=ASK_SECONDS))
        except errors.PylogError as error:
            if not isinstance(error, errors.ElectionNotNeeded):
                raise
    return RedirectResponse("/brokers", 303)
