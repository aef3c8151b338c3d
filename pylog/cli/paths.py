"""`pylog paths`: where spark-submit finds its main file and its settings, Grafana its dashboard."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import click

from pylog import errors
from pylog.cli.context import Settings, print_json, with_settings


@click.command()
@with_settings
def paths(settings: Settings) -> int:
    """Print where broker_app.py, spark-conf and the dashboard are."""
    folder = resources()
    found = {
        "broker_app": str(folder / "broker_app.py"),
        "spark_conf": str(folder / "spark-conf"),
        "monitoring": str(folder / "monitoring"),
    }
    if settings.as_json:
        print_json(found)
    else:
        for name, path in found.items():
            click.echo(f"{name}={path}")
    return 0


def resources() -> Path:
    """The folder with broker_app.py and spark-conf: in the installed package, or in a checkout.

    Found by name, without importing the broker.
    """
    spec = importlib.util.find_spec("pylog_broker")
    roots = list(spec.submodule_search_locations or ()) if spec is not None else []
    for root in roots:
        for folder in (Path(root) / "spark" / "resources", Path(root).resolve().parent):
            if (folder / "broker_app.py").is_file() and (folder / "spark-conf").is_dir():
                return folder
    raise errors.ResourceNotFound(
        f"broker_app.py and spark-conf are not beside the package 'pylog_broker' "
        f"({', '.join(roots) or 'not installed'}); install the wheel of pylog-spark"
    )
