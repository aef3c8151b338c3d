"""The core of a framed connection: whatever pieces the bytes come in, they say the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pylog import errors
from pylog.client.connection.client_connection import (
    Agreed,
    Answered,
    ClientConnection,
    Ended,
    Event,
    Failed,
    Greeted,
    State,
)
from pylog.rpc import calls, streams
from pylog.rpc.apis import METADATA, UNARY_APIS
from pylog.rpc.v1 import stream_pb2

BROKER = 3
WELCOME = streams.welcome(BROKER, 17, 1_000, calls_max=5)
AGREED = Agreed(
    17, 1_000, 5, "pylog", streams.software_version(), {api.key: 0 for api in UNARY_APIS}
)
CLOSED = Ended("the broker closed the stream")

Core = ClientConnection[str]


def flat(chunks: Any) -> bytes:
    return b"".join(chunks)


def message(body: bytes) -> bytes:
    return flat(streams.framed(streams.MESSAGE, [body]))


def feed(core: Core, data: bytes, step: int = 1 << 30) -> list[Event[str]]:
    """The core's events for the bytes, in pieces of at most `step`."""
    events: list[Event[str]] = []
    while data:
        buffer = core.free_buffer()
        part, data = data[: min(step, len(buffer))], data[min(step, len(buffer)) :]
        buffer[: len(part)] = part
        events += core.received(len(part))
    return events


def greeted(kind: stream_pb2.StreamKind, *open_calls: str) -> Core:
    core: Core = ClientConnection(kind, BROKER)
    assert feed(core, WELCOME) == [Greeted(AGREED)]
    for call in open_calls:
        core.call(call, METADATA, b"asked", 9)
    return core


def test_an_answer_of_a_stream_is_its_body() -> None:
    core = greeted(streams.PRODUCE)
    assert feed(core, message(b"one") + message(b"") + message(b"two")) == [b"one", b"", b"two"]
    assert core.state is State.OPEN


def test_a_call_is_numbered_and_its_answer_is_its_own() -> None:
    core = greeted(streams.CALLS)
    number, frame = core.call("a", METADATA, b"asked", 1_500)
    call = calls.read_call(memoryview(flat(frame))[4:])
    assert (call.number, call.key, call.version, call.timeout_ms) == (
        number,
        METADATA.key,
        0,
        1_500,
    )
    assert call.request == b"asked"
    other, _ = core.call("b", METADATA, b"", 1)
    fault = errors.InvalidRequest("no")
    said = flat(calls.answer_frame(other, [b"re", b"ply"])) + flat(
        calls.failure_frame(number, fault)
    )
    answered, failed = feed(core, said)
    assert answered == Answered("b", memoryview(b"reply"))
    assert isinstance(failed, Failed)
    assert (failed.call, type(failed.error), str(failed.error)) == (
        "a",
        errors.InvalidRequest,
        "no",
    )


def test_no_more_calls_than_the_broker_takes_also_when_nobody_waits_for_them() -> None:
    core = greeted(streams.CALLS, *"abcde")
    assert not core.may_call
    core.forget(1, "b")
    core.forget(2, "another one of that number, which was answered")
    assert not core.may_call
    assert feed(core, flat(calls.answer_frame(1, [b""]))) == []
    assert core.may_call
    assert core.close() == ("a", "c", "d", "e")


def test_numbers_begin_anew_and_pass_over_open_ones() -> None:
    core = greeted(streams.CALLS, "old")
    core._next = calls.NUMBERS - 1
    assert [core.call(name, METADATA, b"", 1)[0] for name in "abc"] == [calls.NUMBERS - 1, 1, 2]


def test_the_lower_version_counts_and_0_where_one_side_names_none() -> None:
    told = [
        stream_pb2.ApiVersion(key=UNARY_APIS[0].key, version_max=9),
        stream_pb2.ApiVersion(key=METADATA.key, version_max=-1),
        stream_pb2.ApiVersion(key=31_000, version_max=2),
    ]
    assert set(streams.agreed_versions(told).values()) == {0}
    core = greeted(streams.CALLS)
    assert core.agreed is not None
    core.agreed = Agreed(17, 1_000, 5, "", "", {METADATA.key: 3})
    call = calls.read_call(memoryview(flat(core.call("a", METADATA, b"", 1)[1]))[4:])
    assert call.version == 3


@pytest.mark.parametrize("kind", [streams.PRODUCE, streams.FETCH, streams.CALLS])
@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (streams.fault_frame(errors.UnsupportedVersion("no")), "UNSUPPORTED_VERSION: no"),
        (streams.welcome(9, 1, 1, calls_max=1), "INVALID_REQUEST: it is the port of broker 9"),
        (message(b"hi"), "INVALID_REQUEST: it is no port for pylog's framed streams"),
        (b"\0\0\0\0", "INVALID_REQUEST: it is no port for pylog's framed streams"),
        (
            b"HTTP/1.1 400",
            "FRAME_REFUSED: a frame announces 1213486160 bytes; the limit here is ",
        ),
    ],
)
def test_what_is_no_welcome_ends_it(kind: stream_pb2.StreamKind, said: bytes, reason: str) -> None:
    core: Core = ClientConnection(kind, BROKER)
    (ended,) = feed(core, said)
    assert isinstance(ended, Ended)
    assert ended.reason.startswith(reason)
    assert ended.error is not None
    assert (core.state, core.agreed) == (State.ENDED, None)


