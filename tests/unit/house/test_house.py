"""The house's own rules, as tests: documents that are true, functions that fit a screen."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from click import Context, Group

from pylog.cli.main import cli as CLI

ROOT = Path(__file__).parents[3]
PACKAGES = ["pylog", "broker", "connector", "pyspark_pylog"]
FUNCTION_LINES_MAX = 70
CONTEXT = Context(CLI)

DOCUMENTS = ["README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "CHANGELOG.md"]
DOCUMENTS += [f"{path.relative_to(ROOT)}" for path in sorted((ROOT / "docs").rglob("*.md"))]

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


def test_nothing_that_comes_from_outside_can_become_code() -> None:
    """No module reads a form whose reading runs what is in it."""
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text()))
        for name in imported(node)
        if name.split(".")[0]
        in {"pickle", "cloudpickle", "marshal", "shelve", "dill", "jsonpickle"}
    }
    assert found == set()


RUN_TEXT = {
    "eval", "exec", "yaml.load", "yaml.load_all", "yaml.unsafe_load", "yaml.full_load",
    "pandas.read_pickle", "pd.read_pickle", "joblib.load", "torch.load",
}  # fmt: skip


def test_no_text_is_run() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node.func)}"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and (
            ast.unparse(node.func) in RUN_TEXT
            or any(given.arg == "allow_pickle" for given in node.keywords)
        )
    }
    assert found == set()


def imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [node.module] if isinstance(node, ast.ImportFrom) and node.module else []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_and_targets_that_documents_name_exist(document: str) -> None:
    text = (ROOT / document).read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for target in re.findall(r"(?:`|^)make ([a-z-]+)", text, re.M):
        assert target in targets, target
    quoted = re.findall(r"`([a-z_]+/[\w./-]*|[\w-]+\.(?:py|md|toml|lock))`", text)
    folders = [ROOT, (ROOT / document).parent]
    quoted = [path for path in quoted if not path.startswith("build/")]  # made
    ours = [path for path in quoted if "/" not in path or (ROOT / path.split("/")[0]).exists()]
    assert [path for path in ours if not any((at / path).exists() for at in folders)] == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_commands_and_options_that_documents_name_are_taken(document: str) -> None:
    text = (ROOT / document).read_text()
    lines = re.findall(r"`pylog ([^`]+)`", text) + re.findall(r"^pylog ([^#\n]+)", text, re.M)
    for line in lines:
        command, options = CLI, {"--help"}
        for word in line.partition(" | ")[0].split():
            found = command.get_command(CONTEXT, word) if isinstance(command, Group) else None
            if found is not None:
                command = found
            elif re.match("--?[a-z]", word):
                known = (*CLI.params, *command.params)
                options.update(name for option in known for name in option.opts)
                assert word.partition("=")[0] in options, f"pylog {line}"
        assert command is not CLI or line.startswith("ready:"), f"pylog {line}"


def test_an_installation_brings_what_the_generated_code_asks_for() -> None:
    """Generated code refuses runtimes that are older than its generator."""
    generated = ROOT / "pylog" / "rpc" / "v1"
    stub = (generated / "log_pb2_grpc.py").read_text()
    messages = (generated / "log_pb2.py").read_text()
    grpcio = re.findall(r"^GRPC_GENERATED_VERSION = '([\d.]+)'", stub, re.M)
    protobuf = re.findall(r"^# Protobuf Python Version: ([\d.]+)", messages, re.M)
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert re.findall(r"^grpcio>=([\d.]+)", "\n".join(wanted), re.M) == grpcio
    assert re.findall(r"^protobuf>=([\d.]+)", "\n".join(wanted), re.M) == protobuf


@pytest.mark.parametrize("module", ["pylog", "pylog_connector", "pyspark_pylog"])
def test_import_is_cheap(module: str) -> None:
    heavy = "{'numba', 'grpc', 'pyarrow', 'pandas'}"
    code = f"import sys, {module}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_no_pipe_of_a_script_fails_because_it_ends_early() -> None:
    """Under `pipefail`, `... | grep -q` may fail by the broken pipe although it has found."""
    scripts = [*(ROOT / "tools").glob("*.sh"), ROOT / ".ci" / "run"]
    assert scripts
    for script in scripts:
        text = script.read_text()
        if "pipefail" in text:
            assert not re.search(r"\| *grep +-[a-z]*q", text), script
