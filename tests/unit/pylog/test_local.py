"""The addresses at which a local cluster's gateway may listen."""

from __future__ import annotations

import socket

import pytest

from pylog import LocalCluster, errors


@pytest.mark.parametrize(
    ("listen", "error", "words"),
    [
        # bad input 51
        ("0.0.0.0:9092", errors.InvalidConfig, "listen='0.0.0.0:9092': a local cluster listens on"),
        ("[::]:9092", errors.InvalidConfig, "on loopback only"),
        ("10.0.0.1:9092", errors.InvalidConfig, "on loopback only"),
        ("example.org:9092", errors.InvalidConfig, "on loopback only"),
        ("", errors.InvalidConfig, "listen='': it must be host:port"),
        (":9092", errors.InvalidConfig, "it must be host:port"),
        ("127.0.0.1", errors.InvalidConfig, "it must be host:port"),
        ("127.0.0.1:http", errors.InvalidConfig, "it must be host:port"),
        ("127.0.0.1:65536", errors.InvalidConfig, "it must be host:port"),
    ],
)
def test_addresses_that_are_refused(listen: str, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as refused:
        LocalCluster(listen=listen)
    assert words in str(refused.value)


def test_a_port_in_use_is_named() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(errors.BrokerNotAvailable, match=f"listen='{address}': Address already"):
            LocalCluster(listen=address)
