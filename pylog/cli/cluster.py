"""`pylog cluster`: who is in the cluster."""

from __future__ import annotations

import dataclasses

import click

from pylog.cli.context import Settings, print_json, print_table, with_settings


@click.group()
def cluster() -> None:
    """Look at the cluster."""


@cluster.command()
@with_settings
def describe(settings: Settings) -> None:
    """Show the cluster's id and its live brokers."""
    with settings.admin() as admin:
        found = admin.describe_cluster()
    if settings.as_json:
        print_json(dataclasses.asdict(found))
        return
    click.echo(f"cluster {found.cluster_id}, controller epoch {found.controller_epoch}")
    print_table(
        ("broker", "address", "rack", "epoch"),
        ((b.id, f"{b.host}:{b.port}", b.rack, b.epoch) for b in found.brokers),
    )
