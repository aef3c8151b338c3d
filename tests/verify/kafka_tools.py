"""`make kafka-tools`: directories that pylog wrote, before Kafka's own dump tool and broker.

    python -m tests.verify.kafka_tools [DIRECTORY...]

Without directories it writes some: brokers that were used, killed, started again and stopped, and
logs with what no client can write yet (transactions). Then every partition directory among them
goes through `kafka-dump-log` with deep iteration and index sanity checks, and a Kafka broker is
started on those that were written here (`kafka_broker.py`). Exit status 1 and Kafka's own words
when anything is wrong. Needs Java and Kafka's jars (`tools/kafka_jars.py`).
"""

from __future__ import annotations

import itertools
import random
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from pylog import AdminClient, LocalCluster, NewTopic, Producer
from pylog.clock import SYSTEM_CLOCK
from pylog.model import LeaderEpoch, TopicPartition
from pylog.records.builder import ControlType, encode_control_batch
from pylog.records.compression import CODEC_NAMES
from pylog_broker.config import TopicConfig
from pylog_broker.storage.files import OsFiles
from pylog_broker.storage.log.validator import INTERNAL, Origin
from tests.fakes.logs import WALL_MS, batch_of, open_log
from tests.verify.kafka_broker import Given, KafkaOnOurs, given_by_broker
from tests.verify.kafka_dump_tool import check, files_of
from tools.kafka_jars import JarsMissing, libs, logging_classpath

SMALL: Final = {"segment.bytes": "20000", "index.interval.bytes": "1000"}
TOPICS: Final[dict[str, dict[str, str]]] = {
    **{codec: SMALL for codec in CODEC_NAMES},
    "recompressed": {**SMALL, "compression.type": "gzip"},
    "append-time": {**SMALL, "message.timestamp.type": "LogAppendTime"},
    "compacted": {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"},
    "index-full": {"index.interval.bytes": "0", "segment.index.bytes": "100"},
    "idempotent": SMALL,
    "deleted": SMALL,
}
DELETED_BEFORE: Final = 445
"""In the middle of a batch, some segments from the start."""

CLEANED_S: Final = 30


def write_brokers(root: Path) -> None:
    """Two brokers with every topic, one of them killed in the middle; all stopped in order."""
    config = {"log.cleaner.backoff.ms": "200"}
    with LocalCluster(2, data_dir=str(root), config=config) as cluster:
        servers = cluster.bootstrap_servers
        with AdminClient(bootstrap_servers=servers) as admin:
            admin.create_topics(
                [NewTopic(name, 2, 2, config=config) for name, config in TOPICS.items()]
            )
        _produce(servers, 0)
        cluster.kill(2)
        cluster.start(2)
        _produce(servers, 1)
        cluster.restart()
        _produce(cluster.bootstrap_servers, 2)
        with AdminClient(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.delete_records({TopicPartition("deleted", n): DELETED_BEFORE for n in range(2)})
        _await_cleaning(root)


def _await_cleaning(root: Path) -> None:
    """Until each broker's cleaner has been over both partitions of the compacted topic."""
    deadline_ms = SYSTEM_CLOCK.monotonic_ms() + CLEANED_S * 1000
    while True:
        found = [path.read_text() for path in root.glob("broker-*/cleaner-offset-checkpoint")]
        if sum(text.count("compacted ") for text in found) == 4:
            return
        assert SYSTEM_CLOCK.monotonic_ms() < deadline_ms, f"not cleaned: {found}"
        SYSTEM_CLOCK.sleep(0.1)


def _produce(servers: str, part: int) -> None:
    rng = random.Random(part)
    for topic in TOPICS:
        compacted = topic == "compacted"
        codec = topic if topic in CODEC_NAMES else rng.choice(CODEC_NAMES)
        codec = "none" if compacted else codec  # enough bytes for several segments
        for settings in ({"acks": "1", "linger_ms": 0}, {"acks": "all", "linger_ms": 20}):
            with Producer(bootstrap_servers=servers, compression_type=codec, **settings) as p:
                for number in range(300):
                    p.send(
                        topic,
                        None if number % 13 == 0 else b"value %d " % number * (number % 20),
                        key=b"key %d" % (number % 7) if number % 5 or compacted else None,
                        headers=[("part", b"%d" % part)] if number % 11 == 0 else None,
                        timestamp_ms=(
                            SYSTEM_CLOCK.wall_ms()  # Kafka forgets producers of old records
                            if topic == "idempotent"
                            else WALL_MS + rng.randrange(-100_000, 100_000)
                        ),
                    )


def write_transactions(directory: Path) -> None:
    """A log of two producers' transactions over several segments, some aborted, one open."""
    directory.mkdir(parents=True)
    now_ms = SYSTEM_CLOCK.wall_ms()
    config = TopicConfig(segment_bytes=5000, index_interval_bytes=500)
    log = open_log(OsFiles(), directory=str(directory), config=config)
    client = Origin(transaction_verified=True)
    sequences = {7: 0, 8: 0}
    rng = random.Random(5)

    def append(batch: bytes, origin: Origin) -> None:
        log.append_as_leader(batch, leader_epoch=LeaderEpoch(1), origin=origin, wall_ms=now_ms)

    for turn in range(40):
        for producer in itertools.chain(sequences, sequences):
            values = [b"turn %d" % turn] * rng.randint(1, 5)
            batch = batch_of(
                *values,
                producer=(producer, 0, sequences[producer]),
                transactional=True,
                timestamps=now_ms + turn,
            )
            sequences[producer] += len(values)
            append(batch, client)
        for producer in sequences:
            if turn == 39 and producer == 8:
                continue
            marker = encode_control_batch(
                rng.choice((ControlType.COMMIT, ControlType.ABORT)),
                producer_id=producer,
                producer_epoch=0,
                coordinator_epoch=2,
                timestamp_ms=now_ms + turn,
            )
            append(marker, INTERNAL)
    log.close(clean=True)


def partition_directories(roots: Iterable[Path]) -> Iterator[Path]:
    """Every directory at or below these that holds a log."""
    for root in roots:
        for directory in (root, *sorted(path for path in root.rglob("*") if path.is_dir())):
            if any(file.suffix == ".log" for file in files_of(directory)):
                yield directory


def _given(root: Path) -> dict[TopicPartition, Given]:
    found = given_by_broker(root / "cluster" / "broker-1", TOPICS)
    assert {key.topic for key in found} == set(TOPICS)
    return found | {TopicPartition("t", 0): Given(root / "transactions" / "t-0", {})}


def main(given: list[str]) -> int:
    """The exit status."""
    try:
        jars = libs()
    except JarsMissing as error:
        print(f"kafka-tools: {error}", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="pylog-kafka-tools-") as scratch:
        roots = [Path(each).resolve() for each in given]
        if not roots:
            roots = [Path(scratch)]
            write_brokers(Path(scratch) / "cluster")
            write_transactions(Path(scratch) / "transactions" / "t-0")
        directories = list(partition_directories(roots))
        count, found = check(jars, directories)
        if not given:
            found += KafkaOnOurs(
                logging_classpath(), Path(scratch) / "kafka", _given(roots[0])
            ).check()
    for complaint in found[:100]:
        print(complaint)
    print(f"{count} files in {len(directories)} directories, {len(found)} complaints")
    return 1 if found or not count else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
