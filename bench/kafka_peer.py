"""The peer: a real Apache Kafka on this machine, with its own clients.

KRaft, Kafka's defaults and the JVM options of its start script. Broker 1 is the controller, too;
three brokers replicate to all three, two of which must be in sync, as in `bench.cluster`. Clients:
confluent-kafka (librdkafka; the extra `peers`) and the perf tools of Kafka's own Java client.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from bench.cluster import PARTITIONS, paced
from bench.measure import stopwatch
from pylog.held_ports import HeldPorts
from tools.kafka_jars import JarsMissing, libs

START_S: Final = 60
STOP_S: Final = 30
WOKEN_S: Final = 1.0
JAVA_RUN_S: Final = 120
CLUSTER_ID: Final = "cGdsb2dQZWVyc0JlbmNoLg"
JVM: Final = (
    "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
)  # fmt: skip
HEAP: Final = "1g"
"""The heap of a broker, as Kafka's start script has it."""

WRITING: Final[dict[str, Any]] = {
    "linger.ms": 10,
    "batch.size": 1 << 20,
    "batch.num.messages": 100_000,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 1 << 20,
}
"""librdkafka's fastest: its own batches end at 10,000 messages, its queue at 100,000."""
JAVA_WRITING: Final = ("linger.ms=10", f"batch.size={1 << 17}", f"buffer.memory={1 << 26}")

CONFIG: Final = """\
process.roles={roles}
node.id={node}
controller.quorum.voters=1@127.0.0.1:{controller}
listeners={listeners}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={data}
offsets.topic.num.partitions=1
offsets.topic.replication.factor={brokers}
transaction.state.log.replication.factor={brokers}
transaction.state.log.min.isr={in_sync}
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=120000
replica.lag.time.max.ms=120000
min.insync.replicas={in_sync}
"""


class PeerMissing(Exception):
    """Kafka or its client is not to be had on this machine; the text says what to install."""


def jars() -> Path:
    """The folder with Kafka's jars; PeerMissing where Java, the jars or confluent-kafka lack."""
    if shutil.which("java") is None:
        raise PeerMissing("java is not installed: Kafka needs Java 17 or later, and `java` in PATH")
    if importlib.util.find_spec("confluent_kafka") is None:
        raise PeerMissing(
            "confluent-kafka is not installed: .venv/bin/python -m pip install -e '.[peers]'"
        )
    try:
        return libs()
    except JarsMissing as error:
        raise PeerMissing(f"Kafka's jars: {error}") from None


@dataclass(slots=True)
class KafkaCluster:
    """Running brokers."""

    bootstrap_servers: str
    brokers: int
    libs: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def fresh_topic(self, name: str, partitions: int = PARTITIONS) -> str:
        """A new topic with as many replicas as there are brokers; all its leaders are known."""
        from confluent_kafka.admin import AdminClient
        from confluent_kafka.cimpl import NewTopic

        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        topic = NewTopic(name, partitions, self.brokers)
        admin.create_topics([topic])[name].result(START_S)

        def led() -> bool:
            found = admin.list_topics(name, timeout=10).topics[name].partitions.values()
            return len(found) == partitions and all(
                len(part.isrs) == self.brokers and part.leader > 0 for part in found
            )

        _await(led, f"leaders of {name}")
        return name

    @contextlib.contextmanager
    def asleep(self) -> Iterator[None]:
        """Its processes are stopped inside: three idle JVMs take a seventh of a core.

        The two limits in `CONFIG` are long enough that no broker is missed meanwhile.
        """
        try:
            for process in self.processes:
                process.send_signal(signal.SIGSTOP)
            yield
        finally:
            for process in self.processes:
                process.send_signal(signal.SIGCONT)
        _await(lambda: _all_there(self), "Kafka's brokers, woken")
        time.sleep(WOKEN_S)  # noqa: TID251 - what fell due meanwhile is done first


