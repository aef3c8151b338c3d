"""The look of clients in a notebook or a debugger, and their refusal to leave their process."""

from __future__ import annotations

from typing import NoReturn

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
        # TypeError, as for files and locks: pickle's own would name a part of gRPC or asyncio.
        raise TypeError(
            f"cannot pickle {self!r}: its connections belong to this process; make a "
            f"{type(self).__name__} in the function that runs in the other process (in Spark, in "
            f"the one that runs on the executors)"
        )
