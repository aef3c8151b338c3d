"""A member of a group that says what it is given, what it reads and whether its commits are taken.

`python -m tests.verify.group_member BOOTSTRAP SETTINGS` is one in a process of its own, which can
be killed and stopped: it tells the same in lines, and leaves when its standard input ends.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Protocol

from pylog import Consumer, errors
from pylog.model import TopicPartition
from tests.verify.load import decode

MAX_POLL_INTERVAL_MS = 2_000
SESSION_TIMEOUT_MS = 3_000
HEARTBEAT_INTERVAL_MS = 500


@dataclass(frozen=True, slots=True)
class Settings:
    """The kind of a member. With `commits_first` it commits the records of a poll before they count
    as read: each record at most once; else after: at least once.
    """

    topic: str
    group: str
    protocol: str
    instance_id: str | None = None
    commits_first: bool = False


class Told(Protocol):
    """Hears what becomes of a member."""

    def assigned(self, generation: int, partitions: Sequence[TopicPartition]) -> None:
        """It was given more partitions in that generation."""

    def read(self, numbers: Sequence[int]) -> None:
        """It has read the records with these numbers."""

    def committed(self, taken: bool) -> None:
        """Its commit was taken, or was refused."""


class Reader:
    """The member's loop, for any thread."""

    def __init__(self, bootstrap: str, settings: Settings, told: Told) -> None:
        self._bootstrap = bootstrap
        self._settings = settings
        self._told = told

    def run(self, goes_on: Callable[[], bool]) -> None:
        """Until it is told to end, which it looks at after each poll, or a successor has started.
        While a static member that was killed is not missed yet, it begins again.

        Raises what no member should meet.
        """
        while goes_on():
            try:
                self._live(goes_on)
            except errors.UnreleasedInstanceId:
                continue
            except errors.FencedInstanceId:
                return

    def _live(self, goes_on: Callable[[], bool]) -> None:
        settings = self._settings
        times = {}
        if settings.protocol == "classic":
            times["session_timeout_ms"] = SESSION_TIMEOUT_MS
            times["heartbeat_interval_ms"] = HEARTBEAT_INTERVAL_MS
        with Consumer(
            bootstrap_servers=self._bootstrap,
            group_id=settings.group,
            group_protocol=settings.protocol,
            group_instance_id=settings.instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            max_poll_interval_ms=MAX_POLL_INTERVAL_MS,
            max_poll_records=100,
            **times,
        ) as consumer:
            self._consumer = consumer
            consumer.subscribe(settings.topic, listener=self)
            while goes_on():
                self._step(consumer)

    def _step(self, consumer: Consumer) -> None:
        numbers = [decode(record.value)[1] for record in consumer.poll(0.1)]
        if not numbers:
            return
        if not self._settings.commits_first:
            self._told.read(numbers)
        try:
            consumer.commit()
        except (errors.CommitFailed, errors.RebalanceInProgress):
            self._told.committed(False)  # others read it again
            return
        self._told.committed(True)
        if self._settings.commits_first:
            self._told.read(numbers)

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """The member is given these, in its present generation."""
        generation = self._consumer.group_metadata().generation
        self._told.assigned(generation, partitions)


class _Lines:
    """Tells it to the reader of standard output."""

    def assigned(self, generation: int, partitions: Sequence[TopicPartition]) -> None:
        self._say("assigned", generation, [tuple(tp) for tp in partitions])

    def read(self, numbers: Sequence[int]) -> None:
        self._say("read", numbers)

    def committed(self, taken: bool) -> None:
        self._say("committed", taken)

    def _say(self, *what: object) -> None:
        print(json.dumps(what), flush=True)


def hear(line: str, told: Told) -> None:
    """One line of a member's process."""
    match json.loads(line):
        case ["assigned", generation, partitions]:
            told.assigned(generation, [TopicPartition(topic, n) for topic, n in partitions])
        case ["read", numbers]:
            told.read(numbers)
        case ["committed", taken]:
            told.committed(taken)
        case other:
            raise AssertionError(other)


def command(bootstrap: str, settings: Settings) -> list[str]:
    """The command that starts such a process."""
    said = json.dumps(asdict(settings))
    return [sys.executable, "-m", "tests.verify.group_member", bootstrap, said]


def main() -> None:
    bootstrap, said = sys.argv[1:]
    ends = threading.Event()

    def watch() -> None:
        sys.stdin.read()
        ends.set()

    threading.Thread(target=watch, daemon=True).start()
    Reader(bootstrap, Settings(**json.loads(said)), _Lines()).run(lambda: not ends.is_set())


if __name__ == "__main__":
    main()
