"""HTTP CONNECT at the gateway: names of brokers, and refusals."""

from __future__ import annotations

import pytest

from pylog_broker.gateway.tunnels import (
    ESTABLISHED,
    REASON_BYTES_MAX,
    broker_asked_for,
    not_a_broker,
    unreachable,
)


@pytest.mark.parametrize(
    ("head", "broker"),
    [
        (b"CONNECT broker-3:0 HTTP/1.1\r\nHost: broker-3:0", 3),
        (b"CONNECT broker-12:9092 HTTP/1.0", 12),
        (b"CONNECT example.com:443 HTTP/1.1", None),
        (b"CONNECT 127.0.0.1:22 HTTP/1.1", None),
        (b"CONNECT broker-:0 HTTP/1.1", None),
        (b"CONNECT broker--1:0 HTTP/1.1", None),
        (b"CONNECT broker-99999999999999999999:0 HTTP/1.1", None),
        (b"CONNECT broker-\xff:0 HTTP/1.1", None),
        ("CONNECT broker-\u0663:0 HTTP/1.1".encode(), None),
        (b"CONNECT broker-3:0", None),
        (b"GET broker-3:0 HTTP/1.1", None),
        (b"", None),
    ],
)
def test_only_brokers_have_names_here(head: bytes, broker: int | None) -> None:
    assert broker_asked_for(head) == broker


def test_a_refusal_is_a_whole_goaway_frame_however_long_the_reason() -> None:
    for reason in ("", "why", "ü" * 1000):
        answer = unreachable(reason)
        assert answer.startswith(ESTABLISHED)
        frames = answer.removeprefix(ESTABLISHED)
        assert frames[:9] == b"\0\0\0\x04\0\0\0\0\0"
        size = int.from_bytes(frames[9:12], "big")
        assert frames[12] == 7
        assert len(frames) == 9 + 9 + size
        assert frames[26:] == reason.encode()[:REASON_BYTES_MAX]


def test_anything_else_is_forbidden_in_http() -> None:
    head, _, body = not_a_broker(b"CONNECT example.com:443 HTTP/1.1").partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 403 ")
    assert f"Content-Length: {len(body)}".encode() in head
    assert b"broker-<id>:0" in body
