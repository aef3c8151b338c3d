"""`python -m tests.sim`: run seeds of the simulator and say what came of them.

python -m tests.sim --seed 17 --trace          one seed, with every event
python -m tests.sim --seeds 1..200 --jobs 2    many
python -m tests.sim --count 200                as many fresh ones; the first is printed
"""

from __future__ import annotations

import argparse
import secrets
import sys
from collections import Counter

from tests.sim.run import Outcome, never_happened, run_seed, run_seeds
from tests.sim.variants import VARIANTS

MODES = (
    "groups",
    "transactions",
    "moves",
    "shares",
    "sinks",
    "progress",
    "throttles",
    "dead_letters",
    "offsets",
)


def main() -> int:
    """The exit code: 0 when every seed held (or, with a variant, when it was caught)."""
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="the first seed; alone without --count")
    parser.add_argument("--seeds", help="A..B, both included")
    parser.add_argument("--count", type=int, help="so many seeds (200 fresh ones)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--variant", default="production", choices=sorted(VARIANTS))
    parser.add_argument("--groups", action="store_true", help="groups of consumers in all seeds")
    parser.add_argument(
        "--transactions", action="store_true", help="transactional producers in all seeds"
    )
    parser.add_argument(
        "--moves",
        action="store_true",
        help="partitions move in all seeds, also those of "
        "the internal topics that --groups, --transactions or --shares bring",
    )
    parser.add_argument(
        "--shares",
        action="store_true",
        help="share groups in all seeds, in place of other groups; with --transactions both",
    )
    parser.add_argument(
        "--sinks",
        action="store_true",
        help="queries whose batches count once in all seeds, in place of groups",
    )
    parser.add_argument(
        "--progress",
        action="store_true",
        help="queries that commit to a group what they have read, with --sinks",
    )
    parser.add_argument(
        "--throttles", action="store_true", help="partitions move in all seeds, at a rate"
    )
    parser.add_argument(
        "--dead-letters", action="store_true", help="a dead-letter topic, with --shares"
    )
    parser.add_argument(
        "--offsets", action="store_true", help="offsets of share groups are altered, with --shares"
    )
    parser.add_argument("--trace", action="store_true", help="print every event of --seed")
    parser.add_argument("--keep-going", action="store_true", help="do not stop at a failure")
    given = parser.parse_args()
    if given.shares and given.groups:
        parser.error("--shares runs without --groups: give one of them")
    if given.sinks and (given.groups or given.shares or given.transactions):
        parser.error("--sinks runs without --groups, --transactions and --shares")
    modes = {name: getattr(given, name) for name in MODES}
    if given.seed is not None and (given.count is None or given.count == 1):
        outcome = run_seed(given.seed, given.variant, _say if given.trace else None, **modes)
        _tell(outcome)
        _say(f"{outcome.events} events, trace {outcome.hash:08x}, {dict(outcome.sometimes)}")
        return 1 if outcome.invariant else 0
    if given.seeds:
        first, _, last = given.seeds.partition("..")
        seeds = range(int(first), int(last or first) + 1)
    else:
        base = secrets.randbelow(10**9) if given.seed is None else given.seed
        seeds = range(base, base + (given.count or 200))
    _say(f"seeds {seeds.start}..{seeds.stop - 1}, variant {given.variant}")
    outcomes = run_seeds(
        seeds,
        given.jobs,
        given.variant,
        stop_at_failure=not given.keep_going,
        heard=_tell,
        **modes,
    )
    return _sum_up(outcomes, len(seeds), given.variant, modes)


def _sum_up(outcomes: list[Outcome], wanted: int, variant: str, modes: dict[str, bool]) -> int:
    total: Counter[str] = Counter()
    for outcome in outcomes:
        total += outcome.sometimes
    for name, count in sorted(total.items()):
        _say(f"{count:9d} {name}")
    failed = [outcome for outcome in outcomes if outcome.invariant]
    _say(
        f"{len(outcomes)} seeds, {sum(o.events for o in outcomes)} events, {len(failed)} failed"
        + "".join(f"\n  seed {o.seed}: {o.invariant}" for o in failed)
    )
    if variant != "production":
        return 0 if failed else 1
    missing = never_happened(outcomes, **modes)
    if missing and len(outcomes) == wanted >= 100:
        _say(f"never happened, so nothing is proved about it: {', '.join(missing)}")
        return 1
    return 1 if failed else 0


def _tell(outcome: Outcome) -> None:
    if outcome.invariant:
        _say(outcome.report)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
