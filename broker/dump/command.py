"""`pylog dump`: what stands in a data directory's files, for people and for machines.

Installed as an entry point of the group `pylog.commands`; nothing here connects to a cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pylog.cli import failures
from pylog.cli.context import Settings, print_json, with_settings

if TYPE_CHECKING:
    from pylog_broker.dump.rows import Row


@click.command()
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True, path_type=Path))
@click.option("--batches-only", is_flag=True, help="Of logs, the batches without their records.")
@click.option("--segments", is_flag=True, help="Only logs, and one line for each segment.")
@with_settings
def dump(settings: Settings, paths: tuple[Path, ...], batches_only: bool, segments: bool) -> int:
    """Decode the files of a data directory.

    PATH is a file, or a directory with all below it: logs with their records, offset and time
    indexes (compared with their log), aborted transactions, producers' snapshots, checkpoints, the
    metadata log and its snapshots. The exit status is 1 when a file does not make sense; nothing
    is changed.
    """
    # what decodes is not loaded for `pylog --help`
    from pylog_broker.dump.rows import BadFile, rows_of
    from pylog_broker.dump.segments import segment_rows

    damaged = 0
    for path in paths:
        several = path.is_dir() or len(paths) > 1
        for file in _files(path):
            try:
                rows = segment_rows(file) if segments else rows_of(file)
                if rows is None:
                    if file == path:
                        raise BadFile("no file of a data directory; its name says its kind")
                    continue
                if settings.as_json:
                    _print_json(rows, file if several else None, batches_only)
                else:
                    _print_text(rows, file, batches_only)
            except BrokenPipeError:
                raise  # the reader of the output has seen enough
            except (BadFile, OSError) as error:
                if isinstance(error, FileNotFoundError) and file != path:
                    continue  # a broker that runs has deleted it meanwhile
                damaged += 1
                failures.tell_error(error, lead=f"{file}: ", file=str(file))
    return 1 if damaged else 0


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for below in sorted(path.rglob("*")):
        if below.is_file() and not _is_text_of_a_process(below):
            yield below


def _is_text_of_a_process(file: Path) -> bool:
    """`pylog local` keeps such logs beside the data; a segment's name begins with its offset."""
    return ".log" in file.suffixes and not file.name[:20].isdigit()


def _print_json(rows: Iterator[Row], file: Path | None, batches_only: bool) -> None:
    for row in rows:
        if (row["kind"] == "batch") != batches_only and row["kind"] in ("batch", "record"):
            continue
        shown = {name: value for name, value in row.items() if name != "kind"}
        if file is not None:
            shown = {"file": str(file), **shown}
        print_json(shown)


def _print_text(rows: Iterator[Row], file: Path, batches_only: bool) -> None:
    click.echo(f"{file}:")
    count = 0
    for row in rows:
        count += 1
        if batches_only and row["kind"] == "record":
            continue
        parts = (f"{name}: {_shown(v)}" for name, v in row.items() if name != "kind")
        indent = "    " if row["kind"] == "record" else "  "
        click.echo(indent + "  ".join(parts))
    if not count:
        click.echo("  (nothing in it)")


def _shown(value: object) -> str:
    if isinstance(value, str) and value.isprintable() and value:
        return value
    return json.dumps(value, ensure_ascii=False)
