"""Groups: the list, one of them, and where it is to go on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from pylog import errors
from pylog.cli import offset_plans
from pylog.cli.moments import moment_ms
from pylog.cli.offset_plans import Plan, Rule
from pylog.config import INT_MAX, LONG_MAX
from pylog.console.asking import words_of
from pylog.console.charts import chart
from pylog.console.forms import read_form
from pylog.console.hub import Hub
from pylog.console.pages.topics import FILTER_CHARS_MAX, page_of
from pylog.console.rendering import page
from pylog.console.snapshot import GroupLook
from pylog.model import OffsetAndMetadata, TopicPartition

if TYPE_CHECKING:
    from pylog.client.admin.admin import AdminClient

TARGETS: Final = {
    "earliest": "the first record",
    "latest": "the end",
    "time": "a time",
    "shift": "so many records on (or back, with a minus)",
    "offset": "an offset",
}
PLAN_MAX: Final = 10_000
SORTS: Final[Mapping[str, Any]] = {
    "name": lambda look: look.listing.group_id,
    "lag": lambda look: (-(look.lag or 0), look.listing.group_id),
    "members": lambda look: (-(look.members or 0), look.listing.group_id),
    "state": lambda look: (look.listing.state, look.listing.group_id),
}


async def groups(request: Request) -> Response:
    """A page of the list."""
    hub: Hub = request.app.state.hub
    query = request.query_params
    sort = query.get("sort", "lag")
    sort = sort if sort in SORTS else "lag"
    text = query.get("q", "")[:FILTER_CHARS_MAX]
    looks = [
        look
        for name, look in hub.knowledge.snapshot.groups.value.items()
        if text.lower() in name.lower()
    ]
    looks.sort(key=SORTS[sort])
    shown, number, pages = page_of(looks, query)
    return page(
        request, "groups.html", rows=shown, count=len(looks), q=text, sort=sort,
        sorts=list(SORTS), number=number, pages=pages,
    )  # fmt: skip


def _look(request: Request, name: str) -> GroupLook:
    hub: Hub = request.app.state.hub
    part = hub.knowledge.snapshot.groups
    found = part.value.get(name)
    if found is None:
        known = part.at_ms is not None
        why = "there is no group" if known else "the cluster has not answered about group"
        raise errors.GroupIdNotFound(f"{why} {name[:200]!r}")
    return found


async def group(request: Request) -> Response:
    """One group's lag by partition, its course, and its members."""
    hub: Hub = request.app.state.hub
    look = _look(request, request.query_params.get("id", ""))
    lags = sorted((look.lags or {}).items())
    shown, number, pages = page_of(lags, request.query_params)
    readers: dict[TopicPartition, list[str]] = {}
    for member in () if look.description is None else look.description.members:
        for tp in member.assignment or ():
            readers.setdefault(tp, []).append(member.client_id)
    return page(
        request, "group.html", look=look, rows=shown, number=number, pages=pages, readers=readers,
        chart=chart("Lag in records", hub.knowledge.group_lags.of(look.listing.group_id)),
    )  # fmt: skip


# ---- reset ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PlanRow:
    """A partition's position as it is and as it is to be."""

    partition: TopicPartition
    current: int | None
    new: int

    @property
    def moved(self) -> int | None:
        return None if self.current is None else self.new - self.current


async def reset_form(request: Request) -> Response:
    """An empty form."""
    look = _look(request, request.query_params.get("id", ""))
    return _reset_page(request, look, {}, "", None)


async def reset(request: Request) -> Response:
    """Show the plan; or, when it was shown and is sent again, carry it out."""
    hub: Hub = request.app.state.hub
    given = await read_form(request)
    look = _look(request, given.get("id", ""))
    try:
        if given.get("plan"):
            offsets = plan_of(given["plan"])
            await hub.ask(lambda: _carry_out(hub.clients.admin, look, offsets))
            return RedirectResponse(f"/group?{_query(look)}", 303)
        rule = rule_of(given)
        plan = await hub.ask(lambda: _plan(hub.clients.admin, look, given, rule))
    except errors.PylogError as error:
        return _reset_page(request, look, given, words_of(error), None)
    return _reset_page(request, look, given, "", plan)


def _query(look: GroupLook) -> str:
    from urllib.parse import urlencode

    return urlencode({"id": look.listing.group_id})


