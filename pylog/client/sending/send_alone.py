"""One batch that its own thread sends, past the queue: with nothing before it there is nothing to
decide but whether that may be. Pure.

The thread may be interrupted between any two steps (Ctrl-C). A batch that was being taken is put
back, as if nobody had touched it; one that was taken is `request` until it is written, and is
treated as lost on the way if it never is.
"""

from __future__ import annotations

from pylog.client.sending.dispatcher import Dispatcher
from pylog.client.sending.lanes import Lane
from pylog.client.sending.producer_batch import Batch
from pylog.client.sending.send_events import Effect, SendRequest
from pylog.model import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE


class SendAlone:
    """A way past the queue, owned as the sender is."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.request: SendRequest | None = None
        """Taken, and not known to be written."""
        self._dispatcher = dispatcher

    def take(self, now_ms: int, batch: Batch, broker: int) -> SendRequest | None:
        """The request of this batch, which is on its way with that; None, and nothing is changed,
        when anything else has to be looked at first.
        """
        dispatcher = self._dispatcher
        tp = batch.topic_partition
        lane = dispatcher.lanes.get(tp)
        leader = dispatcher.metadata.leader(*tp)
        if lane is None or leader is None or leader.broker != broker:
            return None
        if (
            dispatcher.is_unsettled
            or dispatcher.settings.acks == 0
            or not dispatcher.accumulator.is_only(batch)
        ):
            return None
        if lane.topic_id != dispatcher.metadata.topic_id(tp.topic):
            return None
        if dispatcher.settings.idempotent and lane.producer_id == NO_PRODUCER_ID:
            return None
        effects: list[Effect] = []
        if not dispatcher.pipes.of(broker).may_take(now_ms):
            return None
        if dispatcher.next_batch(now_ms, tp, broker, effects) is not batch:
            return None
        sequence, correlation = lane.next_sequence, dispatcher.correlation + 1
        try:
            dispatcher.enter(now_ms, tp, batch, broker)
            dispatcher.send(now_ms, broker, (batch,), effects)
            request = effects[0]
            assert isinstance(request, SendRequest)
            self.request = request
        except BaseException:
            self.request = None
            self._undo(batch, lane, broker, sequence, correlation)
            raise
        return request

    def _undo(self, batch: Batch, lane: Lane, broker: int, sequence: int, correlation: int) -> None:
        dispatcher = self._dispatcher
        dispatcher.pipes.forget(broker, correlation)
        if batch in lane.unresolved:
            lane.unresolved.remove(batch)
        if not lane.unresolved:
            dispatcher.busy.pop(batch.topic_partition, None)
        lane.next_sequence = sequence
        batch.producer_id, batch.producer_epoch = NO_PRODUCER_ID, NO_PRODUCER_EPOCH
        batch.base_sequence = NO_SEQUENCE
        batch.attempts = 0
        batch.come_back()
        dispatcher.accumulator.put_back(batch)
