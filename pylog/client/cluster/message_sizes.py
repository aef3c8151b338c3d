"""Messages that are larger than one side takes: which limit was met, and what to do about it.

gRPC tells of it in words, under the status of a server that is busy for a moment. The one is so for
good, the other passes. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Self

from pylog.errors import MessageTooLarge

_IN_GRPC: Final = re.compile(
    r"(CLIENT|SERVER): (Sent|Received) message larger than max \((\d+) vs\. (\d+)\)"
)
_BY_OTHER_WAYS: Final = "client_transport='auto' with client_routing='direct', which does not"


@dataclass(frozen=True, slots=True)
class TooLarge:
    """A message of `size` bytes, where `limit` is the most. `by_server`: it is the server's limit;
    `is_answer`: and else a request.
    """

    size: int
    limit: int
    by_server: bool
    is_answer: bool

    @classmethod
    def told_in(cls, details: str) -> Self | None:
        """The sizes that gRPC tells of a call; None when its fault is another one."""
        found = _IN_GRPC.search(details)
        if found is None:
            return None
        by_server = found[1] == "SERVER"
        is_answer = by_server == (found[2] == "Sent")
        return cls(int(found[3]), int(found[4]), by_server, is_answer)

    def __str__(self) -> str:
        if self.is_answer:
            return (
                f"an answer of {self.size} bytes is larger than the {self.limit} that this client "
                f"takes over gRPC. Ask for less at once (topics by name; records with a smaller "
                f"fetch_max_bytes and max_partition_fetch_bytes), or fetch records by "
                f"{_BY_OTHER_WAYS} use gRPC"
            )
        if self.by_server:
            return (
                f"a request of {self.size} bytes is larger than the {self.limit} that the server "
                f"takes, its socket.request.max.bytes. Send less at once, or raise that"
            )
        return (
            f"a request of {self.size} bytes is larger than the {self.limit} that this client "
            f"sends over gRPC. Send less at once, or records by {_BY_OTHER_WAYS} use gRPC"
        )

    def error(self, where: object) -> MessageTooLarge:
        """The same for the user: `where` is the server."""
        return MessageTooLarge(f"{where}: {self}")
