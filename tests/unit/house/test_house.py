"""The house's own rules, as tests: documents that are true, functions that fit a screen."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PACKAGES = ["pylog", "broker", "connector", "pyspark_pylog"]
FUNCTION_LINES_MAX = 70

# Functions that were longer when the rule came. The list may only shrink.
LONG_FUNCTIONS: set[str] = set()


def sources() -> list[Path]:
    return [
        path
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if "generated" not in path.parts and "_pb2" not in path.name
    ]


def test_functions_fit_a_screen() -> None:
    long = set()
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                assert node.end_lineno is not None
                if node.end_lineno - node.lineno + 1 > FUNCTION_LINES_MAX:
                    long.add(f"{path.relative_to(ROOT)}:{node.name}")
    assert long == LONG_FUNCTIONS


@pytest.mark.parametrize("document", ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md"])
def test_paths_and_targets_that_documents_name_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for target in re.findall(r"`?make ([a-z-]+)", text):
        assert target in targets, target
    quoted = re.findall(r"`([a-z_]+/[\w./-]*|[\w-]+\.(?:py|md|toml|lock))`", text)
    missing = [path for path in quoted if not (ROOT / path).exists()]
    assert missing == []


@pytest.mark.parametrize("module", ["pylog", "connector", "pyspark_pylog"])
def test_import_is_cheap(module: str) -> None:
    heavy = "{'numba', 'grpc', 'pyarrow', 'pandas'}"
    code = f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
