"""`pylog local --daemon`: the same command in a session of its own, left running."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

import click

from pylog.cli.context import Settings, print_json
from pylog.private_folders import make_private

LOG_TAIL_BYTES: Final = 2_000


def start_in_background(
    settings: Settings,
    brokers: int,
    listen: str | None,
    data_dir: Path,
    racks: Sequence[str],
    config: Mapping[str, str],
) -> int:
    """The exit status: 0 when the cluster is ready, and goes on without this process."""
    make_private(data_dir / "logs")
    log = data_dir / "logs" / "local.log"
    command = [
        sys.executable, "-m", "pylog.cli.main", "local", "--json",
        "--brokers", str(brokers), "--data-dir", str(data_dir),
    ]  # fmt: skip
    command += ["--listen", listen] if listen is not None else []
    for rack in racks:
        command += ["--rack", rack]
    for name, value in config.items():
        command += ["--config", f"{name}={value}"]
    with log.open("ab") as errors_to:
        began = errors_to.tell()
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors_to,
            start_new_session=True,
        )
    assert process.stdout is not None
    try:
        ready = _first_line(process.stdout)
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
            f"pylog ready: brokers={ready['brokers']} bootstrap={ready['bootstrap_servers']} "
            f"pid={process.pid} log={log}; `kill {process.pid}` stops it"
        )
    return 0


def _first_line(output: IO[bytes]) -> dict[str, object] | None:
    """The line that the command prints when it is ready, parsed; None when it ends before. The pipe
    is closed then: the command writes nothing more into it.
    """
    with output:
        line = output.readline()
    return json.loads(line) if line else None


def _tail(log: Path, began: int) -> str:
    """The end of what was written since the start."""
    with log.open("rb") as file:
        file.seek(began)
        return file.read()[-LOG_TAIL_BYTES:].decode(errors="replace")
