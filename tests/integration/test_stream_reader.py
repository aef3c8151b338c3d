"""The Spark source's reader, without Spark, over real brokers: topics that come, grow and go."""

from __future__ import annotations

import random
import threading

import pytest

from pylog import AdminClient, LocalCluster, NewPartitions, NewTopic, Producer
from pylog.clock import SYSTEM_CLOCK
from tests.fakes.micro_batches import Checkpoint, Run

pytestmark = pytest.mark.integration


class Query:
    """Triggers in a thread of its own until it is stopped; `seen` grows meanwhile."""

    def __init__(self, options: dict[str, str]) -> None:
        self.seen: list[int] = []
        self.fault: Exception | None = None
        self._options = options
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Query:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join(90)

    def after(self, count: int) -> list[int]:
        """The values that were seen, sorted, once they are so many, or after 20 s."""
        end = SYSTEM_CLOCK.monotonic_ms() + 20_000
        while len(self.seen) < count and SYSTEM_CLOCK.monotonic_ms() < end:
            assert self.fault is None
            SYSTEM_CLOCK.sleep(0.05)
        return sorted(self.seen)

    def _run(self) -> None:
        try:
            with Run(self._options, Checkpoint(), sink=self._take) as run:
                while not self._ended.is_set():
                    run.trigger()
        except Exception as fault:  # noqa: BLE001  whoever waits looks at it
            self.fault = fault

    def _take(self, rows: list[tuple[str, int, int, str]]) -> None:
        self.seen.extend(int(row[3]) for row in rows)


@pytest.mark.parametrize("seed", [0, 3])
def test_topics_come_grow_and_go_under_a_running_query(seed: int) -> None:
    """N 2.1's stress: a query by pattern sees every record once, also of topics made anew."""
    rng = random.Random(seed)
    sent: list[int] = []
    counts: dict[str, int] = {}
    with (
        LocalCluster(1) as cluster,
        AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin,
        Query(
            {
                "pylog.bootstrap.servers": cluster.bootstrap_servers,
                "subscribePattern": "^stress-",
                "startingOffsets": "earliest",
                "failOnDataLoss": "false",
                "maxOffsetsPerTrigger": "50",
            }
        ) as query,
    ):
        for step in range(24):
            name = f"stress-{step % 3}"
            if name not in counts:
                counts[name] = rng.randint(1, 3)
                admin.create_topics([NewTopic(name, counts[name], 1)])
            elif rng.random() < 0.5:
                counts[name] += 1
                admin.create_partitions({name: NewPartitions(counts[name])})
            more = range(len(sent), len(sent) + rng.randint(5, 40))
            # One that knew a topic before it was made anew would rather refuse.
            with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                for handle in [producer.send(name, str(number)) for number in more]:
                    handle.result(30)
            sent += more
            if step % 8 == 7:
                assert query.after(len(sent)) == sent
                gone = rng.choice(sorted(counts))
                admin.delete_topics([gone])
                del counts[gone]
        assert query.fault is None
