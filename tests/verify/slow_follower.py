"""A follower that is slow, again and again: `python -m tests.verify.slow_follower [--rounds N]`.

Three brokers under load, of which one leads nothing of the topic. Its process is stopped and goes
on: once for longer than `replica.lag.time.max.ms`, once beyond its session too, or many times for a
moment, so that it runs a tenth of the time. Each round has one of these.

A follower that lags leaves the ISR and returns to it, each once; producers are as fast as before no
later than `replica.lag.time.max.ms` and two seconds after it stopped (where it goes on in between,
after the last stop); nobody waits any longer, and nothing is lost.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import signal
import statistics
import sys
import tempfile
import urllib.request
from dataclasses import dataclass, field
from typing import Final

from pylog import LocalCluster
from pylog.clock import SYSTEM_CLOCK
from tests.verify.load import Verdict
from tests.verify.loaded_topic import BROKERS, PARTITIONS, LoadedTopic, replica_of

RATE: Final = 300
LAG_MS: Final = 2_000
SESSION_MS: Final = 6_000
FOLLOWER: Final = 3
"""It leads nothing."""
REPLICAS: Final = {n: (1, 2, 3) if n % 2 else (2, 1, 3) for n in range(PARTITIONS)}
CALM_S: Final = 3.0
BACK_MS_MAX: Final = LAG_MS + 2_000
CHANGES_MAX: Final = 2
"""Of a partition's ISR: the follower leaves, and it returns."""
WINDOW_MS: Final = 1_000
SLOW_TIMES: Final = 3.0
SLOW_MS: Final = 250.0
"""Below this no p99 is slow: it may be the machine's."""
_CONFIG: Final = {
    "min.insync.replicas": "2",
    "replica.lag.time.max.ms": str(LAG_MS),
    "broker.session.timeout.ms": str(SESSION_MS),
    "metrics.listen": "127.0.0.1:0",
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A way of being slow: stopped so long, then running so long, and so on for so long."""

    name: str
    stopped_s: float
    running_s: float = 0.0
    times: int = 1


FAULTS: Final = (
    Fault("stopped for longer than it may lag", 2.5 * LAG_MS / 1000),
    Fault("stopped beyond its session", 1.5 * SESSION_MS / 1000),
    Fault("stopped nine moments of ten", 0.45, 0.05, times=12),
)


@dataclass
class Findings:
    """What came of the rounds."""

    back_ms: list[int] = field(default_factory=list)
    changes: list[float] = field(default_factory=list)
    longest_ms: int = 0
    wrong: list[str] = field(default_factory=list)
    verdict: Verdict = field(default_factory=Verdict)


class Trial:
    """The cluster, and what happens to its follower."""

    def __init__(self, cluster: LocalCluster, loaded: LoadedTopic) -> None:
        self._cluster, self._loaded = cluster, loaded
        self.findings = Findings()

    def round(self, fault: Fault) -> None:
        """One fault, from a calm to a whole ISR."""
        loaded, findings = self._loaded, self.findings
        loaded.heal()
        calm_ms = SYSTEM_CLOCK.monotonic_ms()
        SYSTEM_CLOCK.sleep(CALM_S)
        changes, leads = self._isr_changes(), loaded.leads()
        began_ms = SYSTEM_CLOCK.monotonic_ms()
        normal_ms = self._p99(calm_ms, began_ms)
        last_stop_ms = self._strike(fault)
        SYSTEM_CLOCK.sleep(max(0.0, (last_stop_ms + BACK_MS_MAX + WINDOW_MS - _now_ms()) / 1000))
        healed_ms = loaded.heal()
        per_partition = (self._isr_changes() - changes) / PARTITIONS
        limit_ms = max(SLOW_MS, SLOW_TIMES * normal_ms)
        back_ms = self._back(last_stop_ms, limit_ms)
        took = [ack.took_ms for ack in list(loaded.load.acks) if ack.at_ms >= began_ms]
        findings.longest_ms = max(findings.longest_ms, *took)
        findings.back_ms.append(back_ms)
        findings.changes.append(per_partition)
        wrong = []
        if back_ms > BACK_MS_MAX:
            wrong.append(f"the p99 was back after {back_ms} ms; the limit is {BACK_MS_MAX} ms")
        if max(took) > BACK_MS_MAX:
            wrong.append(f"a record waited for {max(took)} ms; the limit is {BACK_MS_MAX} ms")
        if per_partition > CHANGES_MAX:
            wrong.append(f"{per_partition:.1f} changes of each ISR; the limit is {CHANGES_MAX}")
        if loaded.leads() != leads:
            wrong.append("leaders changed")
        print(
            f"{fault.name}: p99 {normal_ms:.0f} ms before, at most {limit_ms:.0f} ms again after "
            f"{back_ms} ms, longest {max(took)} ms, {per_partition:.1f} changes of each ISR, whole "
            f"again within {healed_ms} ms",
            *(f"    BROKEN: {each}" for each in wrong),
            sep="\n",
            flush=True,
        )
        findings.wrong += [f"{fault.name}: {each}" for each in wrong]

    def _strike(self, fault: Fault) -> int:
        """When the follower was stopped for the last time."""
        pid, stopped_ms = self._cluster._nodes[FOLLOWER]._process.pid, 0
        for _ in range(fault.times):
            stopped_ms = _now_ms()
            os.kill(pid, signal.SIGSTOP)
            SYSTEM_CLOCK.sleep(fault.stopped_s)
            os.kill(pid, signal.SIGCONT)
            SYSTEM_CLOCK.sleep(fault.running_s)
        return stopped_ms

    def _back(self, since_ms: int, limit_ms: float) -> int:
        """From then until the last of the slow records: those who are acknowledged in the second
        behind it are fast, all but one of a hundred.
        """
        acks = [ack for ack in list(self._loaded.load.acks) if ack.at_ms >= since_ms]
        slow = [ack.at_ms for ack in acks if ack.took_ms > limit_ms]
        for at_ms in slow:
            if self._p99(at_ms + 1, at_ms + 1 + WINDOW_MS) <= limit_ms:
                return at_ms - since_ms
        return _now_ms() - since_ms if slow else 0

    def _p99(self, from_ms: int, to_ms: int) -> float:
        """Of the records that were acknowledged in that time; without any, more than all."""
        acks = list(self._loaded.load.acks)
        took = sorted(ack.took_ms for ack in acks if from_ms <= ack.at_ms < to_ms)
        return took[len(took) * 99 // 100] if took else float("inf")

    def _isr_changes(self) -> int:
        """As the brokers count them, all that there were."""
        changes = 0
        for broker in set(BROKERS) - {FOLLOWER}:
            url = self._cluster.metrics_urls[broker]
            with urllib.request.urlopen(f"{url}/metrics", timeout=30) as page:
                text = page.read().decode()
            found = re.findall(r"^pylog_isr_(?:shrinks|expands)_total (\S+)$", text, re.MULTILINE)
            changes += sum(int(float(count)) for count in found)
        return changes


def _now_ms() -> int:
    return SYSTEM_CLOCK.monotonic_ms()


def run(faults: list[Fault]) -> Findings:
    """One round with each."""
    with (
        tempfile.TemporaryDirectory(prefix="pylog-slow-") as folder,
        LocalCluster(len(BROKERS), folder, _CONFIG) as cluster,
        LoadedTopic(cluster.bootstrap_servers, rate=RATE, replicas=REPLICAS) as loaded,
    ):
        trial = Trial(cluster, loaded)
        for fault in faults:
            trial.round(fault)
        findings = trial.findings
        findings.verdict, wrong = loaded.end(
            cluster.close, replica_of(cluster.data_dir), cluster.data_dir.glob("logs/*.log")
        )
        findings.wrong += wrong
    return findings


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=len(FAULTS))
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    rng = random.Random(options.seed)
    faults = [*FAULTS, *rng.choices(FAULTS, k=max(0, options.rounds - len(FAULTS)))]
    findings = run(faults[: options.rounds])
    print(
        f"{options.rounds} rounds: {findings.verdict}; p99 back after "
        f"{statistics.median(findings.back_ms):.0f} ms by median and {max(findings.back_ms)} ms at "
        f"most, longest {findings.longest_ms} ms, {max(findings.changes):.1f} changes of an ISR at "
        "most"
    )
    print("\n".join(findings.wrong) if findings.wrong else "all promises hold")
    return bool(findings.wrong)


if __name__ == "__main__":
    sys.exit(main())
