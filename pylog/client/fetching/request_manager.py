"""The contract between a consumer's request managers and the loop that polls them. Pure.

The consumer's loop is Kafka's since KIP-848: it looks at one manager after the other, sends what
each wants to be sent, and sleeps until the earliest of their deadlines. A manager keeps one concern
(fetches, positions, leaders), decides from events and the time, and knows of the other ones by what
they share: `Positions`.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from pylog.client.fetching.fetch_events import Effect


class Polled(NamedTuple):
    """The result of a poll: requests, in their order, and when to poll again without another event
    (None: never).
    """

    requests: list[Effect]
    deadline_ms: int | None


class RequestManager(Protocol):
    """One concern. Events for one manager alone come by methods of its own: the answers to its
    requests, and the user's calls. User's code that it needs goes into the core's `for_user`; the
    manager is polled again when that has run.
    """

    def poll(self, now_ms: int) -> Polled:
        """Everything that can be decided now."""
