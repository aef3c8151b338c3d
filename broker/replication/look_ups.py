"""Questions about partitions led here whose answers may need to read the logs.

Nobody waits for the disk here: cold pages are read by the pool (`ColdRead`), and then everything is
checked and looked up afresh.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from pylog.model import TopicPartition
from pylog_broker.metadata.messages import Failure
from pylog_broker.replication.effects import ColdRead, Effect
from pylog_broker.replication.fetches import Warmup
from pylog_broker.replication.hosted import HostedPartitions, Missing
from pylog_broker.replication.partition import Partition
from pylog_broker.replication.waiting import WaitingRoom
from pylog_broker.storage.segments.segment_reader import PagesCold

COLD_READS_MAX: Final = 32
"""For one request. Where memory is so short that pages leave it as fast as they come, the look-up
waits for the disk after so many.
"""


class Question(Protocol):
    """The question about one partition."""

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition."""


Q = TypeVar("Q", bound=Question)
A = TypeVar("A")


class LookUps(Generic[Q, A]):
    """The questions of one kind that a broker has been asked."""

    def __init__(
        self,
        hosted: HostedPartitions,
        room: WaitingRoom,
        answer: Callable[[Partition, Q, bool], A],
        refused: Callable[[TopicPartition, Failure], A],
        answered: Callable[[object, tuple[A, ...]], Effect],
    ) -> None:
        """`answer` may raise PagesCold where its last argument, nowait, is true; `refused` is for a
        partition that is not here; `answered` tells a token all answers, in order.
        """
        self._hosted = hosted
        self._room = room
        self._answer = answer
        self._refused = refused
        self._answered = answered
        # token -> questions whose pages are being read, and for the how-many-th time
        self._cold: dict[object, tuple[Sequence[Q], int]] = {}

    def ask(self, questions: Sequence[Q], token: object) -> None:
        """Answer, or ask for cold pages first."""
        self._look_up(questions, token, 0)

    def on_cold_read(self, read: ColdRead) -> None:
        """The pages were read."""
        found = self._cold.pop(read.token, None)
        if found is not None:
            self._look_up(found[0], read.token, found[1])

    def cancel(self, token: object) -> None:
        """Forget a request whose pages are being read."""
        self._cold.pop(token, None)

    def _look_up(self, questions: Sequence[Q], token: object, reads: int) -> None:
        answers: list[A] = []
        cold: list[PagesCold] = []
        for question in questions:
            partition = self._hosted.find(question.topic_partition)
            if isinstance(partition, Missing):
                answers.append(self._refused(question.topic_partition, partition.failure))
                continue
            try:
                answers.append(self._answer(partition, question, reads < COLD_READS_MAX))
            except PagesCold as pages:
                cold.append(pages)
        if cold:
            self._cold[token] = questions, reads + 1
            self._room.outbox.append(ColdRead(token, Warmup(questions, cold)))
        else:
            self._room.outbox.append(self._answered(token, tuple(answers)))
