"""The production cores hold every invariant on fresh seeds."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from pathlib import Path

import pytest

from tests.sim.run import never_happened, run_seeds

pytestmark = pytest.mark.sim

FRESH = int(os.environ.get("PYLOG_SIM_SEEDS", "200"))


def _base() -> int:
    """Fresh for each state of the sources, the same for everybody who has it; any without git."""
    told = os.environ.get("PYLOG_SIM_BASE")
    if told is not None:
        return int(told)
    try:
        tree = subprocess.check_output(
            ["git", "rev-parse", "HEAD^{tree}"],
            cwd=Path(__file__).parent,
            text=True,
            stderr=subprocess.DEVNULL,
        )
    except (OSError, subprocess.CalledProcessError):
        return secrets.randbelow(10**9)
    return int(tree[:7], 16)


def test_fresh_seeds() -> None:
    base = _base()
    sys.stdout.write(f"simulator: {FRESH} seeds from {base}\n")
    outcomes = run_seeds(range(base, base + FRESH), stop_at_failure=True)
    failed = [outcome for outcome in outcomes if outcome.invariant]
    assert not failed, f"seeds from {base}\n{failed[0].report}"
    assert len(outcomes) == FRESH
    if FRESH >= 200:
        assert not never_happened(outcomes), f"seeds from {base}: nothing of this was tried"


def test_the_trace_does_not_depend_on_the_hash_seed() -> None:
    code = (
        "from tests.sim.run import run_seed\n"
        "print([(o.seed, o.hash, o.events) for o in map(run_seed, range(1, 5))])"
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
