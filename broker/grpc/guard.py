"""The guard before every gRPC handler: garbage, deadlines and errors become statuses, once.

An error of one topic or partition is an `Error` inside a response and never gets here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from pylog import errors
from pylog.clock import ticks
from pylog.plain_text import cut
from pylog.rpc.channel import ERROR_CODE_KEY
from pylog_broker.metrics.counters import RequestCounters

_log = logging.getLogger("pylog.grpc")

UNARY_SECONDS_MAX: Final = 330.0
"""The longest that a call may take, whatever deadline its client set: the longest long poll and
then some."""

REQUEST_SECONDS_MAX: Final = 30.0
"""The time that a client may take to send the one message of a call that it has opened."""

DEADLINE_GRAIN_SECONDS: Final = 0.001
"""gRPC counts deadlines in whole milliseconds, and rounds them up."""

WORDS_BYTES_MAX: Final = 4096
"""The most bytes of an error's words. They go as metadata, of which a client takes 8 KiB in all: of
more it drops the error, too."""

_STATUS: Final[dict[type[errors.PylogError], grpc.StatusCode]] = {
    errors.ClusterAuthorizationFailed: grpc.StatusCode.PERMISSION_DENIED,
    errors.InvalidRequest: grpc.StatusCode.INVALID_ARGUMENT,
    errors.InvalidConfig: grpc.StatusCode.INVALID_ARGUMENT,
    errors.NotOffered: grpc.StatusCode.UNIMPLEMENTED,
    errors.UnsupportedVersion: grpc.StatusCode.UNIMPLEMENTED,
    errors.ThrottlingQuotaExceeded: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.RequestTimedOut: grpc.StatusCode.DEADLINE_EXCEEDED,
}

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[Any, Any]
    Handler = grpc.RpcMethodHandler[Any, Any]
    Interceptor = grpc.aio.ServerInterceptor[Any, Any]
else:  # these are generic only for the type checker
    Context = Handler = Any
    Interceptor = grpc.aio.ServerInterceptor


_REQUESTS: Final = {"ProduceStream": "Produce", "FetchStream": "Fetch"}
"""Kafka's names of methods, where they differ."""

_COUNTED_HERE: Final = "/pylog.v1.Cluster/"
"""Methods that begin so. All others are counted by their handlers, or on the way to these."""


