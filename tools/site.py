"""Gathers the pages of the documentation for MkDocs; `make site` builds them.

`python tools/site.py` copies them to build/site-pages as they lie in the repository, so that links
work there as they do here. With `--requirements` it prints what MkDocs is installed by.
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
