"""The guard before all pages: it decides on addresses and rates of requests, and on what browsers
may do with answers.

A page on a loopback address can be reached by any web site that a person visits at the same time.
So names that a stranger could have made to point here (DNS rebinding) are refused, requests that
another site makes get nothing, changes need an Origin and a token that only our own pages know, and
no answer may be framed, sniffed, cached, or take a script or style that is not ours.
"""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pylog.console.options import FORM_BYTES_MAX, QUERY_BYTES_MAX
from pylog.console.stylesheet import STYLESHEET_HASH

CONTENT_SECURITY_POLICY: Final = (
    f"default-src 'none'; script-src 'self'; style-src '{STYLESHEET_HASH}'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not no-referrer: browsers would then send "Origin: null" with our own forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
}
METHODS: Final = ("GET", "HEAD", "POST")


def host_of(header: str) -> str:
    """The host in a Host header, without its port, in small letters; empty for what is none."""
    if header.startswith("["):
        host, bracket, rest = header[1:].partition("]")
        return host.lower() if bracket and (not rest or rest.startswith(":")) else ""
    host, _, port = header.partition(":")
    return "" if port and not port.isdigit() else host.lower()


def host_is_ours(header: str, names: frozenset[str]) -> bool:
    """Whether a browser that says this came by an address that nobody else could have named. A
    numeric address cannot be rebound.
    """
    host = host_of(header)
    if host == "localhost" or host in names:
        return True
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def refusal(method: str, headers: Headers, query: bytes, names: frozenset[str]) -> tuple[int, str]:
    """Status and words of why a request is refused; (0, "") for one that may pass."""
    hosts = headers.getlist("host")
    if len(hosts) != 1 or not host_is_ours(hosts[0], names):
        return 421, (
            "this console is not known under that name; use a numeric address or localhost, or "
            "start it with --host-name NAME"
        )
    if method not in METHODS:
        return 405, f"{method[:20]} is not a method of these pages"
    if len(query) > QUERY_BYTES_MAX:
        return 414, f"the query has {len(query)} bytes; the limit is {QUERY_BYTES_MAX}"
    site = headers.get("sec-fetch-site", "none")
    navigates = headers.get("sec-fetch-mode") == "navigate" and method != "POST"
    if site in ("cross-site", "same-site") and not navigates:
        return 403, "another web site asked for this; the console answers its own pages only"
    if method == "POST":
        if headers.get("origin") not in (f"http://{hosts[0]}", f"https://{hosts[0]}"):
            return 403, "a change must come from the console's own pages (header Origin)"
        length = headers.get("content-length", "")
        if not (length.isascii() and length.isdigit()):
            return 411, "a change must say its length (header Content-Length)"
        if int(length[:20]) > FORM_BYTES_MAX:
            return 413, f"the form has {length[:20]} bytes; the limit is {FORM_BYTES_MAX}"
    return 0, ""


class Guard:
    """The middleware."""

    def __init__(self, app: ASGIApp, names: frozenset[str], on_request: Callable[[], None]) -> None:
        self._app = app
        self._names = names
        self._on_request = on_request

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        guarded = _with_headers(send)
        headers = Headers(scope=scope)
        status, why = refusal(scope["method"], headers, scope["query_string"], self._names)
        if status:
            await PlainTextResponse(f"pylog console: {why}\n", status)(scope, receive, guarded)
            return
        self._on_request()
        await self._app(scope, receive, guarded)


def _with_headers(send: Send) -> Callable[[Message], Awaitable[None]]:
    async def sent(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
            headers.setdefault("cache-control", "no-store")
        await send(message)

    return sent


class Token:
    """The secret that a form must carry. One for each process: only its own pages know it."""

    def __init__(self) -> None:
        self.text = secrets.token_urlsafe(32)

    def fits(self, given: str) -> bool:
        """Whether the form is of one of our pages."""
        return secrets.compare_digest(given.encode(), self.text.encode())
