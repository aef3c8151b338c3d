"""`pylog local --daemon`: the same command in a session of its own, left running."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

import click

from pylog import errors
from pylog.cli.context import Settings, print_json
from pylog.private_folders import make_private

LOG_TAIL_BYTES: Final = 2_000
READY: Final = "pylog ready: "
"""So begins the line, for people, of a cluster that is ready."""


def start_in_background(
    settings: Settings,
    brokers: int,
    listen: str | None,
    data_dir: Path,
    racks: Sequence[str],
    config: Mapping[str, str],
) -> int:
    """The exit status: 0 when the cluster is ready, and goes on without this process."""
    try:
        make_private(data_dir / "logs")
    except OSError as error:
        raise errors.InvalidConfig(
            f"--data-dir {data_dir} cannot be used: {error.strerror}; give another folder"
        ) from error
    log = data_dir / "logs" / "local.log"
    command = [
        sys.executable, "-m", "pylog.cli.main", "local",
        "--brokers", str(brokers), "--data-dir", str(data_dir),
    ]  # fmt: skip
    command += ["--json"] if settings.as_json else []  # the form of its errors, too
    command += ["--listen", listen] if listen is not None else []
    for rack in racks:
        command += ["--rack", rack]
    for name, value in config.items():
        command += ["--config", f"{name}={value}"]
    with log.open("ab") as log_file:
        began = log_file.tell()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log_file,
            start_new_session=True,
        )
    assert process.stdout is not None
    try:
        ready = _ready(_first_line(process.stdout))
    except BaseException:  # Ctrl-C, say: what is not ready yet is not wanted any more
        process.terminate()
        process.wait()
        raise
    if ready is None:
        click.echo(_tail(log, began), err=True, nl=False)
        return process.wait() or 1
    ready |= {"pid": process.pid, "log": str(log)}
    if settings.as_json:
        print_json(ready)
    else:
        click.echo(
            f"{READY}brokers={ready['brokers']} bootstrap={ready['bootstrap_servers']} "
            f"pid={process.pid} log={log}; `kill {process.pid}` stops it"
        )
    return 0


def _first_line(output: IO[bytes]) -> str:
    """The line that the command prints when it is ready; empty when it ends before. The pipe is
    closed then: the command writes nothing more into it.
    """
    with output:
        return output.readline().decode()


def _ready(line: str) -> dict[str, object] | None:
    """The facts in the line, in words or as JSON, that a command prints when it is ready; None
    without a line.
    """
    if not line:
        return None
    if not line.startswith(READY):
        told: dict[str, object] = json.loads(line)
        return told
    said = dict(part.split("=", 1) for part in line.removeprefix(READY).split())
    return {"bootstrap_servers": said["bootstrap"], "brokers": int(said["brokers"])}


def _tail(log: Path, began: int) -> str:
    """The end of what was written since the start."""
    with log.open("rb") as file:
        file.seek(began)
        return file.read()[-LOG_TAIL_BYTES:].decode(errors="replace")
