"""`pylog docs`: where documentation and notebooks are, a page, or all pages in a browser."""

from __future__ import annotations

import html
import sys
import urllib.parse
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

import click

from pylog import errors
from pylog.cli.context import Settings, print_json, with_settings
from pylog.cli.terminal import is_plain

FIRST_PAGE: Final = "README.md"
PARTS: Final = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "docs", "examples", "notebooks")
"""The parts that are shown, in an installed package and in a checkout, which has other files beside
them."""
STYLE: Final = (
    "body{max-width:60rem;margin:2rem auto;padding:0 1rem;font:1rem/1.5 sans-serif}"
    "pre,code{background:#f2f2f2}pre{padding:.7rem;overflow-x:auto}"
    "table{border-collapse:collapse}td,th{border:1px solid #bbb;padding:.2rem .5rem}"
)
_TEXTS: Final = (".py", ".ipynb", ".txt", ".yml")
_LOOPBACK: Final = ("127.0.0.1", "localhost")


@click.command()
@click.argument("page", required=False)
@click.option(
    "--serve",
    metavar="HOST:PORT",
    is_flag=False,
    flag_value="127.0.0.1:0",
    help="Show the pages in a browser, at this address of this machine. Default: a free port.",
)
@with_settings
def docs(settings: Settings, page: str | None, serve: str | None) -> int:
    """Print where documentation and notebooks are, or the page PAGE.

    \b
    pylog docs
    pylog docs operating
    pylog docs --serve
    """
    folder = documentation()
    if serve is not None:
        if page is not None:
            raise click.UsageError("--serve shows all pages; leave PAGE out")
        return _serve(settings, folder, serve)
    if page is not None:
        _print_page(settings, folder, page)
        return 0
    found = {"documentation": str(folder), "notebooks": str(folder / "notebooks")}
    if settings.as_json:
        print_json({**found, "pages": sorted(_pages(folder))})
        return 0
    for name, path in found.items():
        click.echo(f"{name}={path}")
    click.echo(f"pages: {', '.join(sorted(_pages(folder)))}")
    return 0


def documentation() -> Path:
    """The folder with README.md and docs: in the installed package, or the checkout's root."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "documentation", package.parent):
        if (folder / FIRST_PAGE).is_file() and (folder / "docs").is_dir():
            return folder
    raise errors.ResourceNotFound(
        f"the documentation is not beside the package 'pylog' ({package}); install the wheel of "
        "pylog-spark or pylog-client"
    )


def _pages(folder: Path) -> dict[str, Path]:
    """Every page by its name."""
    found = [folder / name for name in PARTS if name.endswith(".md")]
    found += (folder / "docs").glob("*.md")
    return {path.stem.lower(): path for path in found if path.is_file()}


def _print_page(settings: Settings, folder: Path, name: str) -> None:
    pages = _pages(folder)
    path = pages.get(name.lower().removesuffix(".md"))
    if path is None:
        raise click.UsageError(f"there is no page {name!r}; there are {', '.join(sorted(pages))}")
    if settings.as_json:
        print_json({"page": path.stem.lower(), "text": path.read_text(encoding="utf-8")})
        return
    if is_plain(sys.stdout):
        click.echo(path.read_text(encoding="utf-8"))
        return
    from rich.console import Console
    from rich.markdown import Markdown

    Console().print(Markdown(path.read_text(encoding="utf-8")))


def _serve(settings: Settings, folder: Path, address: str) -> int:
    host, _, number = address.rpartition(":")
    if host not in _LOOPBACK or not (number.isascii() and number.isdigit()):
        raise click.UsageError(f"--serve {address}: give 127.0.0.1:PORT; port 0 takes a free one")
    if int(number) > 65535:
        raise click.UsageError(f"--serve {address}: a port is at most 65535")
    try:
        server = DocumentationServer(folder, int(number))
    except OSError as error:
        raise click.ClickException(
            f"--serve {address}: {error.strerror}; choose another port, or 0 for a free one"
        ) from None
    with server:
        if settings.as_json:
            print_json({"url": server.url})
        else:
            click.echo(f"documentation at {server.url} until Ctrl-C")
        sys.stdout.flush()
        server.serve_forever()
    return 0


class DocumentationServer(ThreadingHTTPServer):
    """A running web server of this machine: the pages of a folder, and nothing beside them."""

    daemon_threads = True

    def __init__(self, folder: Path, port: int) -> None:
        super().__init__(("127.0.0.1", port), _Pages)
        self.folder = folder

    @property
    def url(self) -> str:
        """The address of the page."""
        return f"http://127.0.0.1:{self.server_address[1]}/"


class _Pages(BaseHTTPRequestHandler):
    server: DocumentationServer

    def do_GET(self) -> None:
        asked = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).lstrip("/")
        path = self._allowed(asked or FIRST_PAGE)
        if path is None:
            self.send_error(HTTPStatus.NOT_FOUND, "no such page")
            return
        if path.is_dir():
            self._answer(_shown(_listing(path, self.server.folder), path.name))
        elif path.suffix == ".md":
            self._answer(_shown(path.read_text(encoding="utf-8"), path.stem))
        else:
            self._answer(path.read_text(encoding="utf-8"), "text/plain")

    def _allowed(self, asked: str) -> Path | None:
        """The page or folder that is asked for, if it is one of ours."""
        if "\0" in asked:
            return None
        path = (self.server.folder / asked).resolve()
        if not path.is_relative_to(self.server.folder):
            return None
        part = path.relative_to(self.server.folder).parts
        if not part or part[0] not in PARTS:
            return None
        if path.is_dir() or (path.is_file() and path.suffix in (".md", *_TEXTS)):
            return path
        return None

    def _answer(self, text: str, kind: str = "text/html") -> None:
        body = text.encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads a line for each request."""


def _listing(path: Path, root: Path) -> str:
    names = sorted(item.name for item in path.iterdir() if not item.name.startswith(("_", ".")))
    home = path.relative_to(root)
    return f"# {home}\n\n" + "\n".join(f"- [{name}](/{home}/{name})" for name in names)


def _shown(text: str, title: str) -> str:
    """Markdown as a whole page. HTML within it is shown as it is written."""
    from markdown_it import MarkdownIt  # rich brings it

    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    links = " · ".join(f'<a href="/{name}">{name.removesuffix(".md")}</a>' for name in PARTS)
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>pylog: '
        f"{html.escape(title)}</title><style>{STYLE}</style></head>"
        f"<body><nav>{links}</nav><main>{body}</main></body></html>"
    )
