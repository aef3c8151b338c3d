"""Frames: 4 bytes of length, then that many bytes. Cut out of a stream without touching a socket.

Small frames are collected in one reused buffer and copied out. A large one is received straight
into a buffer of its own, which grows with what has come: a peer that announces much and sends
little gets little memory for it. Where frames of a size have come before, the buffer has that size
at once, so that in a steady stream each byte is written once.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final

from pylog.errors import InvalidRequest

BUFFER_BYTES: Final = 64 * 1024
LENGTH_BYTES: Final = 4
LARGE_BYTES_FIRST: Final = 64 * 1024
"""The first size of a large frame's buffer, on a connection that has sent none."""
GROWTH: Final = 4
"""A buffer is at most so many times what has come; growing copies a third of a frame in all."""
JOINED_BYTES_MAX: Final = 8 * 1024
"""Up to here copying costs less than one more element of writev."""
_LENGTH: Final = Struct(">i")

Chunks = list[bytes | bytearray | memoryview]
"""A message in pieces, in order."""


class FrameRefused(InvalidRequest):
    """A frame's length is negative or over the limit; the connection cannot go on."""

    default_message = "a frame's length is negative or over the limit"
    whole: Sequence[memoryview] = ()
    """The frames that were whole before it."""


def frame(chunks: Chunks) -> Chunks:
    """`chunks` with their length before them, ready for writev; small ones in one piece."""
    size = sum(map(len, chunks))
    length = size.to_bytes(LENGTH_BYTES, "big")
    return [b"".join((length, *chunks))] if size <= JOINED_BYTES_MAX else [length, *chunks]


def _foreign(length: bytes) -> str:
    """The protocol of a peer whose first four bytes are no length of ours."""
    if length[:3] in (b"GET", b"POS", b"PUT", b"HEA", b"PRI", b"OPT", b"DEL"):
        return "; it looks like HTTP"
    if length[0] == 0x16 and length[1] == 0x03:
        return "; it looks like TLS"
    return ""


class FrameCutter:
    """Gives buffers to receive into, and the frames that what was received completes.

    Invariant: either `_large` is None and the bytes not yet given out lie in `_buffer[:_end]`, or
    it holds the first `_filled` bytes of a frame of `_size`, and is no longer than that.
    """

    def __init__(self, frame_bytes_max: int, buffer_bytes: int = BUFFER_BYTES) -> None:
        """`buffer_bytes`: what a connection holds on to; a larger frame costs one more read."""
        self.frame_bytes_max = frame_bytes_max
        self.held = 0
        """Bytes of the large frame's buffer; 0: none is being received."""
        self._buffer_bytes = buffer_bytes
        self._view = memoryview(b"")  # made when something comes: many connections never speak
        self._end = 0
        self._large: memoryview | None = None
        self._size = 0
        self._filled = 0
        self._usual = 0  # the size of the last large frame that came whole

    @property
    def is_inside_frame(self) -> bool:
        """Whether a frame has begun to come that is not whole yet."""
        return self._large is not None or self._end > 0

    @property
    def missing(self) -> int:
        """Bytes that a large frame still lacks; 0: none is being received."""
        return self._size - self._filled if self._large is not None else 0

    @property
    def growth(self) -> int:
        """The bytes by which the large frame's buffer must grow before more can come; 0: not yet.
        They follow from what has come, and not from the size of earlier such frames.
        """
        if self._large is None or self._filled < self.held:
            return 0
        return min(self._size, max(LARGE_BYTES_FIRST, GROWTH * self._filled)) - self.held

    @property
    def usual_growth(self) -> int:
        """`growth`, to the size of the last large frame if that is more."""
        growth = self.growth
        return max(growth, min(self._size, self._usual) - self.held) if growth else 0

    def grow(self, more: int) -> None:
        """Make the large frame's buffer larger by so much. A caller that asks for a buffer
        without this call has it grow as usual.
        """
        before, self._large = self._large, memoryview(bytearray(self.held + more))
        assert before is not None
        self._large[: self._filled] = before[: self._filled]
        self.held += more

    def free_buffer(self) -> memoryview:
        """The space for the next bytes; never empty."""
        if self._large is not None:
            if self._filled == self.held:
                self.grow(self.usual_growth)
            return self._large[self._filled :]
        if not self._view:
            self._view = memoryview(bytearray(self._buffer_bytes))
        return self._view[self._end :]

    def received(self, count: int) -> list[memoryview]:
        """The frames that `count` more bytes in the last buffer complete, in order.

        Raises FrameRefused, after which the cutter is of no more use.
        """
        if self._large is not None:
            self._filled += count
            if self._filled < self._size:
                return []
            whole, self._large, self.held = self._large, None, 0
            self._usual = self._size
            return [whole]
        view, end, start = self._view, self._end + count, 0
        frames: list[memoryview] = []
        while end - start >= LENGTH_BYTES:
            (size,) = _LENGTH.unpack_from(view, start)
            if not 0 <= size <= self.frame_bytes_max:
                refused = self._refused(size, bytes(view[start : start + LENGTH_BYTES]))
                refused.whole = frames
                raise refused
            begin = start + LENGTH_BYTES
            stop = begin + size
            if stop <= end:
                frames.append(memoryview(bytes(view[begin:stop])))
                start = stop
                continue
            if size + LENGTH_BYTES > len(view):
                self._size, self._filled = size, end - begin
                self._large, self.held = memoryview(bytes(view[begin:end])), end - begin
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
