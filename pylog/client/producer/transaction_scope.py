"""`with producer.transaction()`, and its twin for asyncio."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from pylog import errors


class _Transacts(Protocol):
    def begin_transaction(self) -> None: ...
    def commit_transaction(self) -> None: ...
    def abort_transaction(self) -> None: ...


class _TransactsLater(Protocol):
    async def begin_transaction(self) -> None: ...
    async def commit_transaction(self) -> None: ...
    async def abort_transaction(self) -> None: ...


class TransactionScope:
    """One transaction: begun with the block and committed at its end; aborted where the block, or
    the commit, raises. The error that was raised goes on; after an error that is `fatal` nothing
    can be aborted.
    """

    def __init__(self, producer: _Transacts) -> None:
        self._producer = producer

    def __enter__(self) -> None:
        self._producer.begin_transaction()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            try:
                self._producer.commit_transaction()
            except errors.PylogError as refusal:
                if refusal.abortable:
                    self._producer.abort_transaction()
                raise
        elif not is_fatal(error):
            self._producer.abort_transaction()


class AsyncTransactionScope:
    """The same for `async with`."""

    def __init__(self, producer: _TransactsLater) -> None:
        self._producer = producer

    async def __aenter__(self) -> None:
        await self._producer.begin_transaction()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            try:
                await self._producer.commit_transaction()
            except errors.PylogError as refusal:
                if refusal.abortable:
                    await self._producer.abort_transaction()
                raise
        elif not is_fatal(error):
            await self._producer.abort_transaction()


def is_fatal(error: BaseException) -> bool:
    """Whether the producer is of no more use after it."""
    return isinstance(error, errors.ClientClosed) or (
        isinstance(error, errors.PylogError) and error.fatal
    )
