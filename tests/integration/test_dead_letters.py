"""Dead-letter topics of share groups on a running cluster, and settings of groups that change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pylog import (
    AcknowledgeType,
    AdminClient,
    Consumer,
    LocalCluster,
    NewTopic,
    Producer,
    Record,
    ShareConsumer,
    errors,
)
from pylog.clock import SYSTEM_CLOCK
from tests.fakes.waiting import eventually

pytestmark = pytest.mark.integration

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType
ENABLE = "errors.deadletterqueue.group.enable"
NAME = "errors.deadletterqueue.topic.name"
COPY = "errors.deadletterqueue.copy.record.enable"
AUTO_CREATE = "errors.deadletterqueue.auto.create.topics.enable"
PARTITIONS = 3
CONFIG = {
    "offsets.topic.num.partitions": "3",
    "share.coordinator.state.topic.num.partitions": "3",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "500",
    "default.replication.factor": "3",
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(3, config=CONFIG) as running:
        yield running
        for log in sorted((running.data_dir / "logs").iterdir()):
            text = log.read_text()
            assert "Traceback" not in text, text[-5000:]
            assert "a defect" not in text, text[-5000:]


@pytest.fixture(scope="module")
def admin(cluster: LocalCluster) -> Iterator[AdminClient]:
    with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


class Jobs:
    """A topic whose partitions all brokers lead, with records, and a group that reads it."""

    def __init__(self, cluster: LocalCluster, admin: AdminClient, name: str) -> None:
        self.cluster = cluster
        self.admin = admin
        self.name = name
        self.group = f"{name}-group"
        self.dead = f"dlq.{name}"
        admin.create_topics([NewTopic(name, PARTITIONS, 3)])
        self.set(**{"share.auto.offset.reset": "earliest"})

    def set(self, **settings: str | None) -> None:
        self.admin.incremental_alter_configs({("group", self.group): settings})

    def fill(self, count: int) -> None:
        servers = self.cluster.bootstrap_servers
        with Producer(bootstrap_servers=servers, acks="all") as producer:
            for number in range(count):
                producer.send(self.name, b"%d" % number, key=b"k", partition=number % PARTITIONS)

    def consumer(self) -> ShareConsumer:
        return ShareConsumer(
            self.name,
            bootstrap_servers=self.cluster.bootstrap_servers,
            group_id=self.group,
            share_acknowledgement_mode="explicit",
        )

    def work(self, count: int, *kinds: AcknowledgeType) -> list[Record]:
        """Each record is acknowledged as the number in it says, until so many have come."""
        got: list[Record] = []
        deadline_ms = SYSTEM_CLOCK.monotonic_ms() + 60_000
        with self.consumer() as consumer:
            while len(got) < count:
                assert SYSTEM_CLOCK.monotonic_ms() < deadline_ms, f"{len(got)} of {count}"
                for record in consumer.poll(0.5):
                    consumer.acknowledge(record, kinds[int(record.value) % len(kinds)])
                    got.append(record)
                assert set(consumer.commit().values()) <= {None}
        return got

    def dead_letters(self, count: int) -> list[Record]:
        found: list[Record] = []
        with Consumer(
            self.dead,
            bootstrap_servers=self.cluster.bootstrap_servers,
            auto_offset_reset="earliest",
        ) as consumer:
            deadline_ms = SYSTEM_CLOCK.monotonic_ms() + 30_000
            while len(found) < count:
                assert SYSTEM_CLOCK.monotonic_ms() < deadline_ms, f"{len(found)} of {count}"
                found += consumer.poll(0.5)
        return found

    def lag(self) -> int | None:
        lags = [each.lag for each in self.admin.group_lag(self.group)[self.group].values()]
        return None if None in lags else sum(lag or 0 for lag in lags)

    def is_done(self) -> bool:
        return self.lag() == 0

    def told(self, words: str) -> bool:
        logs = (self.cluster.data_dir / "logs").iterdir()
        return any(words in log.read_text() for log in logs)


@pytest.fixture
def jobs(cluster: LocalCluster, admin: AdminClient, request: pytest.FixtureRequest) -> Jobs:
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)
    return Jobs(cluster, admin, name)


def headers(record: Record) -> dict[str, str]:
    return {name: (value or b"").decode() for name, value in record.headers}


def test_what_is_rejected_lies_in_the_dead_letter_topic(jobs: Jobs) -> None:
    jobs.admin.create_topics([NewTopic(jobs.dead, 2, 3, config={ENABLE: "true"})])
    jobs.set(**{NAME: jobs.dead, COPY: "true"})
    jobs.fill(30)
    got = jobs.work(30, ACCEPT, ACCEPT, REJECT, ACCEPT, ACCEPT)
    rejected = {(r.partition, r.offset): r.value for r in got if int(r.value) % 5 == 2}
    found = jobs.dead_letters(len(rejected))
    told = [headers(record) for record in found]
    places = [(int(t["__dlq.errors.partition"]), int(t["__dlq.errors.offset"])) for t in told]
    assert {place: r.value for place, r in zip(places, found, strict=True)} == rejected
    assert {record.key for record in found} == {b"k"}
    assert {t["__dlq.errors.topic"] for t in told} == {jobs.name}
    assert {t["__dlq.errors.group"] for t in told} == {jobs.group}
    assert {t["__dlq.errors.delivery.count"] for t in told} == {"1"}
    assert {t["__dlq.errors.message"] for t in told} == {"Offset rejected by client."}
    assert all(r.partition == place[0] % 2 for r, place in zip(found, places, strict=True))
    eventually(30, jobs.is_done, "nothing is left")


def test_what_was_delivered_too_often_lies_in_a_topic_that_is_made_for_it(jobs: Jobs) -> None:
    jobs.admin.incremental_alter_configs({("broker", ""): {AUTO_CREATE: "true"}})
    try:
        jobs.set(**{NAME: jobs.dead, "share.delivery.count.limit": "2"})
        jobs.fill(6)
        jobs.work(12, RELEASE)
        found = jobs.dead_letters(6)
    finally:
        jobs.admin.incremental_alter_configs({("broker", ""): {AUTO_CREATE: None}})
    assert {(record.key, record.value) for record in found} == {(None, None)}
    assert {headers(r)["__dlq.errors.delivery.count"] for r in found} == {"2"}
    (description,) = jobs.admin.describe_topics([jobs.dead]).values()
    assert len(description.partitions[0].replicas) == 3
    eventually(30, jobs.is_done, "nothing is left")


def test_without_the_topic_the_group_goes_on_and_the_log_says_so(jobs: Jobs) -> None:
    jobs.set(**{NAME: jobs.dead})
    jobs.fill(9)
    jobs.work(9, REJECT)
    eventually(30, jobs.is_done, "nothing is left")
    assert jobs.told(f"are given up: there is no topic '{jobs.dead}'")


def test_names_that_no_dead_letter_topic_has_are_refused(jobs: Jobs) -> None:
    for name in ("jobs", "__x", "dlq.a b"):
        with pytest.raises(errors.InvalidConfig, match=NAME):
            jobs.set(**{NAME: name})


def test_while_the_topic_cannot_be_written_nothing_is_lost(
    jobs: Jobs, cluster: LocalCluster
) -> None:
    config = {ENABLE: "true", "min.insync.replicas": "3"}
    jobs.admin.create_topics([NewTopic(jobs.dead, 1, 3, config=config)])
    jobs.set(**{NAME: jobs.dead, COPY: "true"})
    jobs.fill(9)
    cluster.kill(3)
    try:
        jobs.work(9, REJECT)  # the records' own topic takes two brokers
        eventually(30, lambda: jobs.told(f"dead letters of {jobs.name}-"), "the log says so")
        assert jobs.lag() == 9
        cluster.kill(2)
        cluster.start(2)
    finally:
        cluster.start(3)
    with jobs.consumer() as consumer:  # the present leader finds what was not brought

        def is_done() -> bool:
            assert not list(consumer.poll(0.2))
            return jobs.is_done()

        eventually(60, is_done, "nothing is left")
    found = {record.value for record in jobs.dead_letters(9)}
    assert found == {b"%d" % number for number in range(9)}
