"""Topics that the cluster denies: when a client may believe it.

A broker that was started a moment ago, or hears of metadata late, may not know a topic yet; the
controller knows every topic that there is. So a client asks its gateway about what a broker does
not know, and believes a broker alone only after a while. The gateway is believed at once, but for
a topic that this client has used: that may be deleted and created again in one go.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final, NamedTuple

from pylog import errors
from pylog.client.cluster.metadata import Address
from pylog.client.cluster.server import Server
from pylog.rpc import apis
from pylog.rpc.v1 import log_pb2

UNKNOWN_TOPIC_GRACE_MS: Final = 3_000
"""The time for which brokers may deny a topic before the client believes them."""
CONFIRM_S_MAX: Final = 0.3
"""The gateway may be gone, or restarting: then brokers' word must do."""


class Denial(NamedTuple):
    """The cluster does not know a topic: since when, and when it said so last (monotonic), and its
    words.
    """

    since_ms: int
    newest_ms: int
    error: errors.PylogError
    sure: bool = False

    def counts(self, patience_ms: int | None = None) -> bool:
        """Whether it is to be believed; by an impatient caller sooner. One answer alone says
        little, however old it is: it may be that of a broker that has just started.
        """
        if self.sure or not self.error.retriable:
            return True
        grace_ms = UNKNOWN_TOPIC_GRACE_MS
        if patience_ms is not None:
            grace_ms = min(grace_ms, patience_ms)
        return self.newest_ms - self.since_ms >= grace_ms


def denied_in(response: log_pb2.MetadataResponse, known: Container[str]) -> list[str]:
    """The topics that the answerer does not know, nor the client."""
    unknown = errors.UnknownTopicOrPartition.code
    return [t.name for t in response.topics if t.error.code == unknown and t.name not in known]


def controller_of(response: log_pb2.MetadataResponse) -> Address | None:
    """The gateway's address in a broker's answer; None where it holds none."""
    if response.gateway or not response.HasField("controller"):
        return None
    return Address(response.controller.host, response.controller.port)


async def confirm(
    response: log_pb2.MetadataResponse, denied: list[str], gateway: Server
) -> frozenset[str]:
    """Ask the gateway of what a broker `denied`: gives those that it does not know either, and
    puts what it says of the others into the broker's `response`.
    """
    request = log_pb2.MetadataRequest(topics=denied)
    try:
        answer = await gateway.call(apis.METADATA, request, CONFIRM_S_MAX)
    except errors.PylogError:
        return frozenset()
    if not answer.gateway or answer.cluster_id != response.cluster_id:
        return frozenset()
    told = {topic.name: topic for topic in answer.topics}
    for topic in response.topics:
        if topic.name in told:
            topic.CopyFrom(told[topic.name])
    return frozenset(denied_in(answer, ()))
