"""B-S30 on a real cluster: topics' policies change while they are written, cleaned and read.

`python -m tests.verify.policy_changes [--changes N] [--seed S]`. Three brokers; in each topic a
producer writes keys over and over and a consumer reads all there is, while retention, compaction
and segment sizes change at random. Each topic is judged by what was in force (`policy_judge`). Now
and then a broker is killed and started again. At the end, after a restart of all, compaction and
retention must still do their work on every topic, and so must every reader.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from pylog import AdminClient, LocalCluster, NewTopic, TopicPartition
from pylog.clock import SYSTEM_CLOCK
from tests.verify.policy_judge import Found, Judge, Policy, Written
from tests.verify.policy_load import KEYS, KeyedLoad, Reader, read_all

PATIENCE_MS: Final = 90_000
_CONFIG: Final = {
    "min.insync.replicas": "2",
    "log.initial.task.delay.ms": "0",
    "log.retention.check.interval.ms": "100",
    "log.cleaner.backoff.ms": "50",
}
_SEGMENT_BYTES: Final = 4096
_TAIL: Final = 4 * _SEGMENT_BYTES // 100
"""More records than the active segment holds at the end."""
_AROUND: Final = 40
"""Lines of a log that are shown from one that nobody should have to read: a traceback is whole."""


class Topic:
    """One topic of one partition, with its producer, its reader and its judge."""

    def __init__(self, name: str, bootstrap: str, *, rate: int, seed: int) -> None:
        self.name = name
        self.judge = Judge()
        self.gone = 0
        self._bootstrap = bootstrap
        self._rng = random.Random(seed)
        self.load = KeyedLoad(bootstrap, name, self.judge.written, rate=rate, seed=seed)
        self.reader = Reader(bootstrap, name)

    # ---- changes --------------------------------------------------------------------------------

    def change(self, admin: AdminClient) -> None:
        """Other settings, chosen at random; what is not chosen is as it was, or the default."""
        rng = self._rng
        cleanup = rng.choice(["delete", "compact", "compact,delete"])
        policy = Policy(
            deletes="delete" in cleanup,
            compacts="compact" in cleanup,
            retention_ms=rng.choice([-1, -1, 1_500, 6_000]),
            retention_bytes=rng.choice([-1, -1, 20_000, 100_000]),
            delete_retention_ms=rng.choice([0, 0, 60_000]),
            min_lag_ms=rng.choice([0, 0, 2_000]),
        )
        others = {
            "segment.bytes": str(rng.choice([_SEGMENT_BYTES, 16_384, 65_536])),
            "segment.ms": rng.choice([None, "700"]),
            "min.cleanable.dirty.ratio": rng.choice(["0.0", "0.1", "0.5"]),
            "max.compaction.lag.ms": rng.choice([None, "3000"]),
            "file.delete.delay.ms": rng.choice(["0", "300", None]),
            "index.interval.bytes": rng.choice(["200", "4096"]),
        }
        self.alter(admin, policy, cleanup, others)

    def alter(
        self, admin: AdminClient, policy: Policy, cleanup: str, others: dict[str, str | None]
    ) -> None:
        """These settings, and the judge knows."""
        self.judge.changing(policy)
        settings = {
            "cleanup.policy": cleanup,
            "retention.ms": str(policy.retention_ms),
            "retention.bytes": str(policy.retention_bytes),
            "delete.retention.ms": str(policy.delete_retention_ms),
            "min.compaction.lag.ms": str(policy.min_lag_ms),
        }
        admin.incremental_alter_configs({("topic", self.name): settings | others})
        self.judge.changed(SYSTEM_CLOCK.wall_ms())

    # ---- judging --------------------------------------------------------------------------------

    def look_at_start(self, admin: AdminClient) -> int:
        """The start of the log, judged."""
        partition = TopicPartition(self.name, 0)
        before = self._leader(admin)
        found = admin.list_offsets({partition: "earliest"})[partition]
        leader = before[0] if before == self._leader(admin) else None
        start = 0 if found is None else found.offset
        self.judge.on_start(start, SYSTEM_CLOCK.wall_ms(), leader)
        return start

    def _leader(self, admin: AdminClient) -> tuple[int | None, int]:
        described = admin.describe_topics(self.name)[self.name].partitions[0]
        return described.leader, described.leader_epoch

    def look_at_records(self, admin: AdminClient) -> list[Found]:
        """Every record, judged."""
        found, end = read_all(self._bootstrap, self.name)
        begin = self.look_at_start(admin)
        self.gone = self.judge.on_read(found, begin, end, SYSTEM_CLOCK.wall_ms())
        return found

    def judge_reader(self, admin: AdminClient) -> None:
        """Judge the records that the reader saw meanwhile."""
        judge = self.judge
        sent = {w.offset: w for w in judge.written if w.offset is not None}
        for record in self.reader.found:
            written = sent.get(record.offset)
            if written is not None and (record.key, record.value) != (written.key, written.value):
                judge.broken.append(f"the reader got {record}, written was {written}")
        begin = self.look_at_start(admin)
        now_ms = SYSTEM_CLOCK.wall_ms()
        judge.on_read(self.reader.found, begin, self.reader.position, now_ms, slowly=True)
        judge.broken += self.reader.faults

    def superseded(self, found: Sequence[Found]) -> int:
        """Records below the tail that compaction has left to do."""
        end = max((w.offset or 0) for w in self.judge.written) - _TAIL
        below = [each for each in found if each.offset < end]
        return len(below) - len({each.key for each in below})


class Campaign:
    """The cluster, its topics, and what is done to them. Used from one thread."""

    def __init__(self, folder: Path, *, topics: int, rate: int, seed: int) -> None:
        self.rng = random.Random(seed)
        self.kills = 0
        self.passes = 0
        self.cluster = LocalCluster(3, data_dir=folder, config=_CONFIG)
        self.bootstrap = self.cluster.bootstrap_servers
        self.admin = AdminClient(bootstrap_servers=self.bootstrap)
        names = [f"topic-{number}" for number in range(topics)]
        self.admin.create_topics([NewTopic(name, 1, 3) for name in names])
        self.topics = [
            Topic(name, self.bootstrap, rate=rate, seed=self.rng.randrange(2**32)) for name in names
        ]

    def run(self, changes: int, kill_each: int) -> None:
        """The changes, with a look at everything now and then."""
        for number in range(1, changes + 1):
            topic = self.rng.choice(self.topics)
            topic.change(self.admin)
            SYSTEM_CLOCK.sleep(self.rng.choice([0.05, 0.3, 1.0]))
            for each in self.topics:
                each.look_at_start(self.admin)
            if number % 5 == 0:
                topic.look_at_records(self.admin)
            if kill_each and number % kill_each == 0:
                victim = self.rng.choice(self.cluster.brokers)
                self.cluster.kill(victim)
                self.cluster.start(victim)
                self.kills += 1

    def finish(self) -> None:
        """Check all that must still work; every topic is judged before, after a restart, and after
        each check."""
        for topic in self.topics:
            topic.load.stop()
            self.wait(
                lambda topic=topic: topic.reader.position >= self.end_of(topic),  # type: ignore[misc]
                f"{topic.name}: its reader does not get to the end",
                topic,
            )
            topic.look_at_records(self.admin)
        self.cluster.restart()
        for topic in self.topics:
            topic.look_at_records(self.admin)
            self.compaction_goes_on(topic)
            topic.judge_reader(self.admin)
            self.retention_goes_on(topic)
            if topic.load.failed:
                topic.judge.broken.append(f"sends failed: {topic.load.failed[:3]}")

    def compaction_goes_on(self, topic: Topic) -> None:
        """Below the active segment there is one record of each key in the end."""
        compact = Policy(deletes=False, compacts=True)
        others = {"segment.bytes": str(_SEGMENT_BYTES), "min.cleanable.dirty.ratio": "0.0"}
        topic.alter(self.admin, compact, "compact", {**others, "max.compaction.lag.ms": None})
        for number in range(_TAIL):
            topic.load.send(number % KEYS)
        topic.load.flush()
        self.wait(
            lambda: topic.superseded(topic.look_at_records(self.admin)) <= 0,
            f"{topic.name}: compaction does not go on",
            topic,
        )

    def retention_goes_on(self, topic: Topic) -> None:
        """In the end nothing is left."""
        topic.alter(self.admin, Policy(retention_ms=1), "delete", {})
        self.wait(
            lambda: topic.look_at_start(self.admin) == self.end_of(topic),
            f"{topic.name}: retention does not go on",
            topic,
        )

    def end_of(self, topic: Topic) -> int:
        """The end of the log."""
        partition = TopicPartition(topic.name, 0)
        found = self.admin.list_offsets({partition: "latest"})[partition]
        assert found is not None
        return found.offset

    def wait(self, done: Callable[[], bool], why: str, topic: Topic) -> None:
        """Until it is so; else that is one promise broken."""
        deadline = SYSTEM_CLOCK.monotonic_ms() + PATIENCE_MS
        while not done():
            if SYSTEM_CLOCK.monotonic_ms() > deadline:
                topic.judge.broken.append(why)
                return
            SYSTEM_CLOCK.sleep(0.2)

    def logged(self) -> list[str]:
        """Lines of the brokers' logs that nobody should have to read, each with those around it."""
        bad = ("Traceback", "cannot be cleaned", "failed unexpectedly")
        found = []
        for log in sorted((self.cluster.data_dir / "logs").iterdir()):
            lines = log.read_text().splitlines()
            for at, line in enumerate(lines):
                if any(b in line for b in bad):
                    around = lines[max(0, at - 2) : at + _AROUND]
                    found.append(f"{log.name}: {line}\n  " + "\n  ".join(around))
        return found

    def close(self) -> None:
        """End it all."""
        for topic in self.topics:
            topic.load.close()
            topic.reader.close()
        self.admin.close()
        self.cluster.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every promise was kept."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=300)
    parser.add_argument("--topics", type=int, default=3)
    parser.add_argument("--rate", type=int, default=100, help="records a second in each topic")
    parser.add_argument("--kill-each", type=int, default=40, help="changes; 0: never")
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else random.randrange(2**31)
    begun_ms = SYSTEM_CLOCK.monotonic_ms()
    with tempfile.TemporaryDirectory(prefix="pylog-policies-") as name:
        campaign = Campaign(
            Path(name) / "data", topics=options.topics, rate=options.rate, seed=seed
        )
        try:
            campaign.run(options.changes, options.kill_each)
            written = [w for topic in campaign.topics for w in topic.judge.written]
            campaign.finish()
            logged = campaign.logged()
        finally:
            campaign.close()
    broken = [line for topic in campaign.topics for line in topic.judge.broken] + logged
    for line in broken[:20]:
        print(line)
    print(
        f"seed {seed}: {options.changes} changes of policy on {options.topics} topics, "
        f"{campaign.kills} brokers killed; {acknowledged(written):,} records acknowledged, "
        f"log starts moved {sum(t.judge.starts_moved for t in campaign.topics)} times, "
        f"{sum(t.gone for t in campaign.topics):,} records compacted away at the end, readers got "
        f"{sum(len(t.reader.found) for t in campaign.topics):,}; {len(broken)} promises broken; "
        f"{(SYSTEM_CLOCK.monotonic_ms() - begun_ms) / 1000:.0f} s"
    )
    return 1 if broken else 0


def acknowledged(written: Sequence[Written]) -> int:
    """The number of them that were acknowledged."""
    return sum(record.offset is not None for record in written)


if __name__ == "__main__":
    sys.exit(main())
