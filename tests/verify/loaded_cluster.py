"""Three brokers on loopback and a verifiable load over all of them, for trials that disturb them.

Here: starting, waiting, and judging at the end. The disturbances are the trials' own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from pylog import AdminClient, LocalCluster, NewTopic, TopicPartition
from pylog.clock import SYSTEM_CLOCK
from pylog.errors import PylogError
from pylog.model import PartitionDescription
from tests.verify.disks_replicas import difference
from tests.verify.load import Verdict, VerifiableProducer, check, wrongs

BROKERS: Final = (1, 2, 3)
TOPIC: Final = "verified"
PARTITIONS: Final = 6
HEAL_SECONDS: Final = 60.0


class Lead(NamedTuple):
    """The leader of a partition, and the epoch in which it leads."""

    leader: int | None
    epoch: int


class LoadedCluster:
    """Use as a context manager, from one thread."""

    def __init__(
        self,
        folder: Path,
        *,
        rate: int,
        start: Callable[[Path], LocalCluster],
        topic_config: Mapping[str, str] | None = None,
        replicas: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        """`start` makes the cluster, in the folder that it is given. `replicas`: of each partition,
        its leader first; None: as the controller places them.
        """
        self._data, self._rate, self._start = folder / "data", rate, start
        if replicas is None:
            self._topic = NewTopic(TOPIC, PARTITIONS, len(BROKERS), config=topic_config or {})
        else:
            self._topic = NewTopic(TOPIC, replica_assignment=replicas, config=topic_config or {})
        self._stack = ExitStack()
        self.cluster: LocalCluster
        self.admin: AdminClient
        self.load: VerifiableProducer

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self.cluster = stack.enter_context(self._start(self._data))
            self.admin = stack.enter_context(AdminClient(bootstrap_servers=self.servers))
            self.admin.create_topics(self._topic)
            self.load = VerifiableProducer(self.servers, TOPIC, PARTITIONS, rate=self._rate)
            stack.callback(self.load.stop)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def servers(self) -> str:
        """For clients."""
        return self.cluster.bootstrap_servers

    def pid(self, broker: int) -> int:
        """The process of a broker."""
        return self.cluster._nodes[broker]._process.pid

    def replica(self, broker: int, tp: TopicPartition) -> Path:
        """The directory of a replica."""
        return self._data / f"broker-{broker}" / str(tp)

    # ---- what is going on -----------------------------------------------------------------------

    def partitions(self) -> tuple[PartitionDescription, ...]:
        """The verified topic's, as the gateway knows them."""
        return self.admin.describe_topics([TOPIC])[TOPIC].partitions

    def leads(self) -> dict[TopicPartition, Lead]:
        """The leads of all partitions of the cluster, those of internal topics too."""
        topics = self.admin.list_topics(internal=True)
        return {
            TopicPartition(name, p.partition): Lead(p.leader, p.leader_epoch)
            for name, topic in self.admin.describe_topics(topics).items()
            for p in topic.partitions
        }

    def heal(self) -> int:
        """Wait until every partition has a leader, a full ISR and a new acknowledgement; the time
        that it took, in milliseconds. AssertionError when it takes too long.
        """
        begin_ms, state = SYSTEM_CLOCK.monotonic_ms(), "unreachable"
        while SYSTEM_CLOCK.monotonic_ms() < begin_ms + HEAL_SECONDS * 1000:
            try:
                found = self.partitions()
            except PylogError as error:
                state = repr(error)
            else:
                whole = all(p.leader is not None and len(p.isr) == len(BROKERS) for p in found)
                if whole and self.written_since(begin_ms):
                    return SYSTEM_CLOCK.monotonic_ms() - begin_ms
                state = str([(p.partition, p.leader, p.isr) for p in found])
            SYSTEM_CLOCK.sleep(0.1)
        raise AssertionError(f"not healed within {HEAL_SECONDS:g} s: {state}")

    def written_since(self, moment_ms: int) -> bool:
        """Whether each partition has an acknowledgement of after that moment."""
        wanted = set(range(PARTITIONS))
        for ack in reversed(self.load.acks):
            if ack.at_ms <= moment_ms or not wanted:
                break
            wanted.discard(ack.partition)
        return not wanted

    # ---- the end --------------------------------------------------------------------------------

    def end(self) -> tuple[Verdict, list[str]]:
        """Stop the load and the brokers, read everything back, and compare the replicas; the
        verdict, and all that is wrong.
        """
        self.load.close()
        verdict = check(self.load, self.servers)
        ends = self.admin.list_offsets(
            {TopicPartition(TOPIC, n): "latest" for n in range(PARTITIONS)}
        )
        self.cluster.close()
        wrong = wrongs(verdict)
        for tp, end in ends.items():
            assert end is not None
            places = {broker: self.replica(broker, tp) for broker in BROKERS}
            if different := difference(places, end.offset):
                wrong.append(f"{tp}: {different}")
        if self.load.failed:
            some = dict(list(self.load.failed.items())[:3])
            wrong.append(f"{len(self.load.failed)} sends failed: {some}")
        return verdict, wrong + defects(sorted((self._data / "logs").glob("*.log")))


def defects(logs: Sequence[Path]) -> list[str]:
    """What no process may write to its log."""
    found = []
    for log in logs:
        text = log.read_text(errors="replace")
        for word in ("Traceback", "a defect"):
            if (at := text.find(word)) >= 0:
                found.append(f"{log.name}: {text[max(0, at - 200) : at + 1500]}")
    return found
