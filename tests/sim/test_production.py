"""The production cores hold every invariant."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.sim.run import never_happened, run_seed, run_seeds

pytestmark = pytest.mark.sim

SEEDS = int(os.environ.get("PYLOG_SIM_SEEDS", "200"))
FIRST = int(os.environ.get("PYLOG_SIM_BASE", "700000"))
FIRST_OF_SHARES = int(os.environ.get("PYLOG_SIM_BASE", "4200000"))
FIRST_OF_SINKS = int(os.environ.get("PYLOG_SIM_BASE", "5200000"))


def test_seeds() -> None:
    sys.stdout.write(f"simulator: {SEEDS} seeds from {FIRST}\n")
    seeds = range(FIRST, FIRST + SEEDS)
    outcomes = run_seeds(seeds, stop_at_failure=True)
    failed = [outcome for outcome in outcomes if outcome.invariant]
    assert not failed, f"seeds from {FIRST}\n{failed[0].report}"
    assert len(outcomes) == len(seeds)
    if SEEDS >= 200:
        assert not never_happened(outcomes), f"seeds from {FIRST}: nothing of this was tried"


def test_seeds_of_share_groups() -> None:
    seeds = range(FIRST_OF_SHARES, FIRST_OF_SHARES + SEEDS // 40)
    sys.stdout.write(f"simulator: {len(seeds)} seeds of share groups from {seeds.start}\n")
    outcomes = run_seeds(seeds, stop_at_failure=True, shares=True)
    failed = [outcome for outcome in outcomes if outcome.invariant]
    assert not failed, f"seeds from {seeds.start}\n{failed[0].report}"
    assert len(outcomes) == len(seeds)
    if len(seeds) >= 100:
        missing = never_happened(outcomes, shares=True)
        assert not missing, f"seeds from {seeds.start}: nothing of this was tried"


def test_seeds_of_sinks() -> None:
    seeds = range(FIRST_OF_SINKS, FIRST_OF_SINKS + SEEDS // 50)
    sys.stdout.write(f"simulator: {len(seeds)} seeds of sinks from {seeds.start}\n")
    outcomes = run_seeds(seeds, stop_at_failure=True, sinks=True)
    failed = [outcome for outcome in outcomes if outcome.invariant]
    assert not failed, f"seeds from {seeds.start}\n{failed[0].report}"
    assert len(outcomes) == len(seeds)
    if len(seeds) >= 100:
        missing = never_happened(outcomes, sinks=True)
        assert not missing, f"seeds from {seeds.start}: nothing of this was tried"


@pytest.mark.parametrize(
    ("seed", "mode"), [(6100003, "groups"), (6200007, "transactions"), (6300004, "shares")]
)
def test_internal_topics_move(seed: int, mode: str) -> None:
    outcome = run_seed(
        seed,
        groups=mode == "groups",
        transactions=mode == "transactions",
        moves=True,
        shares=mode == "shares",
    )
    assert not outcome.invariant, outcome.report
    moved = [name for name in outcome.sometimes if name.endswith(": coordinator moved away")]
    assert moved, f"seed {seed}: no coordinator has moved"


@pytest.mark.parametrize("seed", [6400000, 6400001])
def test_moves_keep_to_a_rate(seed: int) -> None:
    outcome = run_seed(seed, throttles=True)
    assert not outcome.invariant, outcome.report
    assert outcome.sometimes["throttles: leader holds back"], f"seed {seed}: nothing was held back"


def test_offsets_of_share_groups_are_altered() -> None:
    outcome = run_seed(6500003, shares=True, offsets=True)
    assert not outcome.invariant, outcome.report
    assert outcome.sometimes["shares: delivered after an alteration"]


def test_share_groups_read_what_is_committed() -> None:
    outcome = run_seed(30, shares=True, transactions=True)
    assert not outcome.invariant, outcome.report
    assert outcome.sometimes["shares: record passed over, aborted"]
    assert outcome.sometimes["shares: leader changed while a record waited"]


def test_dead_letters_of_share_groups_get_there() -> None:
    outcome = run_seed(27, shares=True, dead_letters=True)
    assert not outcome.invariant, outcome.report
    assert outcome.sometimes["shares: record in the dead-letter topic"]
    assert outcome.sometimes["shares: dead letter there twice"]


def test_queries_go_on_in_the_place_of_others() -> None:
    outcome = run_seed(10, sinks=True, progress=True)
    assert not outcome.invariant, outcome.report
    assert outcome.sometimes["sinks: query goes on in the place of another one"]
    assert outcome.sometimes["sinks: query begins behind what was decided"]
    assert outcome.sometimes["sinks: earlier query refused"]


def test_the_trace_does_not_depend_on_the_hash_seed() -> None:
    code = (
        "from tests.sim.run import run_seed\n"
        "runs = [*map(run_seed, range(1, 5))]\n"
        "runs += [run_seed(seed, groups=True) for seed in (2, 13)]\n"
        "runs += [run_seed(seed, transactions=True) for seed in (2, 3)]\n"
        "runs += [run_seed(13, groups=True, transactions=True)]\n"
        "runs += [run_seed(4200003, shares=True)]\n"
        "runs += [run_seed(2, shares=True, transactions=True, dead_letters=True)]\n"
        "runs += [run_seed(5200001, sinks=True)]\n"
        "runs += [run_seed(10, sinks=True, progress=True)]\n"
        "print([(o.seed, o.hash, o.events) for o in runs])"
    )
    said = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert said[0] == said[1] != ""
