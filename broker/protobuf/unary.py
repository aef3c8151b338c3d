"""Unary APIs bound to their handlers: the one table from which both edges that speak pylog's
messages answer calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

from google.protobuf.message import DecodeError

from pylog import errors
from pylog.rpc.apis import RequestT, ResponseT, UnaryApi
from pylog_broker.api.calls import Calls
from pylog_broker.api.context import RequestContext

ValueT = TypeVar("ValueT")
AnswerT = TypeVar("AnswerT")

UNREADABLE: Final = (DecodeError, UnicodeDecodeError, ValueError)
"""Raised by the parsing of bytes that are not the message."""


@dataclass(frozen=True, slots=True)
class Bound(Generic[RequestT, ResponseT, ValueT, AnswerT]):
    """One API: from its message to a value, to its handler, and back.

    `decode` may raise a PylogError for a message that is no value. `refused` makes an answer of the
    error that a call fails with; None: the edge tells it. `may_wait`: whether nobody misses the
    answer to a message if it is handled some milliseconds later, with others; None: never.
    """

    api: UnaryApi[RequestT, ResponseT]
    decode: Callable[[RequestT], ValueT]
    handle: Callable[[RequestContext, ValueT], Awaitable[AnswerT]]
    encode: Callable[[AnswerT], ResponseT]
    refused: Callable[[errors.PylogError], ResponseT] | None = None
    may_wait: Callable[[RequestT], bool] | None = None

    async def decoded(self, context: RequestContext, message: RequestT) -> AnswerT:
        """The handler's answer to a message."""
        return await self.handle(context, self.decode(message))


AnyBound: TypeAlias = Bound[Any, Any, Any, Any]


class UnaryApis:
    """All unary APIs that one process answers."""

    def __init__(self, calls: Calls, bound: Iterable[AnyBound]) -> None:
        self.by_key: Mapping[int, AnyBound] = {each.api.key: each for each in bound}
        self.calls = calls

    def of(self, service: str) -> Iterable[AnyBound]:
        """Those of one of gRPC's services."""
        return [each for each in self.by_key.values() if each.api.service == service]

    async def answer(
        self,
        bound: Bound[RequestT, ResponseT, Any, Any],
        context: RequestContext,
        message: RequestT,
        came: float | None = None,
    ) -> ResponseT:
        """The answer to a call. Raises the error that the call fails with, which is counted."""
        try:
            given = await self.calls.make(bound.api.name, context, bound.decoded, message, came)
        except errors.PylogError as fault:
            if bound.refused is None:
                raise
            return bound.refused(fault)
        return bound.encode(given)
