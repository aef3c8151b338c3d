from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

import pylog

HEAVY = ("numba", "grpc", "pyarrow", "numpy", "pyspark", "google.protobuf", "asyncio")


def test_import_loads_nothing_heavy() -> None:
    code = (
        "import sys, pylog, pylog.errors, pylog.model, pylog.config\n"
        "from pylog import TopicPartition, NewTopic, errors\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there() -> None:
    for name in pylog.__all__:
        assert getattr(pylog, name) is not None
        assert name in dir(pylog)
    assert pylog.errors.MessageTooLarge.code == 10
    with pytest.raises(AttributeError, match="no attribute 'Nope'"):
        _ = pylog.Nope


def test_it_tells_its_version() -> None:
    assert pylog.__version__ == version("pylog-spark")
