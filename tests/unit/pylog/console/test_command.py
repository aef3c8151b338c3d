"""`pylog console`: what it says when it begins, and of what it cannot begin with."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pylog.cli.main import main
from pylog.console import command, serving


def test_what_is_missing_is_named_with_what_brings_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "uvicorn" else name)
    assert main(["console"]) == 1
    said = capsys.readouterr().err
    assert (
        "needs uvicorn, which pylog-client leaves out: pip install 'pylog-client[console]'" in said
    )


@pytest.mark.parametrize("as_json", [False, True])
def test_the_address_is_told_when_it_serves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], as_json: bool
) -> None:
    async def serve(
        _options: Any, listener: socket.socket, _stop: asyncio.Event, ready: Callable[[str], None]
    ) -> None:
        listener.close()
        ready("http://127.0.0.1:9000")

    monkeypatch.setattr(serving, "serve", serve)
    assert main(["console", "--listen", "127.0.0.1:0", *(["--json"] if as_json else [])]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    if as_json:
        assert json.loads(out) == {"console": "http://127.0.0.1:9000"}
    else:
        assert out == "pylog console ready: http://127.0.0.1:9000/\n"


def test_a_port_in_use_is_told_with_one_advice(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        assert main(["console", "--listen", address]) == 1
    assert capsys.readouterr().err == (
        f"pylog: BROKER_NOT_AVAILABLE: --listen={address}: Address already in use; choose another "
        "port, or 0 for a free one\n"
    )


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "the file cannot be read: No such file or directory"),
        (b"\xff", "the file is no text in UTF-8; give a schema in JSON"),
        (b"{", "the schema is no JSON: "),
    ],
)
def test_a_schema_that_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], data: bytes | None, words: str
) -> None:
    path = tmp_path / "t.avsc"
    if data is not None:
        path.write_bytes(data)
    assert main(["console", "--avro-schema", f"t={path}"]) == 1
    said = capsys.readouterr().err
    assert said.startswith(f"pylog: INVALID_CONFIG: --avro-schema t={path}: {words}")
    assert said.count("t.avsc") == 1
