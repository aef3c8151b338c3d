"""Options that `pylog produce` and the benches share."""

from __future__ import annotations

import click

from pylog.client.settings import PRODUCER_SETTINGS

ACKS = click.option(
    "--acks",
    type=click.Choice(["0", "1", "all"]),
    default="all",
    show_default=True,
    help="Replicas that have a record before it counts as sent: none, the leader, or all in sync.",
)
COMPRESSION = click.option(
    "--compression",
    type=click.Choice(list(PRODUCER_SETTINGS["compression_type"].choices or ())),
    default="none",
    show_default=True,
    help="How batches of records are compressed.",
)
