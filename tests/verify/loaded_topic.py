"""A topic on three brokers and a verifiable load over all of it, for trials that disturb them.

Here: starting, waiting, and judging at the end. The disturbances are the trials' own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from pylog import AdminClient, NewTopic, TopicPartition
from pylog.clock import SYSTEM_CLOCK
from pylog.errors import PylogError
from pylog.model import PartitionDescription
from tests.verify.disks_replicas import difference
from tests.verify.load import Verdict, VerifiableProducer, check, wrongs

BROKERS: Final = (1, 2, 3)
TOPIC: Final = "verified"
PARTITIONS: Final = 6
HEAL_SECONDS: Final = 90.0


class Lead(NamedTuple):
    """The leader of a partition, and the epoch in which it leads."""

    leader: int | None
    epoch: int


class LoadedTopic:
    """Use as a context manager, from one thread."""

    def __init__(
        self,
        servers: str,
        *,
        rate: int,
        config: Mapping[str, str] | None = None,
        replicas: Mapping[int, Sequence[int]] | None = None,
        request_timeout_ms: int = 5_000,
    ) -> None:
        """`replicas`: of each partition, its leader first; None: as the controller places them."""
        self.servers = servers
        self._rate, self._request_timeout_ms = rate, request_timeout_ms
        if replicas is None:
            self._topic = NewTopic(TOPIC, PARTITIONS, len(BROKERS), config=config or {})
        else:
            self._topic = NewTopic(TOPIC, replica_assignment=replicas, config=config or {})
        self._stack = ExitStack()
        self.admin: AdminClient
        self.load: VerifiableProducer

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            # A broker that was cut off knows what was so before.
            self.admin = stack.enter_context(
                AdminClient(bootstrap_servers=self.servers, client_routing="gateway")
            )
            self.admin.create_topics(self._topic)
            self.load = VerifiableProducer(
                self.servers,
                TOPIC,
                PARTITIONS,
                rate=self._rate,
                request_timeout_ms=self._request_timeout_ms,
            )
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

    def end(
        self,
        stop: Callable[[], None],
        replica: Callable[[int, TopicPartition], Path],
        logs: Iterable[Path],
    ) -> tuple[Verdict, list[str]]:
        """Stop the load, read everything back, `stop` the brokers, compare the replicas, which
        `replica` finds by broker, and look into the processes' logs; the verdict, and all that is
        wrong.
        """
        self.load.close()
        verdict = check(self.load, self.servers)
        ends = self.admin.list_offsets(
            {TopicPartition(TOPIC, n): "latest" for n in range(PARTITIONS)}
        )
        stop()
        wrong = wrongs(verdict)
        for tp, end in ends.items():
            assert end is not None
            places = {broker: replica(broker, tp) for broker in BROKERS}
            if different := difference(places, end.offset):
                wrong.append(f"{tp}: {different}")
        if self.load.failed:
            some = dict(list(self.load.failed.items())[:3])
            wrong.append(f"{len(self.load.failed)} sends failed: {some}")
        return verdict, wrong + _defects(logs)


def _defects(logs: Iterable[Path]) -> list[str]:
    """What no process may write to its log."""
    found = []
    for log in logs:
        text = log.read_text(errors="replace")
        for word in ("Traceback", "a defect"):
            if (at := text.find(word)) >= 0:
                found.append(f"{log.name}: {text[max(0, at - 200) : at + 1500]}")
    return found


def replica_of(data: Path) -> Callable[[int, TopicPartition], Path]:
    """The replicas' directories where all brokers of a `LocalCluster` have theirs."""
    return lambda broker, tp: data / f"broker-{broker}" / str(tp)