def test_a_broker_that_takes_no_calls_ends_it_for_calls_alone() -> None:
    plain = streams.welcome(BROKER, 17, 1_000)
    core: Core = ClientConnection(streams.CALLS, BROKER)
    (ended,) = feed(core, plain)
    assert isinstance(ended, Ended)
    assert isinstance(ended.error, errors.UnsupportedVersion)
    core = ClientConnection(streams.FETCH, BROKER)
    assert isinstance(feed(core, plain)[0], Greeted)


def test_the_end_comes_once_and_names_the_calls_that_were_not_answered() -> None:
    core = greeted(streams.CALLS, *"abc")
    core.forget(1, "b")
    assert core.closed_by_broker() == [Ended("the broker closed the stream", None, ("a", "c"))]
    assert core.broke("again") == []
    assert feed(core, flat(calls.answer_frame(0, [b""]))) == []
    assert core.close() == ()
    assert not core.may_call


def test_what_came_before_a_frame_that_is_refused_counts() -> None:
    core = greeted(streams.FETCH)
    first, ended = feed(core, message(b"one") + b"\x7f\xff\xff\xff")
    assert first == b"one"
    assert isinstance(ended, Ended)
    assert "announces 2147483647 bytes" in ended.reason


# ---- a dumb twin --------------------------------------------------------------------------------


class Twin:
    """Reads whole conversations of a connection for calls, one frame after the other."""

    def __init__(self, *open_calls: str) -> None:
        self.open = dict(enumerate(open_calls))
        self.end: str | None = None

    def read(self, data: bytes) -> list[tuple[str, ...]]:
        told = []
        while self.end is None and len(data) >= 4:
            size = int.from_bytes(data[:4], "big", signed=True)
            if not 0 <= size <= 1 << 28:
                self.end = "announces"
            elif len(data) < 4 + size:
                break
            else:
                body, data = data[4 : 4 + size], data[4 + size :]
                told += self._frame(body)
        return [*told, ("ended", *self.open.values())] if self.end is not None else told

    def _frame(self, body: bytes) -> list[tuple[str, ...]]:
        number = int.from_bytes(body[1:5], "big")
        if len(body) < 5 or body[0] not in (6, 7) or number not in self.open:
            self.end = "wrong"
            return []
        call = self.open.pop(number)
        return [("answered", call, body[5:].hex()) if body[0] == 6 else ("failed", call)]


def in_short(event: Event[str]) -> tuple[str, ...]:
    match event:
        case Answered(call, response):
            return ("answered", call, response.hex())
        case Failed(call, _):
            return ("failed", call)
        case Ended():
            return ("ended", *event.calls)
    raise AssertionError(event)


def frame_of(kind: str, number: int, size: int) -> bytes:
    match kind:
        case "answer":
            return flat(calls.answer_frame(number, [bytes(range(256)) * (size // 256)]))
        case "failure":
            return flat(calls.failure_frame(number, errors.InvalidRequest("no")))
        case "error":
            return streams.fault_frame(errors.BrokerNotAvailable("stops"))
        case "message":
            return message(b"x")
    return bytes.fromhex(kind)


_FRAMES = st.tuples(
    st.sampled_from(
        ["answer"] * 6 + ["failure"] * 2 + ["error", "message", "00000000", "7fffffff", "0000"]
    ),
    st.integers(0, 4),
    st.sampled_from([0, 256, 1024, 70_000]),
)


@settings(max_examples=50)
@given(frames=st.lists(_FRAMES, max_size=8), step=st.sampled_from([1, 3, 64, 5_000, 1 << 20]))
def test_pieces_of_any_size_say_what_a_dumb_twin_reads(
    frames: list[tuple[str, int, int]], step: int
) -> None:
    core = greeted(streams.CALLS, *"abcd")
    data = b"".join(frame_of(*frame) for frame in frames)
    step = max(step, len(data) // 1_000)  # a byte at a time takes long where there are many
    assert [in_short(event) for event in feed(core, data, step)] == Twin(*"abcd").read(data)


@settings(max_examples=50)
@given(
    bodies=st.lists(st.binary(max_size=200), max_size=6),
    end=st.sampled_from([b"", streams.fault_frame(errors.RequestTimedOut("slow")), b"\0\0\0\1\2"]),
    step=st.integers(1, 50),
)
def test_a_streams_messages_come_whole_up_to_the_end(
    bodies: list[bytes], end: bytes, step: int
) -> None:
    core = greeted(streams.FETCH)
    behind = message(b"behind the end")
    events = feed(core, b"".join(map(message, bodies)) + end + (behind if end else b""), step)
    assert events[: len(bodies)] == bodies
    assert [type(event) for event in events[len(bodies) :]] == ([Ended] if end else [])
