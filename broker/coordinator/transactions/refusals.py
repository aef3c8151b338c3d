"""Refusals that a newer coordinator might not give. Pure.

A coordinator that was deposed and has not heard of it knows the log up to some offset, and its
successor knows more. The records of what the old one grants are never committed, so nobody hears of
it. A refusal needs no record, and would leave.

Some refusals hold for every log that goes on from here: a run that a newer one has put out stays
out, and an epoch that was raised stays behind. Those leave at once. Any other one waits for a
record that says nothing, which only a coordinator that leads has committed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from pylog.errors import PylogError
from pylog_broker.coordinator.generated.transaction_log import TransactionLogKey
from pylog_broker.coordinator.runtime.decision import Decision, Record, Reply, RequestId

NOBODY: Final = ""
"""No producer has this transactional id."""
PROOF: Final = Record(TransactionLogKey(NOBODY), None)
"""It changes nothing. All of them have one key, whatever was asked for, so the cleaner leaves one
of them to each shard.
"""


class Unproven(Exception):
    """A refusal that is right if this coordinator leads."""

    def __init__(self, refusal: PylogError) -> None:
        super().__init__(refusal)
        self.refusal = refusal


def proven(request_id: RequestId, answer: object) -> Decision:
    """The answer, which leaves when this coordinator has shown that it leads."""
    return Decision([PROOF], [Reply(request_id, answer)])


def decided(request_id: RequestId, decide: Callable[[], Decision]) -> Decision:
    """The decision, or the `proven` refusal where that is Unproven."""
    try:
        return decide()
    except Unproven as unproven:
        return proven(request_id, unproven.refusal)
