"""Frames survive any cutting of the stream; bad lengths are refused before allocation."""

from __future__ import annotations

import random
import struct

import pytest

from pylog.rpc.framing import BUFFER_BYTES, GROWTH, LARGE_BYTES_FIRST, FrameCutter, FrameRefused


def feed(cutter: FrameCutter, data: bytes, rng: random.Random) -> list[bytes]:
    frames: list[bytes] = []
    position = 0
    while position < len(data):
        buffer = cutter.free_buffer()
        count = min(len(buffer), len(data) - position, rng.choice((1, 3, 100, 70_000)))
        buffer[:count] = data[position : position + count]
        frames += [bytes(frame) for frame in cutter.received(count)]
        position += count
    return frames


@pytest.mark.parametrize("seed", range(20))
def test_frames_come_out_whole_and_in_order(seed: int) -> None:
    rng = random.Random(seed)
    sizes = (0, 1, 50, BUFFER_BYTES - 5, BUFFER_BYTES - 4, BUFFER_BYTES - 3, BUFFER_BYTES, 900_000)
    sent = [rng.randbytes(rng.choice(sizes)) for _ in range(12)]
    stream = b"".join(len(body).to_bytes(4, "big") + body for body in sent)
    assert feed(FrameCutter(1_000_000), stream, rng) == sent


@pytest.mark.parametrize(
    ("length", "says"),
    [
        (struct.pack(">i", -1), "announces -1 bytes"),
        (struct.pack(">i", 1 << 30), "announces 1073741824 bytes"),
        (struct.pack(">i", 65_537), "the limit here is 65536"),
        (b"GET ", "it looks like HTTP"),
        (b"\x16\x03\x01\x02", "it looks like TLS"),
    ],
)
def test_a_bad_length_is_refused_by_name(length: bytes, says: str) -> None:
    with pytest.raises(FrameRefused, match=says):
        feed(FrameCutter(65_536), length, random.Random(0))


def test_a_buffer_grows_with_what_comes_and_not_with_what_is_announced() -> None:
    size = 100 << 20
    cutter = FrameCutter(size)
    assert feed(cutter, struct.pack(">i", size) + b"x", random.Random(0)) == []
    assert (cutter.held, cutter.missing) == (1, size - 1)
    came = 1
    while came < 4 << 20:
        part = min(came, 100_000)
        assert feed(cutter, bytes(part), random.Random(0)) == []
        came += part
        assert came <= cutter.held <= max(LARGE_BYTES_FIRST, GROWTH * came)
    assert cutter.missing == size - came


def test_a_full_buffer_says_by_how_much_it_must_grow() -> None:
    cutter = FrameCutter(1 << 30)
    feed(cutter, struct.pack(">i", 200_000), random.Random(0))
    assert (cutter.growth, cutter.held) == (LARGE_BYTES_FIRST, 0)
    feed(cutter, b"x" * (LARGE_BYTES_FIRST - 1), random.Random(0))
    assert (cutter.growth, cutter.held) == (0, LARGE_BYTES_FIRST)
    feed(cutter, b"x", random.Random(0))
    assert cutter.growth == 200_000 - LARGE_BYTES_FIRST
    cutter.grow(100)
    assert len(cutter.free_buffer()) == 100
    assert (cutter.growth, cutter.held) == (0, LARGE_BYTES_FIRST + 100)


def test_where_large_frames_have_come_the_next_has_its_buffer_at_once() -> None:
    cutter = FrameCutter(1 << 30)
    message = struct.pack(">i", 900_000) + bytes(900_000)
    assert feed(cutter, message, random.Random(0)) == [bytes(900_000)]
    assert (cutter.growth, cutter.usual_growth, cutter.held) == (0, 0, 0)
    feed(cutter, message[: BUFFER_BYTES // 2], random.Random(0))
    assert cutter.usual_growth == 900_000 - cutter.held > cutter.growth
    feed(cutter, message[BUFFER_BYTES // 2 :], random.Random(0))
    feed(cutter, struct.pack(">i", 1 << 29) + bytes(BUFFER_BYTES), random.Random(0))
    assert cutter.held == 900_000


def test_a_connection_that_never_speaks_costs_no_buffer() -> None:
    assert FrameCutter(1 << 20)._view.nbytes == 0
