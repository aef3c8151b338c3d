"""Addresses and listeners are checked before anything is bound."""

from __future__ import annotations

import resource
import socket
from pathlib import Path

import pytest

from pylog.errors import InvalidConfig
from pylog.model import BrokerId
from pylog_broker.node.settings import NodeSettings
from pylog_broker.process.addresses import (
    Address,
    check_listener,
    check_reachable,
    parse_address,
)
from pylog_broker.process.host import address_towards, is_this_machine, open_files_max
from pylog_broker.process.process import read_config
from pylog_broker.process.secret import read_secret


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:9092", Address("127.0.0.1", 9092)),
        ("[::1]:0", Address("::1", 0)),
        ("host.example:1", Address("host.example", 1)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_address(text, "listen") == address
    assert str(address) == text


@pytest.mark.parametrize("text", ["", "host", "host:", ":1", "host:70000", "host:-1", "host:x"])
def test_what_is_no_address_is_named(text: str) -> None:
    with pytest.raises(InvalidConfig, match="listen="):
        parse_address(text, "listen")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.8.9.1"])
def test_loopback_needs_no_consent(host: str) -> None:
    told = check_listener(Address(host, 0), "listen", allow_plaintext=False, advertised_host=None)
    assert told == host


def test_plaintext_beyond_loopback_needs_consent() -> None:
    address = Address("10.0.0.1", 0)
    with pytest.raises(InvalidConfig, match=r"allow\.plaintext"):
        check_listener(address, "listen", allow_plaintext=False, advertised_host=None)
    told = check_listener(address, "listen", allow_plaintext=True, advertised_host=None)
    assert told == "10.0.0.1"


def test_a_wildcard_cannot_be_told_to_clients() -> None:
    address = Address("0.0.0.0", 0)
    with pytest.raises(InvalidConfig, match="advertised"):
        check_listener(address, "listen", allow_plaintext=True, advertised_host=None)
    told = check_listener(address, "listen", allow_plaintext=True, advertised_host="me")
    assert told == "me"


@pytest.mark.parametrize("host", ["", "host:9092", "http://host", "my host", "host/path", "a\nb"])
def test_what_is_no_host_is_not_advertised(host: str) -> None:
    """Bad input 51."""
    with pytest.raises(InvalidConfig, match=r"advertised\.host="):
        check_listener(
            Address("127.0.0.1", 0), "listen", allow_plaintext=True, advertised_host=host
        )


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_51_all_interfaces_are_not_advertised(host: str) -> None:
    with pytest.raises(InvalidConfig, match=r"advertised\.host='.*' .* all interfaces.* give the"):
        check_listener(
            Address("127.0.0.1", 0), "listen", allow_plaintext=True, advertised_host=host
        )


@pytest.mark.parametrize(
    "host", ["broker-1.example.com", "10.1.2.3", "fe80::1", "::1", "müller.de"]
)
def test_hosts_that_may_be_advertised(host: str) -> None:
    address = Address("127.0.0.1", 0)
    assert check_listener(address, "l", allow_plaintext=True, advertised_host=host) == host


def test_loopback_is_no_address_for_brokers_of_another_driver() -> None:
    """Bad input 51: localhost on a remote cluster."""
    listener = Address("127.0.0.1", 0)
    check_reachable(
        listener, "broker.listen", told="127.0.0.1", controller="h:1", controller_is_here=True
    )
    with pytest.raises(InvalidConfig, match=r"spark\.pylog\.broker\.listen=0\.0\.0\.0:0"):
        check_reachable(
            listener, "broker.listen", told="localhost", controller="h:1", controller_is_here=False
        )


def test_a_machine_knows_its_own_addresses() -> None:
    assert is_this_machine("127.0.0.1")
    assert is_this_machine("localhost")
    assert is_this_machine(socket.gethostname())
    assert not is_this_machine("192.0.2.1")  # for documentation only: nobody has it
    assert not is_this_machine("no-such-host.invalid")
    assert address_towards("127.0.0.1", 9) == "127.0.0.1"
    assert address_towards("no-such-host.invalid", 9) == ""


def test_a_process_takes_as_many_files_as_it_may() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(512, before[1]), before[1]))
        assert open_files_max() == before[1]
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_short_secret_is_refused_and_never_shown() -> None:
    with pytest.raises(InvalidConfig, match="at least 16"):
        NodeSettings(data_dir="d", controller="c:1", secret=b"short")
    settings = NodeSettings(data_dir="d", controller="c:1", secret=b"s" * 32)
    assert "ssss" not in repr(settings)


def test_the_secret_leaves_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYLOG_CLUSTER_SECRET", "ab" * 32)
    assert read_secret(None) == b"\xab" * 32
    assert read_secret(None) == b""
    monkeypatch.setenv("PYLOG_CLUSTER_SECRET", "no hex")
    with pytest.raises(InvalidConfig, match="hexadecimal"):
        read_secret(None)


def test_settings_on_the_command_line() -> None:
    assert read_config(["a=1", "b = x=y", "a=2"]) == {"a": "2", "b": "x=y"}
    with pytest.raises(InvalidConfig, match="NAME=VALUE"):
        read_config(["nothing"])


def test_arguments_win_over_a_properties_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text("a=1\nb=2\n")
    assert read_config(["b=3"], str(file)) == {"a": "1", "b": "3"}
    with pytest.raises(InvalidConfig, match="No such file"):
        read_config([], str(tmp_path / "none"))


@pytest.mark.parametrize(("mode", "told"), [(0o600, []), (0o400, []), (0o640, ["640"])])
def test_a_secret_file_that_others_can_read_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: int, told: list[str]
) -> None:
    path = tmp_path / "secret"
    path.write_text("ab" * 32)
    path.chmod(mode)
    assert read_secret(str(path)) == b"\xab" * 32
    assert [line.message for line in caplog.records] == [
        f"the cluster secret in {path} can be read by other users (mode {each}): chmod 600 it"
        for each in told
    ]


def test_brokers_stand_in_their_racks_in_turn() -> None:
    settings = NodeSettings(
        data_dir="d", controller="c:1", secret=b"s" * 32, config={"a": "1"}, racks=("x", "y")
    )
    racks = [settings.of_broker(BrokerId(n)).config["broker.rack"] for n in (1, 2, 3)]
    assert racks == ["x", "y", "x"]
    assert settings.of_broker(BrokerId(1)).config["a"] == "1"
    plain = NodeSettings(data_dir="d", controller="c:1", secret=b"s" * 32)
    assert plain.of_broker(BrokerId(1)) is plain
