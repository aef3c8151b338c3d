"""Every example of every `--help`, typed into a shell beside a cluster that has what they name.

An example that would go on until Ctrl-C, or takes long, is shortened as `SHORTER` says; nothing
else is changed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from pylog import AdminClient, LocalCluster, NewTopic, Producer, errors
from pylog.cli.main import cli
from pylog.model import OffsetAndMetadata, TopicPartition
from tests.verify.spark_cluster import default_sigint

pytestmark = [pytest.mark.integration, pytest.mark.slow]

SHORTER = (
    (r"--records \d{4,}", "--records 500"),
    (r"--seconds 10", "--seconds 1"),
    (r"--interval 10", "--interval 0.2"),
    (r"^pylog top$", "pylog top --count 2 --interval 0.2"),
    (r"^(pylog consume (?!.*--until-end).*)$", r"\1 --timeout 3"),
    (r"127\.0\.0\.1:(9092|9000)", "127.0.0.1:0"),
    (r"^pylog console$", "pylog console --listen 127.0.0.1:0"),
    (r"^(pylog -b .* console)", r"\1 --listen 127.0.0.1:0"),
    (r" --daemon$", ""),  # else it is left running
    (r"--brokers 2,3,4", "--brokers 1,2,3"),  # there is no broker 4
)
PARTITIONS = 4
UNTIL_CTRL_C = re.compile(r"pylog (-b \S+ )?(local|console|docs --serve)\b")
REFUSED = {
    "pylog features upgrade --feature metadata.version=2": "metadata.version",
    "pylog transactions abort --topic orders --partition 3 --start-offset 1200": "orders",
}
"""Examples for a state that this cluster is not in: they say which."""


def examples() -> list[str]:
    """The lines of helps that call pylog, without the words behind them."""
    found: list[str] = []

    def look(command: click.Command) -> None:
        for block in (command.help or "").split("\b\n")[1:]:
            for line in block.split("\n\n")[0].splitlines():
                example = re.split(r"\s{4,}", line.strip())[0]
                if "pylog " in example:
                    found.append(example)
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                look(inner)

    look(cli)
    return list(dict.fromkeys(found))


EXAMPLES = examples()


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 50
    assert set(REFUSED) <= set(EXAMPLES)


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(3) as running:
        yield running


@pytest.fixture(scope="module")
def home(cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the files that examples name; the cluster has their topics and groups."""
    folder = tmp_path_factory.mktemp("home")
    (folder / "flights.csv").write_text("".join(f"flight {number}\n" for number in range(9)))
    (folder / "server.properties").write_text("log.retention.ms=60000\n")
    fields = {"type": "record", "name": "flight", "fields": [{"name": "carrier", "type": "string"}]}
    (folder / "flights.avsc").write_text(json.dumps(fields))
    moves = [{"topic": "orders", "partition": 0, "replicas": [3, 1, 2]}]
    (folder / "plan.json").write_text(json.dumps({"version": 1, "partitions": moves}))
    (folder / ".config/fish/completions").mkdir(parents=True)
    return folder


def is_about_topics(example: str) -> bool:
    """Whether it leaves other topics behind, or other settings of topics."""
    return re.match(r"pylog (topics (create|alter)|configs alter)", example) is not None


def prepare(cluster: LocalCluster, example: str, before_this: str) -> Producer | None:
    """The topics and groups that examples name, but for what this one makes."""
    where = {"bootstrap_servers": cluster.bootstrap_servers}
    made = re.match(r"pylog topics create (\w+)", example)
    with AdminClient(**where) as admin:
        there = set(admin.list_topics())
        found = admin.describe_topics(sorted({"flights", "orders"} & there))
        changed = {
            name
            for name, topic in found.items()
            if is_about_topics(before_this) or len(topic.partitions) != PARTITIONS
        }
        if made is not None:
            changed |= {made[1]} & there
        if changed:
            admin.delete_topics(sorted(changed))
        there -= changed
        wanted = (
            {"flights", "orders", "payments", "copy", "jobs"}
            - there
            - ({made[1]} if made else set())
        )
        if wanted:
            admin.create_topics([NewTopic(name, PARTITIONS, 3) for name in sorted(wanted)])
            with Producer(**where) as producer:
                for name in sorted(wanted):
                    for number in range(40):
                        producer.send(name, f"{number}", key=f"{number}")
        if example.startswith("pylog groups") or "__consumer_offsets" in example:
            at = {TopicPartition("flights", 0): OffsetAndMetadata(1)}
            for group in ("loader", "flights-loader"):
                admin.alter_group_offsets(group, at)
    if "abort orders-loader-1" in example:
        open_one = Producer(transactional_id="orders-loader-1", **where)
        open_one.init_transactions()
        open_one.begin_transaction()
        open_one.send("orders", "of a transaction").result(20)
        return open_one
    return None


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_does_what_it_says(cluster: LocalCluster, home: Path, example: str) -> None:
    open_one = prepare(cluster, example, EXAMPLES[EXAMPLES.index(example) - 1])
    line = example
    for long, short in SHORTER:
        line = re.sub(long, short, line)
    if shutil.which("jq") is None:
        line = re.sub(r"\| jq .*", f"| {sys.executable} -m json.tool", line)
    try:
        status, out, err = typed(line, cluster, home)
    finally:
        if open_one is not None:
            with contextlib.suppress(errors.PylogError):  # it was aborted
                open_one.close(timeout=5)
    if example in REFUSED:
        assert (status, REFUSED[example] in err) == (1, True), err
    else:
        assert status == 0, err
    assert "Traceback" not in err
    if UNTIL_CTRL_C.match(example):
        assert out


def typed(line: str, cluster: LocalCluster, home: Path) -> tuple[int, str, str]:
    """Status, output and errors of a line in bash; one that goes on gets Ctrl-C when it runs."""
    environment = {
        **os.environ,
        "HOME": str(home),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "PYLOG_BOOTSTRAP_SERVERS": cluster.bootstrap_servers,
    }
    command = f'{sys.executable} -m pylog.cli.main "$@"'
    shell = f'set -o pipefail; fpath=(- "$HOME"); pylog() {{ {command}; }}'
    process = subprocess.Popen(
        ["bash", "-c", f"{shell}; {line}"],
        cwd=home,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",  # benches send random bytes
        start_new_session=True,
        preexec_fn=default_sigint,
    )
    if not UNTIL_CTRL_C.match(line):
        try:
            out, err = process.communicate("y\n", timeout=120)
        except subprocess.TimeoutExpired:  # nothing is left running behind a failure
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise
        return process.returncode, out, err
    assert process.stdout is not None
    first = process.stdout.readline()
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=60)
    return (0 if process.returncode in (0, 130) else process.returncode), first + out, err
