"""Each error has a next step, which names commands and settings that exist, and docs/errors.md has
them all.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pylog import errors
from pylog.client.settings import CONSUMER_SETTINGS, PRODUCER_SETTINGS
from pylog.next_steps import next_step
from pylog_broker.config import BROKER_CONFIG, TOPIC_CONFIG

ROOT = Path(__file__).resolve().parents[2]
ERRORS = [
    error
    for error in vars(errors).values()
    if isinstance(error, type)
    and issubclass(error, errors.PylogError)
    and error is not errors.PylogError
]
TABLES = (BROKER_CONFIG, TOPIC_CONFIG, PRODUCER_SETTINGS, CONSUMER_SETTINGS)
NAMES = {key.name.replace("_", ".") for table in TABLES for key in table}


@pytest.mark.parametrize("error", ERRORS, ids=errors.error_name)
def test_every_error_has_a_next_step(error: type[errors.PylogError]) -> None:
    step = next_step(error)
    assert re.fullmatch(r"[A-Z`].*\.", step), step
    assert step != error.default_message


@pytest.mark.parametrize("error", ERRORS, ids=errors.error_name)
def test_settings_that_a_next_step_names_exist(error: type[errors.PylogError]) -> None:
    named = re.findall(r"`(?!error\.)([a-z]+(?:[._][a-z]+)+)(?:='?\w+'?)?`", next_step(error))
    assert [name for name in named if name.replace("_", ".") not in NAMES] == []


def test_the_page_is_up_to_date_and_names_every_code() -> None:
    done = subprocess.run(
        [sys.executable, "tools/errors_page.py", "--check"], cwd=ROOT, capture_output=True
    )
    assert (done.returncode, done.stderr) == (0, b"")
    page = (ROOT / "docs/errors.md").read_text()
    for error in errors.ERRORS_BY_CODE.values():
        assert f"\n| `{errors.error_name(error)}` | " in page
