"""Gathers the pages of the documentation for MkDocs; `make site` builds them.

`python tools/site.py` copies them to build/site-pages as they lie in the repository, so that links
work there as they do here, and makes a page that lists the decisions, and the pages of the API,
which mkdocstrings fills with the docstrings. With `--requirements` it prints what MkDocs is
installed by.
"""

from __future__ import annotations

import shutil
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "build/site-pages"
TOP = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")

API_PAGES = {
    "clients": (
        "Clients",
        "Each setting has Kafka's name with underscores; [the configuration](../configuration.md) "
        "lists them all.",
        ("Producer", "Consumer", "ShareConsumer", "AdminClient"),
    ),
    "asyncio": (
        "Clients for asyncio",
        "The calls of the [clients](clients.md), to be awaited.",
        ("aio",),
    ),
    "values": (
        "Values",
        "The values that calls take and return.",
        (
            *("Record", "RecordMetadata", "TopicPartition", "OffsetAndMetadata"),
            *("OffsetAndTimestamp", "NewTopic", "NewPartitions", "ConfigResource"),
            *("AlterConfigOp", "AcknowledgeType", "WriteReceipt", "write_receipts"),
        ),
    ),
    "errors": ("Errors", "All are `PylogError`s, with Kafka's codes and names.", ("errors",)),
    "testing": (
        "Clusters for tests",
        "See [testing](../testing.md) for how they are used.",
        ("LocalCluster", "testing"),
    ),
}
"""The title, the first words and the names below `pylog` of each page of the API."""


def gather() -> None:
    """The pages and nothing else, in an empty folder."""
    shutil.rmtree(PAGES, ignore_errors=True)
    PAGES.mkdir(parents=True)
    for name in TOP:
        shutil.copy(ROOT / name, PAGES / name)
    shutil.copytree(ROOT / "docs", PAGES / "docs")
    (PAGES / "docs/decisions/index.md").write_text(list_of_decisions())
    (PAGES / "docs/api").mkdir()
    for page, (title, words, names) in API_PAGES.items():
        objects = [f"::: pylog.{name}" for name in names]
        if page == "errors":  # most have their name and no more
            own = "    options:\n      inherited_members: false\n      show_if_no_docstring: true"
            objects = [f"{each}\n{own}" for each in objects]
        text = "\n\n".join([f"# {title}", words, *objects])
        (PAGES / f"docs/api/{page}.md").write_text(text + "\n")


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
