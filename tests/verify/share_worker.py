"""Share consumers in a process of their own that tell what they get and what becomes of it.

`python -m tests.verify.share_worker BOOTSTRAP SETTINGS`: as many consumers as the settings say,
each on a thread. They can be killed and stopped; they leave when standard input ends. Each line is
a list: what it tells of, the time (monotonic, of the machine; of records that were got, when the
poll began), and records as [partition, offset, delivery count]. Accepted records are told with the
time at which the commit began.
"""

from __future__ import annotations

import json
import random
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pylog import AcknowledgeType, Record, ShareConsumer
from pylog.clock import SYSTEM_CLOCK
from pylog.model import TopicPartition

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType


@dataclass(frozen=True, slots=True)
class Settings:
    """The kind of the consumers. Of a hundred records so many fail, and are released or renewed,
    and so many are rejected; one in `poison_every` is released whenever it comes; 0: none.
    """

    topic: str
    group: str
    seed: int
    consumers: int = 3
    max_poll_records: int = 100
    failing_percent: int = 2
    rejecting_percent: int = 0
    poison_every: int = 0


class Worker:
    """One consumer's loop."""

    def __init__(self, bootstrap: str, settings: Settings, number: int) -> None:
        self._bootstrap = bootstrap
        self._settings = settings
        self._rng = random.Random(f"{settings.seed}-{number}")

    def run(self, ends: threading.Event) -> None:
        """Until it is told to end."""
        settings = self._settings
        with ShareConsumer(
            settings.topic,
            bootstrap_servers=self._bootstrap,
            group_id=settings.group,
            share_acknowledgement_mode="explicit",
            share_acquire_mode=self._rng.choice(("record_limit", "batch_optimized")),
            max_poll_records=settings.max_poll_records,
        ) as consumer:
            while not ends.is_set():
                self._step(consumer)

    def _step(self, consumer: ShareConsumer) -> None:
        begin_ms = SYSTEM_CLOCK.monotonic_ms()
        records = list(consumer.poll(0.2))
        if not records:
            return
        say("got", places(records), begin_ms)
        by_kind: dict[AcknowledgeType, list[Record]] = {kind: [] for kind in AcknowledgeType}
        for record in records:
            kind = self._kind(record)
            consumer.acknowledge(record, kind)
            by_kind[kind].append(record)
        begin_ms = SYSTEM_CLOCK.monotonic_ms()
        say("accepting", places(by_kind[ACCEPT]), begin_ms)
        say("rejecting", places(by_kind[REJECT]), begin_ms)
        results = consumer.commit(timeout=20.0)

        def taken(kind: AcknowledgeType) -> list[Record]:
            named = ((TopicPartition(r.topic, r.partition), r) for r in by_kind[kind])
            return [record for tp, record in named if results[tp] is None]

        say("accepted", [begin_ms, places(taken(ACCEPT))])
        say("rejected", places(taken(REJECT)))
        for tp, error in results.items():
            if error is not None:
                say("refused", [type(error).__name__, tp.partition])

    def _kind(self, record: Record) -> AcknowledgeType:
        settings = self._settings
        if settings.poison_every and record.offset % settings.poison_every == 0:
            return RELEASE
        draw = self._rng.random() * 100
        if draw < settings.failing_percent:
            return self._rng.choice((RELEASE, RENEW))
        if draw < settings.failing_percent + settings.rejecting_percent:
            return REJECT
        return ACCEPT


def places(records: Sequence[Record]) -> list[tuple[int, int, int | None]]:
    """The partition and the offset of each record, and its delivery count."""
    return [(record.partition, record.offset, record.delivery_count) for record in records]


_says = threading.Lock()


def say(what: str, told: object, at_ms: int | None = None) -> None:
    """One line, at once."""
    line = json.dumps([what, SYSTEM_CLOCK.monotonic_ms() if at_ms is None else at_ms, told])
    with _says:
        print(line, flush=True)


def command(bootstrap: str, settings: Settings) -> list[str]:
    """The command that starts such a process."""
    said = json.dumps(asdict(settings))
    return [sys.executable, "-m", "tests.verify.share_worker", bootstrap, said]


def main() -> int:
    bootstrap, said = sys.argv[1:]
    settings = Settings(**json.loads(said))
    ends = threading.Event()
    faults: list[BaseException] = []

    def run(number: int) -> None:
        try:
            Worker(bootstrap, settings, number).run(ends)
        except BaseException as error:  # noqa: BLE001 -- told by the status
            faults.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(settings.consumers)]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    ends.set()
    for thread in threads:
        thread.join()
    for fault in faults:
        print(repr(fault), file=sys.stderr)
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
