"""Full disks: writes are refused by name, reads go on, and writes resume when there is room."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Final

from pylog import NewTopic, Producer, TopicPartition
from pylog.clock import SYSTEM_CLOCK
from pylog.errors import PylogError, RetriableError
from tests.verify.disks_mounts import MIB, SmallDisk
from tests.verify.disks_stage import BROKERS, Blow, NotWithin, Stage, now_ms, wait_until
from tests.verify.load import Ack, check, encode, wrongs

RESUME_SECONDS: Final = 10.0
BULK_BYTES: Final = 2 * MIB
BULK_SEGMENT_BYTES: Final = MIB // 4
FILL_ATTEMPTS: Final = 5
PROBE_SIZE: Final = 2_000
BULK_SIZE: Final = 10_000


class Prober:
    """Sends numbered records and waits for each; knows which were acknowledged, as `check` wants.

    Its topic has one replica per partition, so no other broker can take over for a full disk. For
    use from several threads, as long as each partition has its own.
    """

    def __init__(self, servers: str, topic: str, partitions: int, size: int) -> None:
        self.topic, self.partitions, self.name = topic, partitions, "probe"
        self.acks: list[Ack] = []
        self.sent = 0
        self._size = size
        self._counting = Lock()
        self._producer = Producer(
            bootstrap_servers=servers,
            acks="all",
            linger_ms=0,
            delivery_timeout_ms=1_500,
            request_timeout_ms=1_000,
            retry_backoff_max_ms=200,
        )

    def send(self, partition: int) -> PylogError | None:
        """One record; the error that refused it."""
        with self._counting:
            sequence, self.sent = self.sent, self.sent + 1
        value = encode(self.name, sequence, self._size)
        try:
            done = self._producer.send(self.topic, value, partition=partition).result(30)
        except PylogError as error:
            return error
        self.acks.append(Ack(sequence, partition, done.offset, now_ms()))
        return None

    def until_refused(self, partition: int, most: int) -> PylogError:
        """Send until one is; the error. NotWithin."""
        for _ in range(most):
            error = self.send(partition)
            if error is not None:
                return error
        raise NotWithin(f"{most} more records of {self._size} bytes found room on a full disk")

    def close(self) -> None:
        self._producer.close(0)


@dataclass(frozen=True, slots=True)
class Place:
    """One victim's disk, a partition of the bulk that is there, and one of the probe."""

    disk: SmallDisk
    bulk: int
    probe: int


Places = tuple[Place, ...]


def _at_all(places: Places, work: Callable[[Place], None]) -> None:
    """At the same time: each waits for refusals."""
    with ThreadPoolExecutor(len(places)) as pool:
        for _ in pool.map(work, places):
            pass


