"""The setting `log.dirs`: what it may hold, and what a broker makes of it."""

from __future__ import annotations

import pytest

from pylog.errors import InvalidConfig
from pylog_broker.config import BrokerConfig
from pylog_broker.log_dirs import directories_of, roots_of


def test_without_it_a_broker_has_one_directory() -> None:
    assert BrokerConfig.from_mapping({}).log_dirs == ()
    assert directories_of("/data", 3, ()) == ["/data/broker-3"]
    assert roots_of("/data", ()) == ["/data"]


def test_each_broker_has_directories_of_its_own() -> None:
    given = BrokerConfig.from_mapping({"log.dirs": "/disk1/, /disk2,fast/one"}).log_dirs
    assert given == ("/disk1/", "/disk2", "fast/one")
    assert directories_of("/data", 2, given) == [
        "/disk1/broker-2",
        "/disk2/broker-2",
        "/data/broker-2/fast/one",
    ]
    assert roots_of("/data", given) == ["/data", "/disk1", "/disk2"]


def test_the_directory_of_before_can_be_one_of_them() -> None:
    given = BrokerConfig.from_mapping({"log.dirs": ".,/disk2"}).log_dirs
    assert directories_of("/data", 1, given) == ["/data/broker-1", "/disk2/broker-1"]
    assert directories_of("/data", 1, ("/data", "/disk2"))[0] == "/data/broker-1"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("/a,/b,/a/", "'/a' and '/a/' is twice the same directory; give it once"),
        ("d,d", "'d' is twice the same directory"),
        ("/a,/a/b", "'/a/b' lies in '/a'; give directories that stand beside each other"),
        (".,d1", "'d1' lies in '.'"),
        ("../other", "'../other' leads out of the broker's directory; give an absolute path"),
        ("a/../../b", "leads out"),
        ("a\0b", "is no path; remove it"),
    ],
)
def test_what_cannot_be_is_named(value: str, said: str) -> None:
    with pytest.raises(InvalidConfig, match=r"log\.dirs") as caught:
        BrokerConfig.from_mapping({"log.dirs": value})
    assert said in str(caught.value)
