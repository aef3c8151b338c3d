"""`pylog docs`: the documentation that came with the package, and nothing else."""

from __future__ import annotations

import json
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from pylog import errors
from pylog.cli import docs
from pylog.cli.main import main

ROOT = Path(__file__).parents[4]


def test_it_says_where_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs"]) == 0
    documentation, notebooks, pages = capsys.readouterr().out.splitlines()
    assert documentation == f"documentation={ROOT}"
    assert notebooks == f"notebooks={ROOT / 'notebooks'}"
    assert pages.startswith(
        "pages: adding-brokers, architecture, changelog, coming-from-kafka-clients, "
    )
    assert main(["docs", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["notebooks"] == str(ROOT / "notebooks")
    assert {"readme", "operating", "spark"} <= set(told["pages"])


@pytest.mark.parametrize("name", ["operating", "Operating.md"])
def test_a_page(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["docs", name]) == 0
    text = (ROOT / "docs" / "operating.md").read_text()
    assert capsys.readouterr().out == text + "\n"
    assert main(["docs", name, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"page": "operating", "text": text}


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["docs", "--serve", address]) == 1
    assert capsys.readouterr().err == (
        f"pylog: --serve {address}: Address already in use; choose another port, or 0 for a free "
        "one\n"
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nope"], "there is no page 'nope'; there are adding-brokers, architecture, "),
        (["../pyproject"], "there is no page"),
        (["operating", "--serve"], "--serve shows all pages"),
        (["--serve", "0.0.0.0:80"], "--serve 0.0.0.0:80: give 127.0.0.1:PORT"),
        (["--serve", "127.0.0.1:x"], "give 127.0.0.1:PORT"),
        (["--serve", "127.0.0.1:70000"], "a port is at most 65535"),
    ],
)
def test_what_cannot_be_shown(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["docs", *arguments]) == 2
    assert words in capsys.readouterr().err


def test_a_package_without_documentation_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docs, "__file__", str(tmp_path / "pylog" / "cli" / "docs.py"))
    with pytest.raises(errors.ResourceNotFound, match="install the wheel"):
        docs.documentation()
    (tmp_path / "pylog" / "documentation" / "docs").mkdir(parents=True)
    (tmp_path / "pylog" / "documentation" / "README.md").touch()
    assert docs.documentation() == tmp_path / "pylog" / "documentation"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "secret.md").write_text("not for the web")
    home = tmp_path / "home"
    (home / "docs").mkdir(parents=True)
    (home / "README.md").write_text("# Hello\n\n| a | b |\n|---|---|\n| 1 | <b>x</b> |\n")
    (home / "docs" / "page.md").write_text("[up](../README.md)")
    (home / "docs" / "link.md").symlink_to(tmp_path / "secret.md")
    (home / "other.md").write_text("not a part")
    (home / "examples").mkdir()
    (home / "examples" / "one.py").write_text("print('<script>')")
    with docs.DocumentationServer(home, 0) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.url
        server.shutdown()
        thread.join()


def got(url: str) -> tuple[str, str]:
    with urllib.request.urlopen(url, timeout=10) as answer:
        return answer.headers["Content-Type"], answer.read().decode()


def test_pages_are_served_as_html_and_nothing_in_them_runs(site: str) -> None:
    kind, page = got(site)
    assert kind == "text/html; charset=utf-8"
    assert "<h1>Hello</h1>" in page
    assert "<td>&lt;b&gt;x&lt;/b&gt;</td>" in page
    assert '<a href="../README.md">up</a>' in got(f"{site}docs/page.md")[1]
    assert '<a href="/docs/page.md">page.md</a>' in got(f"{site}docs")[1]
    kind, code = got(f"{site}examples/one.py")
    assert (kind, code) == ("text/plain; charset=utf-8", "print('<script>')")


@pytest.mark.parametrize(
    "path",
    ["other.md", "nope", "docs/nope.md", "../secret.md", "docs/../../secret.md", "%2e%2e/secret.md",
     "docs/link.md", "%00", "/etc/passwd", "docs/%2e%2e/other.md"],
)  # fmt: skip
def test_other_files_are_not(site: str, path: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        got(site + path)
    assert refused.value.code == 404
    refused.value.close()
