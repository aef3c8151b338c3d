"""The origin of a request, as an edge describes it to the handlers."""

from __future__ import annotations

from typing import Final, NamedTuple

ANONYMOUS: Final = "User:ANONYMOUS"
"""Kafka's name for a client that has not said who it is."""
CLIENT_ID_CHARS_MAX: Final = 255
"""The most characters of a client's id, which is its own choice. A longer one is cut: only log
lines, metrics and quotas use it."""
SOFTWARE_CHARS_MAX: Final = 64
"""The most characters of the name of a client's software, and of the version."""


class RequestContext(NamedTuple):
    """One connection's, or one call's where calls share connections.

    `listener`: the name of the port that the client came to. `address`: the host of its other end,
    without a port; `connection`: the same with one, as lines tell it. `client_id`, and its
    software's name and version: as the client says, maybe empty.
    """

    listener: str
    address: str
    connection: str
    client_id: str = ""
    software_name: str = ""
    software_version: str = ""
    principal: str = ANONYMOUS
    api_version: int = 0
    """The version of the call's API, as the greetings agreed; 0 over gRPC, where nobody tells
    versions.
    """

    @property
    def place(self) -> str:
        """The connection among those of all listeners, while it lasts."""
        return f"{self.listener}/{self.connection}"


def bounded_software(text: str) -> str:
    """As much of a software's name or version as is looked at."""
    return text[:SOFTWARE_CHARS_MAX]


def bounded_client_id(client_id: str) -> str:
    """As much of it as is looked at."""
    return client_id[:CLIENT_ID_CHARS_MAX]
