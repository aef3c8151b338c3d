"""`pylog console` where what it is made of is not installed."""

from __future__ import annotations

import pytest

from pylog.cli.main import main
from pylog.console import command


def test_what_is_missing_is_named_with_what_brings_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "uvicorn" else name)
    assert main(["console"]) == 1
    said = capsys.readouterr().err
    assert (
        "needs uvicorn, which pylog-client leaves out: pip install 'pylog-client[console]'" in said
    )
