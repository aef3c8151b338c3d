"""`with` and `async with`, for what has a `close`."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol, Self


class _Closes(Protocol):
    def close(self) -> None: ...


class _ClosesLater(Protocol):
    async def close(self) -> None: ...


class Closing:
    """Closed at the end of a `with`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self: _Closes,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


class AsyncClosing:
    """Closed at the end of an `async with`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self: _ClosesLater,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()
