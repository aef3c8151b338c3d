"""Pages out of templates. Everything that comes from the cluster is escaped by Jinja's own rule."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import jinja2
from starlette.requests import Request
from starlette.responses import HTMLResponse

from pylog.console.charts import clock_time
from pylog.console.hub import Hub
from pylog.console.stylesheet import STYLESHEET
from pylog.console.values import plain

FOLDER: Final = Path(__file__).parent
FRAGMENT_HEADER: Final = "x-fragment"
"""With it only the part of a page that changes is asked for."""
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
UNKNOWN: Final = "\N{EN DASH}"
TIME_MAX_MS: Final = 253_402_300_799_000
"""The end of the year 9999."""


def size(count: float | None) -> str:
    """Bytes for people: `74.5 GiB`."""
    if count is None or count < 0:
        return UNKNOWN
    value, unit = float(count), 0
    while value >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{count:.0f} B" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def number(value: float | None) -> str:
    """A number with thousands apart; a dash for what is not known."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if isinstance(value, int) or value >= 10 else f"{value:.1f}"


def moment(at_ms: int | None) -> str:
    """A time in UTC, with milliseconds."""
    if at_ms is None or not 0 <= at_ms <= TIME_MAX_MS:
        return UNKNOWN if at_ms is None or at_ms < 0 else f"{at_ms} ms"
    text = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(" ", "milliseconds")
    return text.removesuffix("+00:00")


def span(seconds: float | None) -> str:
    """A length of time: `1.5 s`, `12 min`, `3 h`, `4 d`."""
    if seconds is None:
        return UNKNOWN
    if seconds < 120:
        return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    for length, unit in ((60, "min"), (3_600, "h"), (86_400, "d")):
        if seconds < length * 120 or unit == "d":
            return f"{seconds / length:.0f} {unit}"
    raise AssertionError("the last unit takes all")


def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(FOLDER / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.globals["stylesheet"] = STYLESHEET
    made.filters.update(
        size=size,
        number=number,
        moment=moment,
        span=span,
        clock=clock_time,
        plain=plain,
        path=lambda text: quote(str(text), safe=""),
        query=urlencode,
    )
    return made


ENVIRONMENT: Final = _environment()


def compile_all() -> None:
    """Compile the templates, which takes about 0.1 s, so that no visitor waits for it."""
    for name in ENVIRONMENT.list_templates(extensions=["html"]):
        ENVIRONMENT.get_template(name)


def page(request: Request, template: str, *, status: int = 200, **values: Any) -> HTMLResponse:
    """The page, or only the part of it that changes where the browser has the rest."""
    hub: Hub = request.app.state.hub
    values = {"live": True, **values}
    snapshot = hub.knowledge.snapshot
    values |= {
        "faults": snapshot.faults(),
        "known": snapshot.version > 0,
        "snapshot": snapshot,
        "allow_writes": hub.options.allow_writes,
        "token": hub.token.text,
        "path": request.url.path,
        "now_ms": hub.clock.wall_ms(),
    }
    is_part = request.headers.get(FRAGMENT_HEADER) is not None
    values["layout"] = "fragment.html" if is_part else "base.html"
    return HTMLResponse(ENVIRONMENT.get_template(template).render(values), status)


def fragment(template: str, **values: Any) -> str:
    """A piece of a page."""
    return ENVIRONMENT.get_template(template).render(values)
