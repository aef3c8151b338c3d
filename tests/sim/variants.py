"""The production cores, and test-only copies of them with one known bug each.

A variant overrides one decision of a core while it is installed. Each must be caught by the
simulator: a checker that has never failed is not evidence. The rows cited (B-R..) are those of
the reference of known bugs, each once in a real system.
"""

from __future__ import annotations

from tests.sim.client_variants import CLIENT_VARIANTS
from tests.sim.controller_variants import CONTROLLER_VARIANTS
from tests.sim.group_variants import GROUP_VARIANTS
from tests.sim.move_variants import MOVE_VARIANTS
from tests.sim.replication_variants import REPLICATION_VARIANTS
from tests.sim.share_variants import SHARE_VARIANTS
from tests.sim.sink_variants import SINK_VARIANTS
from tests.sim.storage_variants import STORAGE_VARIANTS
from tests.sim.throttle_variants import THROTTLE_VARIANTS
from tests.sim.transaction_variants import TRANSACTION_VARIANTS
from tests.sim.variant import Variant

VARIANTS: dict[str, Variant] = {
    "production": Variant(
        "the cores as they are",
        groups=None,
        transactions=None,
        moves=None,
        racks=None,
        dead_letters=None,
        progress=None,
    ),
    **CLIENT_VARIANTS,
    **CONTROLLER_VARIANTS,
    **GROUP_VARIANTS,
    **MOVE_VARIANTS,
    **REPLICATION_VARIANTS,
    **SHARE_VARIANTS,
    **SINK_VARIANTS,
    **STORAGE_VARIANTS,
    **THROTTLE_VARIANTS,
    **TRANSACTION_VARIANTS,
}
