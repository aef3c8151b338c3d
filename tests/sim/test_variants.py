"""Each known bug, put in on purpose, is caught; else the checks of the simulator prove little."""

from __future__ import annotations

import pytest

from tests.sim.run import run_seed, run_seeds
from tests.sim.variants import VARIANTS

pytestmark = [pytest.mark.sim, pytest.mark.slow]

SEEDS_MAX = 1_000


@pytest.mark.parametrize("variant", sorted(VARIANTS.keys() - {"production"}))
def test_a_known_bug_is_caught(variant: str) -> None:
    if run_seed(VARIANTS[variant].caught_by, variant).invariant:
        return
    outcomes = run_seeds(range(1, SEEDS_MAX + 1), variant=variant, stop_at_failure=True)
    assert outcomes[-1].invariant, f"{variant} was not caught in {SEEDS_MAX} seeds"
