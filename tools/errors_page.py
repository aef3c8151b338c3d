"""Generates docs/errors.md from the classes of pylog/errors.py and their next steps:

`python tools/errors_page.py`, or with `--check` says whether it is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from pylog import errors
from pylog.next_steps import next_step

PAGE = Path(__file__).resolve().parent.parent / "docs/errors.md"

FAMILIES = (
    errors.PylogError,
    errors.RetriableError,
    errors.StaleMetadataError,
    errors.FatalError,
    errors.AbortableError,
)
"""Classes that only say how their subclasses are handled."""

HEAD = """\
# Errors

Each error of pylog has a name, mostly Kafka's, and a message that says which address, topic,
setting or limit is meant. This page says what to do next. The `pylog` command prints that behind
its error, and with `--json` as the field `next_step`. In Python the names are classes of
`pylog.errors` (`NO_OFFSET_FOR_PARTITION` is `NoOffsetForPartition`), and `error.retriable` says
whether the same call may succeed later. An error of a consumer that is about one partition has
`error.topic_partition`, and one about a topic `error.topic`; else they are None. Errors of Spark's
format begin with `[PYLOG_...]` and end with what to do.

| error | code | retriable | next step |
| --- | --- | --- | --- |
"""


def rows() -> Iterator[str]:
    """A line of the table for each error that has a code or that a client raises."""
    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    found = [each for each in kinds if issubclass(each, errors.PylogError) and each not in FAMILIES]
    for error in sorted(found, key=errors.error_name):
        code = error.code if "code" in vars(error) else ""
        retriable = "yes" if error.retriable else ""
        yield f"| `{errors.error_name(error)}` | {code} | {retriable} | {next_step(error)} |\n"


def main() -> int:
    text = HEAD + "".join(rows())
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(text)
        return 0
    if not PAGE.is_file() or PAGE.read_text() != text:
        print("not up to date, run `make docs`: docs/errors.md", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
