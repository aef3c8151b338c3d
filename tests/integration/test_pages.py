"""The code in the pages of the documentation runs, and the site has all pages.

`tests/spark/test_pages.py` runs the tutorial, which has a step in Spark.
"""

from __future__ import annotations

import contextlib
import io
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import pylog
from tools import site as site_pages

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))


def python_blocks(page: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(), re.DOTALL)


@pytest.mark.integration
def test_the_tests_of_the_page_about_testing(tmp_path: Path) -> None:
    fixtures, cluster, options = python_blocks("testing.md")
    (tmp_path / "test_page.py").write_text(fixtures)
    (tmp_path / "cluster.py").write_text(cluster)
    pytest_run = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_page.py"]
    for command in (pytest_run, [sys.executable, "cluster.py"]):
        done = subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        exec(options, {})
    shown = re.search(r"```text\n(.*?)```", (ROOT / "docs/testing.md").read_text(), re.DOTALL)
    assert shown is not None
    assert said.getvalue() == shown[1]


def paths_of(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    items = nav.values() if isinstance(nav, dict) else nav
    return [path for item in items for path in paths_of(item)]


def test_the_site_has_every_page_once() -> None:
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text())
    pages = [str(path.relative_to(ROOT)) for path in PAGES]
    pages += ["docs/decisions/index.md"]  # `tools/site.py` makes this one and those of the API
    pages += [f"docs/api/{page}.md" for page in site_pages.API_PAGES]
    top = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "README.md"]
    assert sorted(paths_of(site["nav"])) == sorted(pages + top)


def test_the_pages_of_the_api_have_every_public_name() -> None:
    names = [name for _, _, page in site_pages.API_PAGES.values() for name in page]
    assert sorted(names) == sorted([*pylog.__all__, "aio", "testing"])


def test_the_readme_links_every_page() -> None:
    readme = (ROOT / "README.md").read_text()
    assert [page.name for page in PAGES if f"](docs/{page.name})" not in readme] == []
