"""Echo: a client's call, over whatever carries it. Belongs in `pylog/client`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from google.protobuf import wrappers_pb2
from google.protobuf.json_format import MessageToDict

from tests.recipe.echo_row import ECHO

Call = Callable[[Any, Any], Awaitable[Any]]
"""Gives the response to a row of the table and a request; raises the error that the call had."""


async def echo(call: Call, text: str) -> dict[str, str]:
    """The text and where it came from, as the broker saw it."""
    return MessageToDict(await call(ECHO, wrappers_pb2.StringValue(value=text)))
