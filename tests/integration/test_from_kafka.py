"""The commands of the page about coming from Kafka run as they stand, one after the other."""

from __future__ import annotations

import io
import re
import shlex
import sys
from pathlib import Path

import pytest

from pylog.cli.main import main
from pylog.local import LocalCluster

pytestmark = pytest.mark.integration

PAGE = (Path(__file__).parents[2] / "docs" / "from-kafka.md").read_text()
COMMANDS = re.findall(r"^\| `(kafka-[a-z-]+\.sh .+)` \| `pylog (.+)` \|$", PAGE, re.MULTILINE)
PRINTED = {
    "topics list": "orders",
    "topics describe orders": "orders",
    "configs describe topic orders --changed": "retention.ms",
    "consume orders --from-beginning --max-messages 1": "2 pencils",
    "consume orders --from-beginning --group loader --timeout 3": "2 pencils",
    "groups list": "loader",
    "groups describe loader": "orders",
    "reassign plan orders --brokers 1,2": '"partitions"',
    "features describe": "metadata.version",
}
"""Words that a command's output has, where it is more than that the command was carried out."""


def test_each_of_kafkas_tools_has_its_place() -> None:
    assert len(COMMANDS) > 20
    assert {"kafka-topics", "kafka-consumer-groups", "kafka-configs", "kafka-transactions"} <= {
        theirs.partition(".sh")[0] for theirs, _ in COMMANDS
    }
    assert PRINTED.keys() <= {ours for _, ours in COMMANDS}


def test_the_commands(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with LocalCluster(2) as cluster:
        monkeypatch.setenv("PYLOG_BOOTSTRAP_SERVERS", cluster.bootstrap_servers)
        for theirs, ours in COMMANDS:
            typed = io.TextIOWrapper(io.BytesIO(b"anna:2 pencils\n"))
            monkeypatch.setattr(sys, "stdin", typed)
            status = main(shlex.split(ours))
            sys.stdout.flush()
            out, err = capfd.readouterr()
            assert status == 0, (theirs, ours, err)
            assert PRINTED.get(ours, "") in out, (ours, out)