@contextlib.contextmanager
def kafka_cluster(brokers: int) -> Iterator[KafkaCluster]:
    """So many brokers in a folder of their own; ended and removed whatever happens."""
    found = jars()
    with (
        contextlib.closing(HeldPorts()) as held,
        tempfile.TemporaryDirectory(prefix="pylog-bench-kafka-") as scratch,
    ):
        ports = [held.any() for _ in range(brokers)]
        controller = held.any()
        folder = Path(scratch)
        servers = ",".join(f"127.0.0.1:{port}" for port in ports)
        running = KafkaCluster(servers, brokers, found)
        try:
            for node, port in enumerate(ports, 1):
                config = _configured(folder, node, port, controller, brokers)
                running.processes.append(_started(found, folder, node, config))
            _await(lambda: _all_there(running), "Kafka's brokers")
            yield running
        finally:
            _end(running.processes)


def _configured(folder: Path, node: int, port: int, controller: int, brokers: int) -> Path:
    listeners = f"PLAINTEXT://127.0.0.1:{port}"
    if node == 1:
        listeners += f",CONTROLLER://127.0.0.1:{controller}"
    path = folder / f"{node}.properties"
    text = CONFIG.format(
        roles="broker,controller" if node == 1 else "broker",
        node=node,
        controller=controller,
        listeners=listeners,
        port=port,
        data=folder / str(node),
        brokers=brokers,
        in_sync=min(2, brokers),
    )
    path.write_text(text, encoding="utf-8")
    return path


def _started(libs: Path, folder: Path, node: int, config: Path) -> subprocess.Popen[bytes]:
    classpath = ("java", "-cp", f"{libs}/*")
    formatting = [
        *classpath, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", str(config),
    ]  # fmt: skip
    subprocess.run(formatting, check=True, stdout=subprocess.DEVNULL, timeout=START_S)
    command = [
        "java", f"-Xms{HEAP}", f"-Xmx{HEAP}", *JVM, "-cp", f"{libs}/*", "kafka.Kafka", str(config),
    ]  # fmt: skip
    with (folder / f"{node}.log").open("ab") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )


def _all_there(running: KafkaCluster) -> bool:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    for process in running.processes:
        if process.poll() is not None:
            raise RuntimeError(f"a Kafka broker ended with {process.returncode} at its start")
    quiet: dict[str, Any] = {"bootstrap.servers": running.bootstrap_servers, "log_level": 0}
    try:
        return len(AdminClient(quiet).list_topics(timeout=5).brokers) == running.brokers
    except KafkaException:
        return False


def _end(processes: list[subprocess.Popen[bytes]]) -> None:
    """The controller last: the others tell it that they go."""
    for process in reversed(processes):
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGCONT)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _await(happened: Callable[[], bool], what: str) -> None:
    with stopwatch() as elapsed:
        while not happened():
            if elapsed() > START_S:
                raise RuntimeError(f"{what}: not within {START_S} s")
            time.sleep(0.1)  # noqa: TID251 - another process is waited for


# ---- confluent-kafka ----------------------------------------------------------------------------


def produce(
    running: KafkaCluster, topic: str, count: int, size: int, callbacks: bool = False
) -> float:
    """Records a second of `Producer.produce`, acks=all, until the last acknowledgement.

    `callbacks`: each record's outcome is told to Python; without, failures alone are.
    """
    from confluent_kafka import Producer

    value = b"x" * size
    done = 0

    def told(error: object, _: object) -> None:
        nonlocal done
        assert error is None, error
        done += 1

    more: dict[str, Any] = {"on_delivery": told} if callbacks else {}
    producer = Producer(
        {
            "bootstrap.servers": running.bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "log_level": 3,
            "delivery.report.only.error": not callbacks,
            **WRITING,
        }
    )
    producer.produce(topic, value)
    assert producer.flush(10) == 0
    send = producer.produce
    with stopwatch() as elapsed:
        for number in range(count):
            try:
                send(topic, value, **more)
            except BufferError:  # its queue is full: until there is room
                _send_when_room(producer, topic, value, more)
            if number % 1_000 == 0:
                producer.poll(0)
        assert producer.flush(START_S) == 0
        seconds = elapsed()
    assert not callbacks or done == count
    return count / seconds


def _send_when_room(producer: Any, topic: str, value: bytes, more: dict[str, Any]) -> None:
    while True:
        producer.poll(0.01)
        with contextlib.suppress(BufferError):
            producer.produce(topic, value, **more)
            return