class Fill:
    """One blow: some brokers' disks become full, and have room again."""

    def __init__(self, stage: Stage, kind: str) -> None:
        """`kind`: one of `KINDS`."""
        self._stage, self._kind = stage, kind
        self._filled, self._freed = kind.split(", freed by ")
        rng = stage.rng
        self._victims = sorted(rng.sample(BROKERS, rng.choice((1, 1, 2, 3))))
        number = rng.randrange(1 << 30)
        self._bulk, self._probe = f"bulk-{number}", f"probe-{number}"
        self.blow = Blow(kind, f"brokers {self._victims}", now_ms())

    def strike(self) -> Blow:
        """Do it; what came of it. NotWithin when the cluster does not recover."""
        stage = self._stage
        each = 2 * stage.directories
        assignment = {
            i * each + n: [broker] for i, broker in enumerate(self._victims) for n in range(each)
        }
        config = {"min.insync.replicas": "1", "segment.bytes": str(BULK_SEGMENT_BYTES)}
        stage.admin.create_topics(
            [
                NewTopic(name, replica_assignment=assignment, config=config)
                for name in (self._bulk, self._probe)
            ]
        )
        places = tuple(self._place(i, broker, each) for i, broker in enumerate(self._victims))
        bulk = Prober(stage.servers, self._bulk, len(assignment), BULK_SIZE)
        probe = Prober(stage.servers, self._probe, len(assignment), PROBE_SIZE)
        try:
            for place in places:
                if (error := probe.send(place.probe)) is not None:
                    self.blow.broken.append(f"refused before it was full: {error}")
            self.blow.struck_ms = now_ms()
            _at_all(places, lambda place: self._fill(place, bulk))
            _at_all(places, lambda place: self._refused(place, probe))
            self._others_go_on()
            # Reads go on, of all that was acknowledged.
            for prober in (bulk, probe):
                self.blow.broken += wrongs(check(prober, stage.servers))
            SYSTEM_CLOCK.sleep(stage.rng.random())
            self._free(places)
            self._resumes(places, probe)
            stage.heal()
            self.blow.broken += wrongs(check(probe, stage.servers))
            if self._freed == "removal":
                self.blow.broken += wrongs(check(bulk, stage.servers))
        finally:
            bulk.close()
            probe.close()
            for place in places:
                place.disk.empty()
        self._clear_away()
        self.blow.broken += stage.judge()
        self.blow.broken += [f"broker {b} ended" for b in BROKERS if not stage.running(b)]
        return self.blow

    def _clear_away(self) -> None:
        """Remove the topics and their files: what waits for its deletion would make room later."""
        admin = self._stage.admin
        left = [self._probe] if self._freed == "topic deletion" else [self._bulk, self._probe]
        admin.incremental_alter_configs(
            {("topic", name): {"file.delete.delay.ms": "0"} for name in left}
        )
        admin.delete_topics(left)

    def _place(self, i: int, broker: int, each: int) -> Place:
        stage, numbers = self._stage, range(i * each, (i + 1) * each)
        for bulk in stage.rng.sample(numbers, each):
            disk = stage.disk_of(broker, TopicPartition(self._bulk, bulk))
            for probe in numbers:
                if (disk.at / f"{self._probe}-{probe}").is_dir():
                    return Place(disk, bulk, probe)
        raise AssertionError("no disk holds both topics")

    def _fill(self, place: Place, bulk: Prober) -> None:
        if self._filled == "ballast":
            place.disk.fill()
            return
        place.disk.fill(leave=BULK_BYTES)
        self._is_named(bulk.until_refused(place.bulk, 2 * BULK_BYTES // BULK_SIZE), place)

    def _refused(self, place: Place, probe: Prober) -> None:
        """Fill the disk until it refuses a record. Space that a full disk makes a broker give up at
        once is taken, too."""
        for attempt in range(FILL_ATTEMPTS):
            place.disk.fill()
            try:
                self._is_named(probe.until_refused(place.probe, 50), place)
                return
            except NotWithin:
                if attempt == FILL_ATTEMPTS - 1:
                    raise

    def _is_named(self, error: PylogError, place: Place) -> None:
        named = f"no room on the disk of {place.disk}" in f"{error}"
        if not (isinstance(error, RetriableError) and named):
            self.blow.broken.append(f"not a retriable error that names the disk: {error!r}")

    def _others_go_on(self) -> None:
        """One full disk of three stops nobody else."""
        if len(self._victims) > 1:
            return
        begin = now_ms()
        try:
            wait_until(RESUME_SECONDS, lambda: self._stage.written_since(begin), "others go on")
        except NotWithin as late:
            self.blow.broken.append(str(late))

    def _free(self, places: Places) -> None:
        admin = self._stage.admin
        frees: dict[str, Callable[[], object]] = {
            "removal": lambda: [place.disk.empty() for place in places],
            "DeleteRecords": lambda: admin.delete_records(
                {TopicPartition(self._bulk, place.bulk): -1 for place in places}
            ),
            "lower retention": lambda: admin.incremental_alter_configs(
                {("topic", self._bulk): {"retention.bytes": "1000"}}
            ),
            "topic deletion": lambda: admin.delete_topics(self._bulk),
        }
        frees[self._freed]()

    def _resumes(self, places: Places, probe: Prober) -> None:
        """Writes everywhere, late or not; NotWithin when there are none at all."""
        freed, stage = now_ms(), self._stage

        def until_taken(place: Place) -> None:
            while probe.send(place.probe) is not None:
                if now_ms() - freed > 90_000:
                    raise NotWithin(f"no writes within 90 s after {self._freed}")

        _at_all(places, until_taken)
        wait_until(60, lambda: stage.written_since(freed), "writes on the verified topic")
        self.blow.resumed_ms = now_ms() - freed
        if self.blow.resumed_ms > RESUME_SECONDS * 1000:
            self.blow.broken.append(f"writes resumed only after {self.blow.resumed_ms} ms")


KINDS: Final = (
    "ballast, freed by removal",
    "load, freed by removal",
    "load, freed by DeleteRecords",
    "load, freed by lower retention",
    "load, freed by topic deletion",
)
