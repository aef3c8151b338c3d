"""Random ids of clusters, topics and log directories."""

import uuid
from collections.abc import Callable

from pylog.model import TopicId, topic_id_from_bytes


def random_id(uuid4: Callable[[], uuid.UUID] = uuid.uuid4) -> TopicId:
    """A random UUID as 22 characters of base64, never one that begins with `-`.

    As Kafka's `Uuid.randomUuid`: an id is typed into commands, where `-` begins an option. The ids
    that Kafka reserves (the metadata topic's, the lost directories') are no version 4 UUIDs.
    """
    while True:
        made = topic_id_from_bytes(uuid4().bytes)
        if not made.startswith("-"):
            return made