def fill(running: KafkaCluster, topic: str, rows: int, size: int = 100) -> None:
    """So many records in each partition."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": running.bootstrap_servers, **WRITING})
    for number in range(rows * PARTITIONS):
        producer.produce(topic, b"x" * size, partition=number % PARTITIONS)
    assert producer.flush(START_S) == 0


def consume(running: KafkaCluster, topic: str, messages: int = 1_000) -> float:
    """Records a second of `consume(messages)`, touching each value."""
    from confluent_kafka import OFFSET_BEGINNING, TopicPartition

    consumer = _consumer(running)
    try:
        parts = [TopicPartition(topic, n, OFFSET_BEGINNING) for n in range(PARTITIONS)]
        # Asking for the ends also connects to each leader.
        total = sum(consumer.get_watermark_offsets(part, timeout=10)[1] for part in parts)
        with stopwatch() as elapsed:
            consumer.assign(parts)
            read = size = 0
            while read < total:
                for message in consumer.consume(min(messages, total - read), timeout=5):
                    size += len(message.value())
                    read += 1
            return total / elapsed()
    finally:
        consumer.close()


def _consumer(running: KafkaCluster) -> Any:
    """Settings are librdkafka's own: `fetch.wait.max.ms` 500, `fetch.min.bytes` 1."""
    from confluent_kafka import Consumer

    return Consumer(
        {
            "bootstrap.servers": running.bootstrap_servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "socket.nagle.disable": True,
        }
    )


def end_to_end(
    running: KafkaCluster, topic: str, count: int, rate: int = 1_000, **how: Any
) -> list[float]:
    """The measurement of `bench.cluster.end_to_end`: milliseconds from `produce` to the record in a
    consumer's hands, both in this process, linger 0, `rate` a second; `how`: settings of the
    producer, which is idempotent as pylog's and Java's are. (librdkafka's default sends without end
    what a broker takes one by one: where that takes longer than a record's turn, records queue.)
    """
    from confluent_kafka import OFFSET_BEGINNING, Producer, TopicPartition

    producer = Producer(
        {
            "bootstrap.servers": running.bootstrap_servers,
            "acks": "all",
            "enable.idempotence": True,
            "log_level": 3,
            "linger.ms": 0,
            "socket.nagle.disable": True,
            **how,
        }
    )
    consumer = _consumer(running)
    latencies: list[float] = []

    def send(value: bytes) -> None:
        producer.produce(topic, value, partition=0)
        producer.poll(0)

    try:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        send(b"0" * 20)
        assert producer.flush(10) == 0
        assert consumer.poll(10) is not None
        sender = threading.Thread(target=paced, args=(send, count, rate))
        sender.start()
        while len(latencies) < count:
            message = consumer.poll(5)
            if message is not None and message.error() is None:
                latencies.append((time.perf_counter_ns() - int(message.value())) / 1e6)
        sender.join()
        assert producer.flush(10) == 0
    finally:
        consumer.close()
    return latencies


# ---- Kafka's own tools --------------------------------------------------------------------------


def java_produce(running: KafkaCluster, topic: str, count: int, size: int) -> float:
    """Records a second by ProducerPerformance, acks=all; its start and warming up are within."""
    said = _java(
        running, "org.apache.kafka.tools.ProducerPerformance", "--topic", topic,
        "--num-records", str(count), "--record-size", str(size), "--throughput", "-1",
        "--producer-props", f"bootstrap.servers={running.bootstrap_servers}", "acks=all",
        *JAVA_WRITING,
    )  # fmt: skip
    return float(re.findall(r"([\d.]+) records/sec", said)[-1])


def java_consume(running: KafkaCluster, topic: str, count: int) -> float:
    """Records a second by ConsumerPerformance, without the time in which it joins its group."""
    said = _java(
        running, "org.apache.kafka.tools.ConsumerPerformance", "--topic", topic,
        "--messages", str(count), "--bootstrap-server", running.bootstrap_servers, "--hide-header",
    )  # fmt: skip
    fields = said.strip().splitlines()[-1].split(", ")
    return float(fields[-1])


def _java(running: KafkaCluster, *arguments: str) -> str:
    command = ["java", "-Xmx1g", "-cp", f"{running.libs}/*", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=JAVA_RUN_S)
    if done.returncode:
        sys.exit(f"{arguments[0]}: {done.stdout[-2000:]} {done.stderr[-2000:]}")
    return done.stdout
