"""Full and failing disks under load: `python -m tests.verify.disks --fills 60 --faults 60`.

Three brokers, each with log directories on ext4 file systems of a few MiB that are mounted by loop,
so it must run as root. Half of the blows strike brokers with one disk, half brokers with two. After
each one all acknowledged records are read back and the replicas compared byte for byte. Prints a
line per blow, and a verdict; exit status 0 only when every promise was kept.

The mounts are in a namespace of this process: they end with it, however it ends.
"""

from __future__ import annotations

import argparse
import logging
import random
import signal
import statistics
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pylog.errors import PylogError
from tests.verify import disks_fills, disks_mounts
from tests.verify.disks_faults import Fault, kinds
from tests.verify.disks_fills import Fill
from tests.verify.disks_stage import Blow, NotWithin, Stage, now_ms
from tests.verify.load import Verdict, wrongs

BLOWS_PER_TOPIC: Final = 8
LOG_TAIL_BYTES: Final = 3_000
UNAVAILABLE: Final = 2
"""The exit status where no file system can be mounted."""


@dataclass(slots=True)
class Report:
    """The work and the findings of a campaign."""

    blows: list[Blow] = field(default_factory=list)
    verdict: Verdict = field(default_factory=Verdict)
    broken: list[str] = field(default_factory=list)
    fills: int = 0
    faults: int = 0

    def __str__(self) -> str:
        lines = [f"fills {self.fills}, faults {self.faults}: {self.verdict}"]
        noticed = [b.notice_ms for b in self.blows if b.notice_ms is not None]
        resumed = [b.resumed_ms for b in self.blows if b.resumed_ms is not None and "," in b.kind]
        lines.append(_spread("fault to notice", noticed))
        lines.append(_spread("space to writes everywhere", resumed))
        lines.append(f"promises broken {len(self.broken)}")
        return "; ".join(line for line in lines if line)


def _spread(what: str, times_ms: list[int]) -> str:
    if not times_ms:
        return ""
    middle, longest = statistics.median(times_ms) / 1000, max(times_ms) / 1000
    return f"{what}: median {middle:.2f} s, longest {longest:.2f} s of {len(times_ms)}"


def plan(
    fills: int, faults: int, directories: int, only: str, rng: random.Random
) -> list[tuple[str, str]]:
    """("fill" or "fault", kind) of each blow: every kind with `only` in its name equally often, in
    random order.
    """
    blows = []
    for what, count, known in (
        ("fill", fills, disks_fills.KINDS),
        ("fault", faults, kinds(directories)),
    ):
        wanted = [kind for kind in known if only in kind]
        blows += [(what, wanted[n % len(wanted)]) for n in range(count if wanted else 0)]
    rng.shuffle(blows)
    return blows


def campaign(
    folder: Path, blows: list[tuple[str, str]], report: Report, *,
    directories: int, rate: int, rng: random.Random, end_ms: int,
) -> None:  # fmt: skip
    """Strike a new cluster with these blows; stops at `end_ms`. NotWithin or PylogError when it
    does not heal.
    """
    with Stage(folder, directories=directories, rate=rate, rng=rng) as stage:
        try:
            for number, (what, kind) in enumerate(blows):
                if now_ms() > end_ms:
                    report.broken.append(f"{len(blows) - number} blows not dealt: out of time")
                    break
                if number and number % BLOWS_PER_TOPIC == 0:
                    report.broken += wrongs(stage.end_topic())
                    stage.begin_topic()
                begin = now_ms()
                strike = (Fill if what == "fill" else Fault)(stage, kind)
                report.blows.append(strike.blow)
                try:
                    strike.strike()
                finally:
                    report.fills += what == "fill"
                    report.faults += what == "fault"
                    report.broken += strike.blow.broken
                    print(
                        f"{what:<5} {strike.blow} ({(now_ms() - begin) / 1000:.1f} s)", flush=True
                    )
            report.broken += wrongs(stage.end_topic())
        except (NotWithin, PylogError) as never:
            report.broken.append(str(never))
            for log in sorted((folder / "data" / "logs").glob("*.log")):
                end = log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
                print(f"--- {log.name}\n{end}", flush=True)
            raise
        finally:
            _add(report.verdict, stage.tally)
            report.broken += stage.crashes()


def _add(total: Verdict, more: Verdict) -> None:
    total.acknowledged += more.acknowledged
    total.lost += more.lost
    total.duplicated += more.duplicated
    total.out_of_order += more.out_of_order
    total.unknown += more.unknown
    total.longest_gap_ms = max(total.longest_gap_ms, more.longest_gap_ms)


def run(fills: int, faults: int, *, rate: int, seed: int, minutes: float, only: str = "") -> Report:
    """The whole campaign; prints each blow. A cluster that does not heal ends its half, which is
    in the report.
    """
    rng, report = random.Random(seed), Report()
    begin = now_ms()
    for directories in (2, 1):
        share = [n // 2 + (n % 2 if directories == 2 else 0) for n in (fills, faults)]
        blows = plan(*share, directories, only, rng)
        if not blows:
            continue
        end_ms = begin + int(minutes * 60_000 * (0.5 if directories == 2 else 1))
        with tempfile.TemporaryDirectory(prefix="pylog-disks-") as folder:
            try:
                campaign(
                    Path(folder), blows, report,
                    directories=directories, rate=rate, rng=rng, end_ms=end_ms,
                )  # fmt: skip
            except (NotWithin, PylogError) as never:
                print(f"given up with {directories} disks a broker: {never}", flush=True)
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fills", type=int, default=60)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--rate", type=int, default=200, help="records a second")
    parser.add_argument("--minutes", type=float, default=14, help="no blow begins later")
    parser.add_argument("--only", default="", help="blows with this in their name")
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    # A client whose records are refused says so each time.
    logging.getLogger("pylog").setLevel(logging.ERROR)
    print(f"seed {options.seed}", flush=True)
    begin = now_ms()
    try:
        disks_mounts.need_root()
        disks_mounts.keep_mounts_private()
        report = run(
            options.fills,
            options.faults,
            rate=options.rate,
            seed=options.seed,
            minutes=options.minutes,
            only=options.only,
        )
    except disks_mounts.DisksUnavailable as why:
        print(f"not run: {why}", file=sys.stderr)
        return UNAVAILABLE
    for each in report.broken:
        print(f"BROKEN: {each}")
    print(f"seed {options.seed}: {report}; {(now_ms() - begin) / 1000:.0f} s")
    return 1 if report.broken else 0


if __name__ == "__main__":
    sys.exit(main())
