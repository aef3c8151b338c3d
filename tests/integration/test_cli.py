"""The `pylog` command as a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pylog import LocalCluster
from pylog.cli import local as cli_local
from pylog.cli import restarts
from tests.fakes.waiting import eventually
from tests.verify.kills import free_port
from tests.verify.spark_cluster import default_sigint

PYLOG = (sys.executable, "-m", "pylog.cli.main")

pytestmark = [pytest.mark.integration, pytest.mark.slow]


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([*PYLOG, *arguments], input=stdin, capture_output=True, timeout=60)


def test_a_session_from_an_empty_folder_to_consumed_records(tmp_path: Path) -> None:
    local = subprocess.Popen(
        [*PYLOG, "local", "--brokers", "2", "--data-dir", str(tmp_path), "--json"],
        stdout=subprocess.PIPE,
    )
    try:
        assert local.stdout is not None
        servers = json.loads(local.stdout.readline())["bootstrap_servers"]
        at = ("-b", servers)
        assert run(*at, "topics", "create", "t", "--replication-factor", "2").returncode == 0
        done = run(*at, "produce", "t", stdin=b"one\ntwo\nthree\n")
        assert (done.returncode, done.stderr) == (0, b"3 records sent to t\n")
        done = run(*at, "consume", "t", "--from-beginning", "--max-messages", "3")
        assert (done.returncode, done.stdout) == (0, b"one\ntwo\nthree\n")
        assert run(*at, "topics", "create", "t").returncode == 1

        # The reader goes away: quietly.
        reading = subprocess.Popen(
            [*PYLOG, *at, "consume", "t", "--from-beginning"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert reading.stdout is not None
        assert reading.stdout.readline() == b"one\n"
        reading.stdout.close()
        done = run(*at, "produce", "t", stdin=b"x\n" * 100)
        assert done.returncode == 0
        assert reading.wait(20) == 141
        assert reading.stderr is not None
        assert reading.stderr.read() == b""
        reading.stderr.close()

        # Ctrl-C.
        reading = subprocess.Popen(
            [*PYLOG, *at, "consume", "t", "--from-beginning"],
            stdout=subprocess.PIPE,
            preexec_fn=default_sigint,
        )
        assert reading.stdout is not None
        assert reading.stdout.readline() == b"one\n"
        reading.send_signal(signal.SIGINT)
        assert reading.wait(20) == 130
        reading.stdout.close()

        # SIGTERM: the group is left.
        reading = subprocess.Popen(
            [sys.executable, "-m", "pylog.cli", *at, "consume", "t", "--group", "g",
             "--from-beginning"],
            stdout=subprocess.PIPE,
        )  # fmt: skip
        assert reading.stdout is not None
        assert reading.stdout.readline() == b"one\n"
        reading.terminate()
        assert reading.wait(20) == 143
        reading.stdout.close()
        (group,) = json.loads(run(*at, "groups", "describe", "g", "--json").stdout)
        assert (group["state"], group["members"]) == ("Empty", [])
    finally:
        local.send_signal(signal.SIGINT)
        assert local.wait(30) == 0
        assert local.stdout is not None
        local.stdout.close()


def test_a_cluster_runs_in_the_background_with_a_properties_file(tmp_path: Path) -> None:
    settings = tmp_path / "server.properties"
    settings.write_text("# of all brokers\nnum.partitions=3\nmessage.max.bytes : 5000\n")
    start = (
        "local", "--daemon", "--config-file", str(settings), "--config", "message.max.bytes=6000",
        "--data-dir", str(tmp_path / "data"),
    )  # fmt: skip
    done = run(*start, "--json")
    assert (done.returncode, done.stderr) == (0, b"")
    ready = json.loads(done.stdout)
    try:
        at = ("-b", ready["bootstrap_servers"])
        assert run(*at, "topics", "create", "t").returncode == 0
        (topic,) = json.loads(run(*at, "topics", "describe", "t", "--json").stdout)
        assert len(topic["partitions"]) == 3
        shown = json.loads(run(*at, "configs", "describe", "broker", "1", "--json").stdout)
        assert "6000" in json.dumps(shown)
        again = run(*start)
        assert again.returncode != 0
        assert again.stderr
    finally:
        os.kill(ready["pid"], signal.SIGTERM)
        eventually(30, lambda: not Path(f"/proc/{ready['pid']}").exists(), "it stops")
    assert Path(ready["log"]) == tmp_path / "data" / "logs" / "local.log"
    done = run("local", "--daemon")
    assert (done.returncode, b"--daemon needs --data-dir" in done.stderr) == (2, True)
    done = run("local", "--config-file", str(tmp_path / "none"))
    assert done.returncode == 2
    wrong = ("local", "--daemon", "--data-dir", str(tmp_path / "other"), "--config", "nonsense=1")
    words = "the controller: unknown broker setting nonsense"
    assert run(*wrong).stderr.decode() == f"pylog: INVALID_CONFIG: {words}\n"
    assert json.loads(run(*wrong, "--json").stderr)["message"] == words
    done = run(
        "local", "--daemon", "--data-dir", str(tmp_path / "data" / "logs" / "local.log" / "x")
    )
    assert b"cannot be used: Not a directory; give another folder" in done.stderr


def children(parent: int, module: str) -> list[int]:
    """The processes of a module that `parent` has started."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            after_name = status.read_text().rpartition(")")[2].split()
            command = (status.parent / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue  # it has ended meanwhile
        if int(after_name[1]) == parent and module.encode() in command:
            found.append(int(status.parent.name))
    return found


def test_a_process_that_ends_is_told_and_started_again(tmp_path: Path) -> None:
    local = subprocess.Popen(
        [*PYLOG, "local", "--brokers", "2", "--data-dir", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert local.stdout is not None
    assert local.stderr is not None
    try:
        at = ("-b", local.stdout.readline().decode().split("bootstrap=")[1].strip())
        assert run(*at, "topics", "create", "t", "--partitions", "4").returncode == 0
        for module in ("pylog_broker.node", "pylog_broker.head"):
            killed = children(local.pid, module)[0]
            os.kill(killed, signal.SIGKILL)
            told, again = (local.stderr.readline().decode() for _ in range(2))
            name = told.removeprefix("pylog: ").partition(" ended")[0]
            log = tmp_path / "logs" / f"{name.removeprefix('the ').replace(' ', '-')}.log"
            assert told == (
                f"pylog: {name} ended (killed by SIGKILL), its log is {log}; it is started again "
                "in 1 s\n"
            )
            assert again == f"pylog: {name} runs again\n"
            assert killed not in children(local.pid, module)
            assert log.exists()
        sent = run(*at, "--wait", "30", "produce", "t", stdin=b"x\n" * 100)
        assert (sent.returncode, sent.stderr) == (0, b"100 records sent to t\n")
        found = json.loads(run(*at, "cluster", "describe", "--json").stdout)
        assert [broker["fenced"] for broker in found["brokers"]] == [False, False]
    finally:
        local.send_signal(signal.SIGINT)
        assert local.wait(30) == 0
        assert local.stderr.read() == b""
        local.stdout.close()
        local.stderr.close()


def test_a_process_that_cannot_stay_alive_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(restarts, "FIRST_WAIT_MS", 10)
    monkeypatch.setattr(restarts, "STARTS_MAX", 2)
    monkeypatch.setattr(cli_local, "STARTS_MAX", 2)
    monkeypatch.setattr(cli_local, "LOOK_S", 0.01)
    with LocalCluster(1, data_dir=tmp_path) as cluster:
        cluster.kill(1)
        (tmp_path / "broker-1" / "meta.properties").write_text("nonsense")
        assert cli_local._watch(cluster, cli_local._Stop()) == 1
    err = capfd.readouterr().err
    assert err.count("broker 1 could not be started again: ") == 2
    assert re.search(r"broker 1 ended \(status \d+\) after 2 starts in a row and is not", err)
    assert err.endswith("pylog: the cluster stops: what it needs does not stay alive\n")


def test_a_cluster_listens_where_it_is_told_to(tmp_path: Path) -> None:
    port = free_port()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", port))
        busy = run("local", "--listen", f"127.0.0.1:{port}")
    assert busy.returncode == 1
    assert f"listen='127.0.0.1:{port}': Address already in use; choose an" in busy.stderr.decode()
    local = subprocess.Popen(
        [*PYLOG, "local", "--listen", f"127.0.0.1:{port}", "--config", "num.partitions=2"],
        stdout=subprocess.PIPE,
    )
    try:
        assert local.stdout is not None
        ready = local.stdout.readline().decode()
        assert ready.startswith(f"pylog ready: brokers=1 bootstrap=127.0.0.1:{port},")
        at = ("-b", f"127.0.0.1:{port}")
        assert run(*at, "topics", "create", "t").returncode == 0
        (topic,) = json.loads(run(*at, "topics", "describe", "--json").stdout)
        assert len(topic["partitions"]) == 2
    finally:
        local.send_signal(signal.SIGINT)
        assert local.wait(30) == 0
        assert local.stdout is not None
        local.stdout.close()


def test_wrong_settings_of_a_cluster_are_one_line(tmp_path: Path) -> None:
    for given, words in (
        (("--config", "num.partition=2"), "did you mean num.partitions?"),
        (("--config", "log.roll.hours=8"), "is not taken: set log.roll.ms"),
        (("--config", "log.segment.bytes=5"), "log.segment.bytes='5'"),
        (("--config", "num.partitions"), "write KEY=VALUE"),
        (("--rack", "a", "--rack", "b"), "--rack: 2 racks, but --brokers is 1"),
    ):
        done = run("local", "--data-dir", str(tmp_path / "data"), *given)
        assert done.returncode in (1, 2)
        assert words in done.stderr.decode()
        assert b"Traceback" not in done.stderr


def test_an_address_of_version_6_only() -> None:
    # bad input 63
    local = subprocess.Popen([*PYLOG, "local", "--listen", "[::1]:0"], stdout=subprocess.PIPE)
    try:
        assert local.stdout is not None
        ready = local.stdout.readline().decode()
        gateway = ready.partition("bootstrap=")[2].partition(",")[0]
        assert gateway.startswith("[::1]:")
        found = run("-b", gateway, "--routing", "gateway", "cluster", "describe", "--json")
        assert found.returncode == 0, found.stderr
        assert [broker["id"] for broker in json.loads(found.stdout)["brokers"]] == [1]
    finally:
        local.send_signal(signal.SIGINT)
        assert local.wait(30) == 0
        assert local.stdout is not None
        local.stdout.close()
