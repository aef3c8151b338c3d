"""Gathers the pages of the documentation for MkDocs; `make site` builds them.

`python tools/site.py` copies them to build/site-pages as they lie in the repository, so that links
work there as they do here, and makes a page that lists the decisions. With `--requirements` it
prints what MkDocs is installed by.
"""

from __future__ import annotations

import shutil
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "build/site-pages"
TOP = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")


def gather() -> None:
    """The pages and nothing else, in an empty folder."""
    shutil.rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir(parents=True)
    for name in TOP:
        shutil.copy(ROOT / name, PAGES / name)
    shutil.copytree(ROOT / "docs", PAGES / "docs")
    (PAGES / "docs/decisions/index.md").write_text(list_of_decisions())


def list_of_decisions() -> str:
    """A page with the titles of all decisions, each a link."""
    lines = [
        "# Decisions",
        "",
        "Each page says what was decided, and why.",
        "",
    ]
    for path in sorted((ROOT / "docs/decisions").glob("*.md")):
        title = path.read_text().partition("\n")[0].removeprefix("# ")
        number, _, words = title.partition(". ")
        lines.append(f"- {number}: [{words}]({path.name})")
    return "\n".join(lines) + "\n"


def requirements() -> list[str]:
    """The group `site` of pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        found: list[str] = tomllib.load(file)["dependency-groups"]["site"]
    return found


def main() -> None:
    if "--requirements" in sys.argv[1:]:
        print(*requirements())
        return
    gather()


if __name__ == "__main__":
    main()
