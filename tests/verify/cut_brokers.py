"""Brokers that are cut off under load: `python -m tests.verify.cut_brokers [--cuts N] [--seconds
FROM TO]`. Needs root, `unshare`, `ip` and `tc`.

A controller and three brokers, each broker in a network of its own with one link to all others. For
a while a link loses what it carries, to the broker, from it or both, or one broker sends nothing to
another one, or neither to the other; nobody is told. The broker leads some partitions and follows
in the rest, and the clients are with those that it cannot reach.

Once two sessions have passed, at least a hundred records are acknowledged during each cut, and some
in every partition. After it each replica is in sync again, and at the end nothing is lost, doubled
or out of order.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pylog import AdminClient, TopicPartition
from pylog.clock import SYSTEM_CLOCK
from tests.fakes import one_way_out
from tests.fakes.cut_networks import GATEWAY, CutNetwork, Host
from tests.fakes.waiting import eventually
from tests.verify.load import Verdict
from tests.verify.loaded_topic import BROKERS, PARTITIONS, LoadedTopic

ROOT: Final = Path(__file__).resolve().parents[2]
RATE: Final = 300
SESSION_MS: Final = 1_500
ACKS_MIN: Final = 100
_SETTINGS: Final = {
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": str(SESSION_MS),
    "broker.heartbeat.interval.ms": "300",
    "replica.lag.time.max.ms": str(SESSION_MS),
}


@dataclass(frozen=True, slots=True)
class Cut:
    """How a broker is cut off, and until when; `other`: from that one, where it is not from all."""

    name: str
    act: Callable[[Host, Host, bool], None]
    is_pair: bool = False


def _from_all(host: Host, _: Host, cut: bool) -> None:
    host.deaf(is_deaf=cut)
    host.mute(is_mute=cut)


def _from_each_other(host: Host, other: Host, cut: bool) -> None:
    host.lose(other, lost=cut)
    other.lose(host, lost=cut)


CUTS: Final = (
    Cut("is cut off", _from_all),
    Cut("hears nothing", lambda host, _, cut: host.deaf(is_deaf=cut)),
    Cut("is not heard", lambda host, _, cut: host.mute(is_mute=cut)),
    Cut("sends nothing to", lambda host, other, cut: host.lose(other, lost=cut), is_pair=True),
    Cut("neither hears nor reaches", _from_each_other, is_pair=True),
)


@dataclass
class Findings:
    """The figures of a run."""

    acks: list[int] = field(default_factory=list)
    healed_ms: list[int] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    verdict: Verdict = field(default_factory=Verdict)


class Trial:
    """The brokers, and what happens to them."""

    def __init__(self, hosts: dict[int, Host], loaded: LoadedTopic, rng: random.Random) -> None:
        """`hosts`: by broker."""
        self._hosts, self._loaded, self._rng = hosts, loaded, rng
        self.findings = Findings()

    def strike(self, cut: Cut, seconds: float) -> None:
        """One cut, then wait until all is well again."""
        loaded, findings = self._loaded, self.findings
        loaded.heal()
        broker, other = self._victim()
        what = f"broker {broker} {cut.name}" + (f" broker {other}" if cut.is_pair else "")
        led = sum(partition.leader == broker for partition in loaded.partitions())
        cut.act(self._hosts[broker], self._hosts[other], True)
        judged_ms = SYSTEM_CLOCK.monotonic_ms() + 2 * SESSION_MS
        SYSTEM_CLOCK.sleep(seconds)
        until_ms = SYSTEM_CLOCK.monotonic_ms()
        cut.act(self._hosts[broker], self._hosts[other], False)
        acks = [a.partition for a in list(loaded.load.acks) if judged_ms <= a.at_ms < until_ms]
        healed_ms = loaded.heal()
        findings.acks.append(len(acks))
        findings.healed_ms.append(healed_ms)
        wrong = []
        if len(acks) < ACKS_MIN:
            wrong.append(f"{len(acks)} records were acknowledged; {ACKS_MIN} must be")
        if without := sorted(set(range(PARTITIONS)) - set(acks)):
            wrong.append(f"none in the partitions {without}")
        print(
            f"{what} for {seconds:.1f} s, a leader of {led}: {len(acks)} acknowledged meanwhile "
            f"after {2 * SESSION_MS} ms, healed {healed_ms / 1000:.1f} s later",
            *(f"    BROKEN: {each}" for each in wrong),
            sep="\n",
            flush=True,
        )
        findings.wrong += [f"{what}: {each}" for each in wrong]

    def _victim(self) -> tuple[int, int]:
        """A broker, more often than not one that leads something, and another one."""
        rng = self._rng
        leader = rng.choice([partition.leader for partition in self._loaded.partitions()])
        first, second = rng.sample(sorted({*BROKERS} - {leader}), 2)
        if leader is None or rng.random() < 0.3:
            return first, second
        return leader, first


def run(cuts: int, seconds: tuple[float, float], rng: random.Random) -> Findings:
    """So many cuts, each for a time between these."""
    with (
        tempfile.TemporaryDirectory(prefix="pylog-cuts-") as folder,
        CutNetwork(Path(folder), _SETTINGS) as network,
    ):
        hosts = _brokers(network)
        data = {broker: network.folder / f"host-{_number(host)}" for broker, host in hosts.items()}

        def replica(broker: int, tp: TopicPartition) -> Path:
            (found,) = data[broker].glob(f"**/{tp}")
            return found

        with LoadedTopic(GATEWAY, rate=RATE, request_timeout_ms=SESSION_MS) as loaded:
            trial = Trial(hosts, loaded, rng)
            for number in range(cuts):
                trial.strike(CUTS[number % len(CUTS)], rng.uniform(*seconds))
            findings = trial.findings
            findings.verdict, wrong = loaded.end(
                network.kill, replica, network.folder.glob("*.log")
            )
            findings.wrong += wrong
    return findings


def _number(host: Host) -> int:
    return int(host.address.rpartition(".")[2])


def _brokers(network: CutNetwork) -> dict[int, Host]:
    """The hosts by the brokers on them, when all are there."""
    by_address = {host.address: host for host in network.hosts.values()}
    found: dict[int, Host] = {}
    with AdminClient(bootstrap_servers=GATEWAY, bootstrap_timeout_ms=60_000) as admin:

        def all_are_there() -> bool:
            found.update({b.id: by_address[b.host] for b in admin.describe_cluster().brokers})
            return len(found) == len(BROKERS)

        eventually(120, all_are_there, "three brokers")
    return found


def inside(arguments: list[str]) -> int:
    """Run it all in a network of its own."""
    if not one_way_out.available() or shutil.which("tc") is None:
        print("skipped: networks of one's own need root, unshare, ip and tc")
        return 0
    command = [sys.executable, "-m", "tests.verify.cut_brokers", "--inside", *arguments]
    return subprocess.run(["unshare", "--net", *command], cwd=ROOT, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=4)
    parser.add_argument("--seconds", type=float, nargs=2, default=[5.0, 5.0])
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.inside:
        return inside(sys.argv[1:])
    print(f"seed {options.seed}", flush=True)
    begin, end = options.seconds
    findings = run(options.cuts, (begin, end), random.Random(options.seed))
    print(
        f"{options.cuts} cuts: {findings.verdict}; {min(findings.acks)} acknowledged meanwhile at "
        f"least, healed after {statistics.median(findings.healed_ms) / 1000:.1f} s by median and "
        f"{max(findings.healed_ms) / 1000:.1f} s at most"
    )
    print("\n".join(findings.wrong) if findings.wrong else "all promises hold")
    return bool(findings.wrong)


if __name__ == "__main__":
    sys.exit(main())
