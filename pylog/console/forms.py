"""Reads what a form sends, and refuses what no form of ours has sent."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from pylog import errors
from pylog.console.hub import Hub
from pylog.console.options import FORM_BYTES_MAX

FIELDS_MAX: Final = 40
BODY_SECONDS_MAX: Final = 15.0


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form that was sent from one of our pages.

    Raises ClusterAuthorizationFailed unless changes are allowed and the form carries our token, and
    InvalidRequest for one that is too large or no form.
    """
    hub: Hub = request.app.state.hub
    if not hub.options.allow_writes:
        raise errors.ClusterAuthorizationFailed(
            "this console only shows; start it with --allow-writes to change something"
        )
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS_MAX):
            async for chunk in request.stream():
                body += chunk
                if len(body) > FORM_BYTES_MAX:
                    raise errors.InvalidRequest(f"the form is larger than {FORM_BYTES_MAX} bytes")
    except TimeoutError:
        raise errors.InvalidRequest(
            f"the form did not come within {BODY_SECONDS_MAX:.0f} s; send it again"
        ) from None
    try:
        pairs = parse_qsl(
            body.decode(), keep_blank_values=True, errors="strict", max_num_fields=FIELDS_MAX
        )
    except ValueError as error:
        raise errors.InvalidRequest(f"this is no form that the console has sent: {error}") from None
    fields = dict(pairs)
    if not hub.token.fits(fields.pop("token", "")):
        raise errors.ClusterAuthorizationFailed(
            "the form is of a console that has ended since; load the page again"
        )
    return fields
