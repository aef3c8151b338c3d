"""The README's session and commands run, and print what the README says."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

README = (Path(__file__).parents[2] / "README.md").read_text()


def test_the_session_prints_what_the_readme_shows(tmp_path: Path) -> None:
    found = re.search(r"```python\n(.*?)```\s+```text\n(.*?)```", README, re.DOTALL)
    assert found is not None
    session, output = found.groups()
    done = subprocess.run(
        [sys.executable, "-c", session],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert done.stdout == output


def block_after(heading: str) -> list[str]:
    """The lines of the first block of code below a heading, without their remarks."""
    found = re.search(rf"^## {heading}\n+```\n(.*?)```", README, re.DOTALL | re.MULTILINE)
    assert found is not None
    return [line.partition(" #")[0].strip() for line in found[1].splitlines()]


def test_the_commands_do_what_the_readme_says(tmp_path: Path) -> None:
    """As written, but for the port, which may be in use here, and the size of the bench."""
    submit, local, *others = block_after("Using it")
    assert submit.startswith("spark-submit ")  # the tests of the broker application run it
    program = f"{sys.executable} -m pylog.cli.main "
    command = local.replace("pylog ", program, 1).replace(":9092", ":0").split()
    # Nobody reads what it says later on: it would be a line.
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as cluster:
        try:
            assert cluster.stdout is not None
            ready = cluster.stdout.readline()
            found = re.match(r"pylog ready: brokers=3 bootstrap=([0-9.:]+),", ready)
            assert found is not None, ready
            shown = {}
            for line in others:
                given = line.replace("127.0.0.1:9092", found[1]).replace("1000000", "20000")
                done = subprocess.run(
                    ["bash", "-c", re.sub(r"\bpylog (?=\S)", program, given)],
                    cwd=tmp_path,
                    env={**os.environ, "PYLOG_BOOTSTRAP_SERVERS": found[1]},
                    capture_output=True,
                    text=True,
                    timeout=120,
                )
                assert done.returncode == 0, (line, done.stderr)
                shown[line] = done.stdout
        finally:
            cluster.send_signal(signal.SIGINT)
            cluster.wait(60)
    assert shown["pylog consume greetings --from-beginning --until-end"] == "hello\n"
