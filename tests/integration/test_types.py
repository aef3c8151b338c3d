"""Type checkers know pylog: the examples are right, and mistakes in settings and types are found,
with the package as a wheel installs it.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration

ROOT = Path(__file__).parents[2]
MISTAKES = """
import json

from pylog import AdminClient, Consumer, NewTopic, Producer, ShareConsumer, TopicPartition
from pylog.aio import AsyncConsumer, AsyncProducer

SERVERS = "127.0.0.1:9092"


def of_settings() -> None:
    Producer(bootstrap_servers=SERVERS, linger_ms=5, acks="all", compression_type="lz4").close()
    Producer({"bootstrap.servers": SERVERS, "linger.ms": 5}).close()
    Producer(bootstrap_servers=SERVERS, linger_sm=5)  # wrong
    Producer(bootstrap_servers=SERVERS, linger_ms="5 ms")  # wrong
    Producer(bootstrap_servers=SERVERS, acks="most")  # wrong
    Producer(bootstrap_servers=SERVERS, compression_type="zip")  # wrong
    Producer(bootstrap_servers=SERVERS, value_serializer=5)  # wrong
    Producer(bootstrap_servers=9092)  # wrong
    AdminClient(bootstrap_servers=SERVERS, group_id="g")  # wrong
    Consumer("t", bootstrap_servers=SERVERS, isolation_level="committed")  # wrong
    Consumer("t", bootstrap_servers=SERVERS, group_id=5)  # wrong
    Consumer("t", bootstrap_servers=SERVERS, enable_auto_commit="yes")  # wrong
    Consumer("t", bootstrap_servers=SERVERS, max_pol_records=5)  # wrong
    ShareConsumer("t", bootstrap_servers=SERVERS)  # wrong
    AsyncProducer(bootstrap_servers=SERVERS, batch_size="large")  # wrong


def of_values() -> None:
    with Consumer("t", bootstrap_servers=SERVERS) as plain:
        for record in plain.poll():
            assert record.value is not None
            print(record.value.hex())
            print(record.value.encode())  # wrong
    decoded = Consumer("t", bootstrap_servers=SERVERS, value_deserializer=lambda d: str(d, "utf-8"))
    for text in decoded:
        print(text.value.upper())
        print(text.value.hex())  # wrong
        print(text.offset.upper())  # wrong
    both = Consumer("t", bootstrap_servers=SERVERS, key_deserializer=len, value_deserializer=float)
    for number in both:
        print(number.key + 1, number.value.is_integer())
        print(number.key.upper())  # wrong
    loose = Consumer("t", bootstrap_servers=SERVERS, deserializer=json.loads)
    for anything in loose:
        print(anything.value["x"])


async def of_asyncio() -> None:
    async for record in AsyncConsumer("t", bootstrap_servers=SERVERS, deserializer=bytes.decode):
        print(record.value.upper())
        print(record.value.hex())  # wrong


def of_calls() -> None:
    with Producer(bootstrap_servers=SERVERS) as producer:
        print(producer.send("t", b"v").result().offset + 1)
        producer.send("t", b"v", partition="first")  # wrong
    with AdminClient(bootstrap_servers=SERVERS) as admin:
        admin.create_topics([NewTopic("t", 3)])
        admin.create_topics(["t"])  # wrong
        admin.delete_records({TopicPartition("t", 0): "all"})  # wrong
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter that has pylog from a wheel, and all else from where the tests run."""
    folder = tmp_path_factory.mktemp("types")
    build = [sys.executable, "-m", "build", "-q", "--wheel", "--no-isolation", "-o", folder]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "venv"], check=True)
    (packages,) = (folder / "venv").glob("lib/python*/site-packages")
    (wheel,) = folder.glob("pylog_spark-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    (packages / "beside.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "venv" / "bin" / "python"


def mypy(python: Path, folder: Path, *files: Path) -> tuple[int, list[str]]:
    """Its status and its lines, in a folder without settings."""
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", python, *files]
    done = subprocess.run(
        command,
        cwd=folder,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return done.returncode, done.stdout.splitlines()


def pyright(python: Path, folder: Path, *files: Path) -> list[tuple[str, int]]:
    """The file name and line number of each error, by the rules of pyright's own default."""
    settings = {"typeCheckingMode": "standard", "include": [str(file) for file in files]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", python]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, check=False, timeout=300
    )
    said = json.loads(done.stdout)
    assert said["summary"]["filesAnalyzed"] == len(files), done.stderr
    found = said["generalDiagnostics"]
    return [
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1)
        for each in found
        if each["severity"] == "error"
    ]


def test_the_examples_are_typed(python: Path, tmp_path: Path) -> None:
    examples = sorted((ROOT / "examples").rglob("*.py"))
    assert len(examples) >= 5
    status, lines = mypy(python, tmp_path, *examples)
    assert (status, lines) == (0, [f"Success: no issues found in {len(examples)} source files"])
    assert pyright(python, tmp_path, *examples) == []


def test_mistakes_are_found_and_nothing_else(python: Path, tmp_path: Path) -> None:
    program = tmp_path / "mistakes.py"
    program.write_text(MISTAKES)
    wrong = {n for n, line in enumerate(MISTAKES.splitlines(), 1) if line.endswith("# wrong")}
    assert len(wrong) >= 15
    _, lines = mypy(python, tmp_path, program)
    found = [re.match(r"mistakes\.py:(\d+): error: ", line) for line in lines]
    assert {int(each[1]) for each in found if each is not None} == wrong
    assert {line for _, line in pyright(python, tmp_path, program)} == wrong
