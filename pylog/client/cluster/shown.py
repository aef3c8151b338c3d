"""The look of clients in a notebook or a debugger, and their refusal to leave their process."""

from __future__ import annotations

from typing import NoReturn, Protocol

from pylog.client.cluster.cluster import Cluster


class Shown:
    """Kind, bootstrap addresses, and whether it is closed; of settings nothing else."""

    _closed: bool
    _cluster: Cluster

    def __repr__(self) -> str:
        state = " closed" if self._closed else ""
        where = ",".join(map(str, self._cluster.settings.bootstrap))
        return f"<{type(self).__name__} {where}{state}>"

    def __reduce__(self) -> NoReturn:
        _refuse(self)


class _Twin(Protocol):
    @property
    def _inner(self) -> Shown: ...


class AsyncShown:
    """The same for a client for asyncio, by the one inside."""

    def __repr__(self: _Twin) -> str:
        return repr(self._inner).replace(type(self._inner).__name__, type(self).__name__, 1)

    def __reduce__(self) -> NoReturn:
        _refuse(self)


def _refuse(client: object) -> NoReturn:
    # TypeError, as for files and locks: pickle's own would name a part of gRPC or asyncio.
    raise TypeError(
        f"cannot pickle {client!r}: its connections belong to this process; make a "
        f"{type(client).__name__} in the function that runs in the other process (in Spark, in "
        f"the one that runs on the executors)"
    )