class _Garbage:
    """Stands for a request that could not be parsed."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


def _lenient(parse: Callable[[bytes], Any] | None) -> Callable[[bytes], Any] | None:
    if parse is None:
        return None

    def parsed(data: bytes) -> Any:
        try:
            return parse(data)
        except (DecodeError, UnicodeDecodeError, ValueError) as error:
            return _Garbage(str(error))

    return parsed


def _checked(request: Any) -> Any:
    if isinstance(request, _Garbage):
        raise errors.InvalidRequest(f"the bytes are not this method's message: {request.reason}")
    return request


async def _checked_stream(requests: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for request in requests:
        yield _checked(request)


def told(error: errors.PylogError) -> str:
    """The error in words, as its client gets it: cut where metadata would not hold it."""
    words = f"{error.name}: {error}"
    size = 0
    for chars, char in enumerate(words):
        plain = " " <= char <= "~" and char != "%"
        # gRPC writes each byte that is not plain as %XX.
        size += 1 if plain else 3 * len(char.encode(errors="replace"))
        if size > WORDS_BYTES_MAX:
            return cut(words, chars)
    return words


def has_gone(error: BaseException | None) -> bool:
    """Whether gRPC could not read or write because the client has gone, or the server stops."""
    return isinstance(error, grpc.aio.BaseError) and not isinstance(
        error, grpc.aio.UsageError | grpc.aio.AbortError
    )


async def refuse(context: Context, error: errors.PylogError) -> None:
    """End the call with the status that goes with `error`."""
    status = next(
        (_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS),
        grpc.StatusCode.UNAVAILABLE if error.retriable else grpc.StatusCode.FAILED_PRECONDITION,
    )
    await context.abort(status, told(error), ((ERROR_CODE_KEY, str(error.code)),))


async def _guarded(
    context: Context, method: str, work: Awaitable[Any], counters: RequestCounters
) -> Any:
    try:
        return await work
    except (grpc.aio.AbortError, asyncio.CancelledError):
        raise
    except errors.PylogError as error:
        fault = error
    except TimeoutError:
        fault = errors.RequestTimedOut(f"{method} took over {UNARY_SECONDS_MAX:g} s")
    except Exception as error:  # the top of a call: the server must live on
        if has_gone(error):
            raise asyncio.CancelledError from error
        _log.exception("%s failed unexpectedly", method)
        fault = errors.UnknownServerError()
    counters.failed(_REQUESTS.get(method, method), fault.code)
    await refuse(context, fault)


async def _only(requests: AsyncIterator[Any], method: str) -> Any:
    """The one message of a call. gRPC waits for it as long as its client likes."""
    try:
        async with asyncio.timeout(REQUEST_SECONDS_MAX):
            async for request in requests:
                return _checked(request)
    except TimeoutError:
        raise errors.RequestTimedOut(
            f"{method}: its message did not arrive within {REQUEST_SECONDS_MAX:g} s"
        ) from None
    raise errors.InvalidRequest(f"{method}: the call ended without its message")


async def _with_deadline(work: Awaitable[Any]) -> Any:
    async with asyncio.timeout(UNARY_SECONDS_MAX):
        return await work


def _errors_in(answer: Any) -> Iterator[int]:
    """The codes of the errors inside an answer: its own, and those of its items."""
    if not isinstance(answer, Message):
        return
    for field in ("topics", "partitions"):
        for item in getattr(answer, field, ()):
            if (code := getattr(getattr(item, "error", None), "code", 0)) != 0:
                yield code
    if (code := getattr(getattr(answer, "error", None), "code", 0)) != 0:
        yield code


def _wrap(handler: Handler, method: str, counters: RequestCounters, *, counts: bool) -> Handler:
    """The guarded handler. All take a stream, which looks the same on the wire: so the wait for
    the one message of a unary call is ours, and can end.
    """
    parse = _lenient(handler.request_deserializer)
    serialize = handler.response_serializer
    inner: Any
    if handler.request_streaming and handler.response_streaming:
        inner = handler.stream_stream

        async def stream_stream(requests: AsyncIterator[Any], context: Context) -> None:
            await _guarded(context, method, inner(_checked_stream(requests), context), counters)

        return grpc.stream_stream_rpc_method_handler(stream_stream, parse, serialize)
    if handler.response_streaming:
        inner = handler.unary_stream

        async def unary_stream(requests: AsyncIterator[Any], context: Context) -> None:
            async def work() -> None:
                await inner(await _only(requests, method), context)

            await _guarded(context, method, work(), counters)

        return grpc.stream_stream_rpc_method_handler(unary_stream, parse, serialize)
    if handler.request_streaming:
        return handler
    inner = handler.unary_unary

    async def unary_unary(requests: AsyncIterator[Any], context: Context) -> Any:
        async def work() -> Any:
            request = await _only(requests, method)
            left = context.time_remaining()
            if left is not None and left <= DEADLINE_GRAIN_SECONDS:
                # Its client has given up, and may have asked somebody else meanwhile.
                raise errors.RequestTimedOut(f"{method}: its deadline was over when it arrived")
            began = ticks()
            answer = await inner(request, context)
            if counts:
                counters.answered(method, ticks() - began)
                for code in _errors_in(answer):
                    counters.failed(method, code)
            return answer

        return await _guarded(context, method, _with_deadline(work()), counters)

    return grpc.stream_unary_rpc_method_handler(unary_unary, parse, serialize)


class Guard(Interceptor):
    """Wraps each of pylog's methods once. Their handlers are coroutines that use `context.write`;
    services of other origin (health, reflection) pass through.
    """

    def __init__(self, counters: RequestCounters) -> None:
        self._counters = counters
        self._wrapped: dict[str, Handler] = {}

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> Handler:
        method = handler_call_details.method
        wrapped = self._wrapped.get(method)
        if wrapped is not None:
            return wrapped
        handler = await continuation(handler_call_details)
        if handler is None or not method.startswith("/pylog."):
            return handler
        name, counts = method.rpartition("/")[2], method.startswith(_COUNTED_HERE)
        self._wrapped[method] = _wrap(handler, name, self._counters, counts=counts)
        return self._wrapped[method]
