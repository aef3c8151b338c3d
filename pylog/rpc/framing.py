"""Frames: 4 bytes of length, then that many bytes. Cut out of a stream without touching a socket.

Small frames are collected in one reused buffer and copied out; a large one is announced by its
length and then received straight into a buffer of its own, so that its bytes are written once.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from pylog.errors import InvalidRequest

BUFFER_BYTES: Final = 64 * 1024
LENGTH_BYTES: Final = 4
JOINED_BYTES_MAX: Final = 8 * 1024
"""Up to here copying costs less than one more element of writev."""
_LENGTH: Final = Struct(">i")

Chunks = list[bytes | bytearray | memoryview]
"""A message in pieces, in order."""


class FrameRefused(InvalidRequest):
    """A frame's length is negative or over the limit; the connection cannot go on."""

    default_message = "a frame's length is negative or over the limit"


def frame(chunks: Chunks) -> Chunks:
    """`chunks` with their length before them, ready for writev; small ones in one piece."""
    size = sum(map(len, chunks))
    length = size.to_bytes(LENGTH_BYTES, "big")
    return [b"".join((length, *chunks))] if size <= JOINED_BYTES_MAX else [length, *chunks]


def _foreign(length: bytes) -> str:
    """What the first four bytes look like when they are not a length of ours."""
    if length[:3] in (b"GET", b"POS", b"PUT", b"HEA", b"PRI", b"OPT", b"DEL"):
        return "; it looks like HTTP"
    if length[0] == 0x16 and length[1] == 0x03:
        return "; it looks like TLS"
    return ""


class FrameCutter:
    """Gives buffers to receive into, and the frames that what was received completes.

    Invariant: either `_large` is None and the bytes not yet given out lie in
    `_buffer[:_end]`, or it is the frame being received and `_filled` bytes of it are there.
    """

    def __init__(self, frame_bytes_max: int, buffer_bytes: int = BUFFER_BYTES) -> None:
        """`buffer_bytes`: what a connection holds on to; a larger frame costs one more read."""
        self.frame_bytes_max = frame_bytes_max
        self._buffer = bytearray(buffer_bytes)
        self._view = memoryview(self._buffer)
        self._end = 0
        self._large: memoryview | None = None
        self._filled = 0

    @property
    def is_inside_frame(self) -> bool:
        """Whether a frame has begun to come that is not whole yet."""
        return self._large is not None or self._end > 0

    def free_buffer(self) -> memoryview:
        """Where the next bytes go; never empty."""
        if self._large is not None:
            return self._large[self._filled :]
        return self._view[self._end :]

    def received(self, count: int) -> list[memoryview]:
        """The frames that `count` more bytes in the last buffer complete, in order.

        Raises FrameRefused, after which the cutter is of no more use.
        """
        if self._large is not None:
            self._filled += count
            if self._filled < len(self._large):
                return []
            whole, self._large = self._large, None
            return [whole]
        view, end, start = self._view, self._end + count, 0
        frames: list[memoryview] = []
        while end - start >= LENGTH_BYTES:
            (size,) = _LENGTH.unpack_from(view, start)
            if not 0 <= size <= self.frame_bytes_max:
                raise self._refused(size, bytes(view[start : start + LENGTH_BYTES]))
            begin = start + LENGTH_BYTES
            stop = begin + size
            if stop <= end:
                frames.append(memoryview(bytes(view[begin:stop])))
                start = stop
                continue
            if size + LENGTH_BYTES > len(view):
                self._large = memoryview(bytearray(size))
                self._filled = end - begin
                self._large[: self._filled] = view[begin:end]
                start = end
            break
        left = end - start
        if left and start:
            view[:left] = bytes(view[start:end])
        self._end = left
        return frames

    def _refused(self, size: int, length: bytes) -> FrameRefused:
        return FrameRefused(
            f"a frame announces {size} bytes; the limit here is "
            f"{self.frame_bytes_max}{_foreign(length)}"
        )
