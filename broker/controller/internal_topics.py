"""Internal topics, which the controller makes when a coordinator asks for one.

Asking is idempotent: a second request is answered with the topic that the first one has made, or
that an older cluster has, with whatever partitions it has. Nothing of it is changed then. An
operator of a cluster that grew hears how to give it more replicas.
"""

from __future__ import annotations

from pylog import errors
from pylog.model import NewTopic
from pylog_broker.controller.effects import Report
from pylog_broker.controller.ledger import Ledger
from pylog_broker.controller.settings import ControllerSettings, InternalTopic
from pylog_broker.controller.topics import Topics, shown
from pylog_broker.metadata.admin import CreateTopics
from pylog_broker.metadata.messages import Failure, InternalTopicEnsured


class InternalTopics:
    """Has internal topics written by `Topics`. Remembers only which it has warned of."""

    def __init__(self, ledger: Ledger, settings: ControllerSettings, topics: Topics) -> None:
        self._ledger = ledger
        self._settings = settings
        self._topics = topics
        self._warned: set[str] = set()

    def ensure(self, name: str) -> tuple[InternalTopicEnsured | Failure, list[Report]]:
        """The topic, which is made if it is not there, and what to tell an operator."""
        wanted = self._settings.internal_topics.get(name)
        if wanted is None:
            known = ", ".join(sorted(self._settings.internal_topics))
            why = f"{shown(name)} is no internal topic that a coordinator has; those are {known}"
            return Failure(errors.InvalidTopic.code, why), []
        found = self._ledger.decided.topics_by_name.get(name)
        reports = []
        if found is None:
            failure = self._make(wanted)
            if failure is not None:
                return failure, []
            found = self._ledger.decided.topics_by_name[name]
            count, factor = wanted.num_partitions, wanted.replication_factor
            what = f"{count} partitions and {factor} replicas of each"
            reports = [Report(f"internal topic {name} is made, with {what}")]
        return InternalTopicEnsured(name, found.topic_id, len(found.partitions)), reports

    def _make(self, wanted: InternalTopic) -> Failure | None:
        registered = len(self._ledger.decided.brokers)
        if registered < wanted.replication_factor:
            return _not_yet(
                wanted.name,
                f"it needs {wanted.replication_factor} replicas, and {registered} brokers are "
                "registered",
            )
        topic = NewTopic(
            wanted.name, wanted.num_partitions, wanted.replication_factor, config=wanted.config
        )
        (created,) = self._topics.create(CreateTopics((topic,), internal=True)).topics
        return created.failure and _not_yet(wanted.name, created.failure.message)

    def on_registered(self) -> list[Report]:
        """A warning of each internal topic with fewer replicas than it would be made with now, once
        in this controller's life, as soon as there are as many brokers.
        """
        image = self._ledger.decided
        reports = []
        for name, wanted in self._settings.internal_topics.items():
            found = image.topics_by_name.get(name)
            if found is None or name in self._warned:
                continue
            replicas = min(len(each.target_replicas) for each in found.partitions.values())
            if replicas < wanted.replication_factor <= len(image.brokers):
                self._warned.add(name)
                reports.append(_too_few(wanted, replicas))
        return reports


def _too_few(wanted: InternalTopic, replicas: int) -> Report:
    name, factor = wanted.name, wanted.replication_factor
    text = (
        f"internal topic {name} has {replicas} replicas of a partition; in a cluster of this size "
        f"it would be made with {factor}: pylog reassign plan {name} --replicas {factor} makes a "
        "plan to that end"
    )
    return Report(text, warning=True)


def _not_yet(name: str, why: str) -> Failure:
    return Failure(
        errors.CoordinatorNotAvailable.code, f"internal topic {name} cannot be made yet: {why}"
    )
