"""Callers that wait for more than a commit: until brokers know, or until they lead nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pylog import errors
from pylog.model import NO_LEADER, BrokerEpoch, BrokerId, Offset
from pylog_broker.controller.effects import Effect, Reply
from pylog_broker.controller.ledger import Ledger
from pylog_broker.controller.sessions import Sessions
from pylog_broker.metadata.admin import (
    ConfigsAltered,
    CreatedTopic,
    GrownTopic,
    PartitionsCreated,
    TopicsCreated,
)
from pylog_broker.metadata.image import MetadataImage, TopicImage
from pylog_broker.metadata.messages import Failure, ShutdownPermitted

Answer = TopicsCreated | PartitionsCreated | ConfigsAltered


@dataclass(frozen=True, slots=True)
class _TopicWait:
    offset: Offset
    until: int
    answer: Answer
    token: object


class TopicWaits:
    """Created topics and changed settings of which the brokers have not all heard.

    A client that creates a topic and writes to it at once would otherwise be sent away by a broker
    that does not know yet that it leads.
    """

    def __init__(self, ledger: Ledger, sessions: Sessions) -> None:
        self._ledger = ledger
        self._sessions = sessions
        self._waits: list[_TopicWait] = []

    def add(
        self,
        offset: Offset,
        until: int,
        answer: Answer,
        token: object,
    ) -> None:
        """Answer when all live brokers have applied `offset`, or at the observed time `until`."""
        self._waits.append(_TopicWait(offset, until, answer, token))

    def deadline(self) -> int | None:
        """The observed time of the next time-out. A wait for the commit alone has none."""
        committed = self._ledger.committed.offset
        return min((w.until for w in self._waits if w.offset <= committed), default=None)

    def settled(self, observed: int) -> list[Effect]:
        """The answers that are due now."""
        if not self._waits:
            return []
        committed = self._ledger.committed.offset
        known = min(committed, self._known_by_all())
        due = [
            wait
            for wait in self._waits
            # An answer before the commit could promise a topic that a crash takes back.
            if wait.offset <= known or (wait.offset <= committed and wait.until <= observed)
        ]
        if not due:
            return []
        self._waits = [wait for wait in self._waits if wait not in due]
        return [Reply(wait.token, self._as_it_is(wait.answer)) for wait in due]

    def _as_it_is(self, answer: Answer) -> Answer:
        if isinstance(answer, TopicsCreated):
            return TopicsCreated(tuple(self._checked(topic) for topic in answer.topics))
        if isinstance(answer, ConfigsAltered):
            return answer
        return PartitionsCreated(tuple(self._checked_growth(topic) for topic in answer.topics))

    def _known_by_all(self) -> Offset:
        """The offset that every live broker has applied."""
        brokers = self._ledger.committed.brokers
        return min(
            (
                session.metadata_offset
                for session in self._sessions
                if session.streams > 0
                and session.broker_id in brokers
                and not brokers[session.broker_id].fenced
            ),
            default=self._ledger.committed.offset,
        )

    def _checked(self, created: CreatedTopic) -> CreatedTopic:
        if created.topic_id is None or created.failure is not None:
            return created
        topic = self._ledger.committed.topics_by_id.get(created.topic_id)
        failure = _without_leader(topic, created.name)
        return replace(created, failure=failure) if failure else created

    def _checked_growth(self, grown: GrownTopic) -> GrownTopic:
        if grown.failure is not None:
            return grown
        topic = self._ledger.committed.topics_by_name.get(grown.name)
        failure = _without_leader(topic, grown.name)
        return replace(grown, failure=failure) if failure else grown


def _without_leader(topic: TopicImage | None, name: str) -> Failure | None:
    """None also when it was deleted meanwhile: it did exist."""
    partitions = () if topic is None else topic.partitions.values()
    waiting = [p.partition for p in partitions if p.leader == NO_LEADER]
    if not waiting:
        return None
    why = f"topic {name} exists, but its partition {waiting[0]} has no leader now"
    return Failure(errors.RequestTimedOut.code, why)


@dataclass(slots=True)
class _Shutdown:
    broker_epoch: BrokerEpoch
    until: int
    tokens: list[object] = field(default_factory=list)


class Shutdowns:
    """Brokers that wait until they lead nothing."""

    def __init__(self) -> None:
        self._shutdowns: dict[BrokerId, _Shutdown] = {}

    def add(self, broker: BrokerId, epoch: BrokerEpoch, until: int, token: object) -> None:
        """A repeated request joins the first, and does not prolong it."""
        known = self._shutdowns.get(broker)
        if known is None:
            self._shutdowns[broker] = _Shutdown(epoch, until)
        elif known.broker_epoch != epoch:
            self._shutdowns[broker] = _Shutdown(epoch, until, known.tokens)
        self._shutdowns[broker].tokens.append(token)

    def deadline(self) -> int | None:
        """The observed time at which the next wait ends."""
        return min((shutdown.until for shutdown in self._shutdowns.values()), default=None)

    def settled(
        self,
        observed: int,
        image: MetadataImage,
        hand_over: Callable[..., int],
    ) -> list[Effect]:
        """Hands over what can be, and answers those that lead nothing any more."""
        effects: list[Effect] = []
        for broker in sorted(self._shutdowns):
            shutdown = self._shutdowns[broker]
            registration = image.brokers.get(broker)
            current = registration is not None and (
                registration.broker_epoch == shutdown.broker_epoch
            )
            if current and hand_over(broker, wait=observed < shutdown.until):
                continue
            del self._shutdowns[broker]
            effects += [Reply(token, ShutdownPermitted(0)) for token in shutdown.tokens]
        return effects
