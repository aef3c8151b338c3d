"""A batch that the user's thread sends by itself: without linger, by a thread that sends now and
then, alone. To wake the loop's thread for one record costs more than the record.

Everything else is the loop's: what comes so fast that it had better go together, what several
threads send, what has to wait for anything, and what one write could not take.
"""

from __future__ import annotations

from typing import Final

from pylog.client.producer.producer_loop import ProducerLoop
from pylog.client.sending.producer_batch import Batch
from pylog.client.sending.send_alone import SendAlone
from pylog.client.sending.send_faults import STUCK_AFTER_MS
from pylog.clock import ticks

PACE_S: Final = 200e-6
"""A thread that opens batches less than this apart sends faster than the loop takes a batch: what
it sends meanwhile had better go together.
"""


class AtHand:
    """At most one batch of a producer; changed under the producer's lock."""

    def __init__(self, loop: ProducerLoop) -> None:
        self.batch: Batch | None = None
        self.is_wanted = True
        """Whether users' threads may send by themselves."""
        self._loop = loop
        self._alone = SendAlone(loop.sender.dispatcher)
        self._opened_at = 0.0

    def opened(self, batch: Batch, *, alone: bool) -> None:
        """A batch is due, or begins to linger: it is at hand, when the thread had better send it by
        itself, as soon as it holds its record; else the loop looks. The lock is held. `alone`: only
        the calling thread sends to the topic.
        """
        loop = self._loop
        now, before = ticks(), self._opened_at
        self._opened_at = now
        if (
            alone
            and self.is_wanted
            and self.batch is None
            and now - before >= PACE_S
            and not loop.accumulator.linger_ms
            and not loop.thread.is_current()
        ):
            self.batch = batch
        else:
            loop.wake()

    def send(self, batch: Batch) -> None:
        """Send the batch at hand on this thread, unless something speaks against it: then the loop
        looks. The lock is not held.
        """
        loop, alone = self._loop, self._alone
        with loop.turn:
            now_ms = loop.clock.monotonic_ms()
            with loop.lock:
                self.batch = None
                leader = loop.cluster.metadata.leader(*batch.topic_partition)
                stream = loop.streams.get(leader.broker) if leader is not None else None
                carrier = stream.free_carrier if stream is not None else None
                if leader is None or stream is None or carrier is None:
                    loop.wake()
                    return
                request = alone.take(now_ms, batch, leader.broker)
                if request is None:
                    loop.wake()
                    return
            try:
                stream.send_here(carrier, loop.outgoing(request))
            except Exception as error:  # noqa: BLE001  as on the loop
                loop.thread.call(loop.not_sent, request, error)
            alone.request = None
            loop.look_within(now_ms, STUCK_AFTER_MS)
        self._opened_at = ticks()

    def failed(self, error: BaseException) -> None:
        """A thread that has, or may have, a batch at hand raises something: Ctrl-C, for example.
        The loop does the steps that the thread did not begin; a step that it did not finish was
        lost on its way.
        """
        loop, alone = self._loop, self._alone
        interrupted = not isinstance(error, Exception)
        with loop.turn, loop.lock:
            if interrupted:
                loop.accumulator.mend()
            elif self.batch is None and alone.request is None:
                return
            self.batch = None
            request, alone.request = alone.request, None
            loop.wake_surely()
        if request is not None:
            loop.thread.call(loop.break_off, request.broker)
