"""Frames survive any cutting of the stream; bad lengths are refused before allocation."""

from __future__ import annotations

import random
import struct

import pytest

from pylog.rpc.framing import BUFFER_BYTES, FrameCutter, FrameRefused


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
    sizes = (0, 1, 50, BUFFER_BYTES - 5, BUFFER_BYTES - 4, BUFFER_BYTES - 3, BUFFER_BYTES, 300_000)
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
