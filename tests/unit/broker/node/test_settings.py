"""Addresses and listeners are checked before anything is bound."""

from __future__ import annotations

import pytest

from broker.node.process import read_config, read_secret
from broker.node.settings import Address, NodeSettings, check_listener, parse_address
from pylog.errors import InvalidConfig


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
