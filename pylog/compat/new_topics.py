"""Topics that come to be when a program first uses them, as Apache Kafka's brokers make them by
default (`auto.create.topics.enable`); brokers of pylog do not, so the adapters ask for them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pylog import errors
from pylog.client.admin.admin import AdminClient
from pylog.model import NewTopic, is_internal

logger = logging.getLogger(__name__)


class NewTopics:
    """Makes topics that do not exist, once for each name."""

    def __init__(self, admin: AdminClient, timeout_s: float | None = None) -> None:
        """`timeout_s`: how long a call may last; None: `default_api_timeout_ms`."""
        self._admin = admin
        self._timeout_s = timeout_s
        self._known: set[str] = set()

    def ensure(self, topics: Iterable[str]) -> None:
        """Return when these topics are there, with as many partitions and replicas as the cluster
        gives by default. Internal topics are left alone.
        """
        for topic in topics:
            if topic not in self._known and not is_internal(topic):
                self._make(topic)
            self._known.add(topic)

    def _make(self, topic: str) -> None:
        try:
            self._admin.describe_topics([topic], timeout=self._timeout_s)
            return
        except errors.UnknownTopicOrPartition:
            pass
        try:
            self._admin.create_topics([NewTopic(topic, -1)], timeout=self._timeout_s)
        except errors.TopicAlreadyExists:  # another client's, a moment ago
            return
        logger.info("topic %s did not exist, and was made with the cluster's defaults", topic)
