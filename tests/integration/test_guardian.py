"""One half of the driver is ended within two seconds when the other one dies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pylog.clock import SYSTEM_CLOCK
from pylog_broker.spark.guardian import command as guardian_command

pytestmark = pytest.mark.integration

ROOT = Path(__file__).resolve().parents[2]


def bystander(code: str = "import signal; signal.pause()") -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def guardian_of(*halves: subprocess.Popen[str], cwd: Path | None = None) -> subprocess.Popen[str]:
    command = guardian_command(*(half.pid for half in halves))
    guardian = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        text=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/src"},  # as the driver gives it its own places
    )
    assert guardian.stdout is not None
    assert guardian.stdout.readline() == "watching\n"
    return guardian


@pytest.mark.parametrize("victim", [0, 1])
def test_the_survivor_is_killed_within_two_seconds(victim: int) -> None:
    halves = [bystander(), bystander()]
    with guardian_of(*halves) as guardian, halves[0], halves[1]:
        started = SYSTEM_CLOCK.monotonic_ms()
        halves[victim].kill()
        assert halves[1 - victim].wait(5) == -signal.SIGKILL
        assert SYSTEM_CLOCK.monotonic_ms() - started < 2_000
        assert guardian.wait(5) == 0


def test_a_survivor_that_ends_in_order_is_left_alone() -> None:
    first = bystander()
    wait_for_it = f"poll.register(os.pidfd_open({first.pid})); poll.poll()"
    second = bystander(f"import os, select; poll = select.poll(); {wait_for_it}")
    with guardian_of(first, second) as guardian, first, second:
        first.kill()
        assert second.wait(5) == 0
        assert guardian.wait(5) == 0


def test_it_ignores_what_ctrl_c_sends_to_the_group() -> None:
    halves = [bystander(), bystander()]
    with guardian_of(*halves) as guardian, halves[0], halves[1]:
        guardian.send_signal(signal.SIGINT)
        guardian.send_signal(signal.SIGTERM)
        halves[0].kill()
        assert halves[1].wait(5) == -signal.SIGKILL
        assert guardian.wait(5) == 0


def test_a_users_module_of_a_standard_name_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "select.py").write_text("raise SystemExit('not the standard library')")
    halves = [bystander(), bystander()]
    with guardian_of(*halves, cwd=tmp_path) as guardian, halves[0], halves[1]:
        halves[0].kill()
        assert halves[1].wait(30) == -signal.SIGKILL
        assert guardian.wait(30) == 0
