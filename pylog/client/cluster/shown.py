"""How clients look in a notebook or a debugger."""

from __future__ import annotations

from pylog.client.cluster.cluster import Cluster


class Shown:
    """Kind, bootstrap addresses, and whether it is closed; of settings nothing else."""

    _closed: bool
    _cluster: Cluster

    def __repr__(self) -> str:
        state = " closed" if self._closed else ""
        where = ",".join(map(str, self._cluster.settings.bootstrap))
        return f"<{type(self).__name__} {where}{state}>"
