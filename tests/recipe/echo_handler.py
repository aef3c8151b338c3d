"""Echo: what is asked, what is answered, and the handler. Belongs in `broker/api`."""

from __future__ import annotations

from typing import Final, NamedTuple

from pylog import errors
from pylog_broker.api.context import RequestContext

TEXT_CHARS_MAX: Final = 1_000


class Echoed(NamedTuple):
    """The text that was sent, and where it came from."""

    text: str
    origin: RequestContext


class EchoHandler:
    """Lives on the broker's loop."""

    async def handle(self, context: RequestContext, text: str) -> Echoed:
        """The text and the context. Raises InvalidRequest for a text that is too long."""
        if len(text) > TEXT_CHARS_MAX:
            raise errors.InvalidRequest(f"{len(text)} characters; the limit is {TEXT_CHARS_MAX}")
        return Echoed(text, context)