def _reset_page(
    request: Request, look: GroupLook, given: Mapping[str, str], fault: str, plan: Plan | None
) -> Response:
    rows, text = [], ""
    if plan is not None:
        rows = [PlanRow(tp, each.current, each.new) for tp, each in sorted(plan.changes.items())]
        text = json.dumps([[row.partition.topic, row.partition.partition, row.new] for row in rows])
    return page(
        request, "reset.html", status=400 if fault else 200, live=False, look=look, given=given,
        fault=fault, plan=plan, rows=rows, plan_text=text, targets=TARGETS,
    )  # fmt: skip


def rule_of(given: Mapping[str, str]) -> Rule:
    """The rule for the offsets at which the group goes on; InvalidRequest names the wrong field."""
    target, text = given.get("target", ""), given.get("to", "").strip()
    if target in ("earliest", "latest"):
        return offset_plans.to_end(target)
    if target == "time":
        try:
            at_ms = moment_ms(text)
        except ValueError:
            at_ms = -1
        if not 0 <= at_ms <= LONG_MAX:
            raise errors.InvalidRequest(
                f"{text[:50]!r} is no time: write 2024-01-31T12:00 (in UTC unless it says "
                "otherwise), or milliseconds since 1970"
            )
        return offset_plans.to_time(at_ms)
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 20 and int(digits) <= LONG_MAX):
        raise errors.InvalidRequest(f"{text[:50]!r} is no whole number")
    if target == "shift":
        return offset_plans.by_shift(int(text))
    if target == "offset":
        return offset_plans.to_offsets(lambda _: int(text))
    raise errors.InvalidRequest(f"{target[:20]!r} is not one of {', '.join(TARGETS)}")


def plan_of(text: str) -> dict[TopicPartition, int]:
    """The offsets of a plan that was shown; InvalidRequest for what is none."""
    try:
        rows = json.loads(text)
        offsets = {TopicPartition(str(t), int(p)): int(o) for t, p, o in rows}
    except (ValueError, TypeError, RecursionError):
        raise errors.InvalidRequest("this is no plan that the console has shown") from None
    sane = all(0 <= tp.partition <= INT_MAX and 0 <= at <= LONG_MAX for tp, at in offsets.items())
    if not sane or not 0 < len(offsets) <= PLAN_MAX:
        raise errors.InvalidRequest(f"a plan has 1 to {PLAN_MAX} partitions with their offsets")
    return offsets


def _without_members(admin: AdminClient, name: str) -> str:
    """The group's type; NonEmptyGroup while it has members, who would go on where they are."""
    found = admin.describe_groups(name)[name]
    if found.members:
        raise errors.NonEmptyGroup(
            f"the group has {len(found.members)} live members, which would go on where they are "
            "and commit that: stop them first"
        )
    return found.type


def _plan(admin: AdminClient, look: GroupLook, given: Mapping[str, str], rule: Rule) -> Plan:
    name = look.listing.group_id
    kind = _without_members(admin, name)
    if kind == "streams":
        raise errors.InvalidRequest("a streams group has state beside its offsets: reset it with "
                                    "`pylog groups reset-offsets`")  # fmt: skip
    current: dict[TopicPartition, OffsetAndMetadata | None]
    if kind == "share":
        starts = admin.list_share_group_offsets(name)
        current = {
            tp: None if at is None else OffsetAndMetadata(at.start_offset)
            for tp, at in starts.items()
        }
    else:
        current = admin.list_group_offsets(name)
    topic = given.get("topic", "").strip()
    places = [tp for tp in current if not topic or tp.topic == topic]
    if topic and not places:
        places = offset_plans.partitions_of(admin, {topic: None})
    if not places:
        raise errors.InvalidRequest("the group has no positions yet; name a topic")
    if len(places) > PLAN_MAX:
        raise errors.InvalidRequest(f"{len(places)} partitions; the limit is {PLAN_MAX}: name a "
                                    "topic")  # fmt: skip
    return rule(admin, current, places)


def _carry_out(admin: AdminClient, look: GroupLook, offsets: dict[TopicPartition, int]) -> None:
    name = look.listing.group_id
    if _without_members(admin, name) == "share":
        admin.alter_share_group_offsets(name, offsets)
    else:
        admin.alter_group_offsets(name, {tp: OffsetAndMetadata(at) for tp, at in offsets.items()})
