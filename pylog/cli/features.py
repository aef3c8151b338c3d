"""`pylog features`: levels that say what the cluster may write."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import click

from pylog.cli.context import Settings, print_json, print_table, with_settings
from pylog.model import FeatureDescription


@click.group()
def features() -> None:
    """Look at what all brokers support, and raise it."""


@features.command()
@with_settings
def describe(settings: Settings) -> None:
    """Show the level of each feature, and the levels that all brokers support."""
    with settings.admin() as admin:
        _show(settings, admin.describe_features())


@features.command()
@click.option(
    "--feature",
    "wanted",
    metavar="NAME=LEVEL",
    multiple=True,
    help="Raise this one to this level; default: each to the highest that all brokers support.",
)
@click.option("--dry-run", is_flag=True, help="Only tell what would be.")
@with_settings
def upgrade(settings: Settings, wanted: tuple[str, ...], dry_run: bool) -> None:
    """Raise features, when all brokers run a version that supports it. There is no way back: an
    earlier version cannot read what is written then.

    \b
    pylog features upgrade --dry-run
    pylog features upgrade --feature metadata.version=2
    """
    with settings.admin() as admin:
        levels = _levels(wanted)
        if not wanted:
            levels = {name: each.highest for name, each in admin.describe_features().items()}
        found = admin.update_features(levels, validate_only=dry_run)
    if dry_run and not settings.as_json:
        click.echo("this would be, nothing is changed:")
    _show(settings, found)


def _levels(wanted: tuple[str, ...]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for each in wanted:
        name, _, level = each.rpartition("=")
        if not name or not (level.isascii() and level.isdigit()):
            raise click.UsageError(f"--feature {each}: give NAME=LEVEL, as in metadata.version=2")
        levels[name] = int(level)
    return levels


def _show(settings: Settings, found: Mapping[str, FeatureDescription]) -> None:
    if settings.as_json:
        print_json([dataclasses.asdict(found[name]) for name in sorted(found)])
        return
    print_table(
        ("feature", "level", "lowest", "highest"),
        ((each.name, each.level, each.lowest, each.highest) for _, each in sorted(found.items())),
    )
