"""The dead letters of share groups, by a plain twin: the committed contents of their topic.

A leader writes a letter of a record alone that is archiving by the log of its group's state, with
the count that it has there, and with the record's key and value where the group wants a copy. What
is said to be in the topic is there.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from pylog.model import TopicId, TopicPartition
from pylog.records.batch import Buffer
from pylog.records.reader import iter_records
from pylog.records.record import Record
from pylog_broker.group_settings import SettingsByGroup
from pylog_broker.share import dead_letters
from pylog_broker.share.sessions import SharePartitionKey
from tests.sim.contents import fingerprint
from tests.sim.violation import Violation

if TYPE_CHECKING:
    from tests.sim.cluster import Cluster

DEAD_LETTERS = "dlq.t"
"""The topic."""


class Letter(NamedTuple):
    """A record that a group has given up. A topic of groups with dead letters is not made anew, so
    its name is its id.
    """

    group_id: str
    topic: str
    partition: int
    offset: int


class ShareLetters:
    """All of a run's."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._sometimes = cluster.sometimes
        self._given_up: dict[Letter, set[int]] = {}
        """With the delivery counts that they were given up with: an administrator who has the group
        begin anew may bring about several."""
        self._of_batches: dict[int, list[Letter]] = {}  # by their fingerprints
        self._batches: Counter[int] = Counter()  # so many of each partition are taken in
        self._there: Counter[Letter] = Counter()

    def _letter(self, key: SharePartitionKey, offset: int) -> Letter | None:
        """None: its topic is gone."""
        topic = self._cluster.image.topics_by_id.get(key.topic_id)
        if topic is None:
            return None
        return Letter(key.group_id, topic.name, key.partition, offset)

    def given_up(self, key: SharePartitionKey, offset: int, count: int) -> None:
        """The record is archiving, and that is committed."""
        letter = self._letter(key, offset)
        if letter is not None:
            self._given_up.setdefault(letter, set()).add(count)

    def was_given_up(self, key: SharePartitionKey, offset: int) -> bool:
        """Whether that was ever committed."""
        return self._letter(key, offset) in self._given_up

    def sends(
        self, broker: str, batch: Buffer, name: TopicPartition, settings: SettingsByGroup
    ) -> None:
        """A broker is about to append a batch of them."""
        letters = []
        for record in iter_records(batch, *name):
            letter, count = _letter_of(record)
            if count not in self._given_up.get(letter, ()):
                found = self._given_up.get(letter)
                raise Violation(
                    "S", f"{broker} writes {letter}, delivered {count}x; it is given up as {found}"
                )
            wanted = settings.of(letter.group_id).errors_deadletterqueue_copy_record_enable
            self._check_copy(broker, letter, record, copies=wanted)
            letters.append(letter)
        self._of_batches[fingerprint(batch)] = letters

    def _check_copy(self, broker: str, letter: Letter, record: Record, *, copies: bool) -> None:
        topic_id = self._cluster.image.topics_by_name[letter.topic].topic_id
        ghost = self._cluster.shadows.ghost(topic_id, letter.partition)
        found = ghost.record_at(letter.offset)
        wanted = (None, None) if found is None or not copies else found[:2]
        told = (record.key, record.value)
        if told == wanted:
            self._sometimes["shares: dead letter with its record"] += copies
        elif told == (None, None) and letter.offset < ghost.deleted_to:
            self._sometimes["shares: dead letter of what is gone"] += 1
        else:
            raise Violation("S", f"{broker} writes {letter} with {told}, and not {wanted}")

    def is_there(self, key: SharePartitionKey, offset: int) -> bool:
        """Whether the topic has the record's letter."""
        topic = self._cluster.image.topics_by_name.get(DEAD_LETTERS)
        for number in () if topic is None else topic.partitions:
            assert topic is not None
            self._catch_up(topic.topic_id, number)
        letter = self._letter(key, offset)
        return letter is not None and self._there[letter] > 0

    def _catch_up(self, topic_id: TopicId, number: int) -> None:
        ghost = self._cluster.shadows.ghost(topic_id, number)
        while self._batches[number] < len(ghost.committed):
            for letter in self._of_batches[ghost.committed[self._batches[number]].mark]:
                self._sometimes["shares: dead letter there twice"] += letter in self._there
                self._there[letter] += 1
            self._batches[number] += 1


def _letter_of(record: Record) -> tuple[Letter, int]:
    """The record that it stands for, and how often that was delivered."""
    told = {name: (text or b"").decode() for name, text in record.headers}
    letter = Letter(
        told[dead_letters.GROUP_HEADER],
        told[dead_letters.TOPIC_HEADER],
        int(told[dead_letters.PARTITION_HEADER]),
        int(told[dead_letters.OFFSET_HEADER]),
    )
    return letter, int(told[dead_letters.DELIVERY_COUNT_HEADER])
