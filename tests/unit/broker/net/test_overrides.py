"""`max.connections.per.ip.overrides`."""

from __future__ import annotations

import pytest

from pylog.errors import InvalidConfig
from pylog_broker.net.overrides import parse_overrides


def test_addresses_of_both_kinds() -> None:
    assert parse_overrides([]) == {}
    given = ["127.0.0.1:200", "[::1]:3", "fd00:0::7:5"]
    assert parse_overrides(given) == {"127.0.0.1": 200, "::1": 3, "fd00::7": 5}


@pytest.mark.parametrize("entry", ["127.0.0.1", "127.0.0.1:", "host:5", ":5", "1.2.3.4:-1", "x"])
def test_what_is_none_is_named(entry: str) -> None:
    with pytest.raises(InvalidConfig, match=r"max\.connections\.per\.ip\.overrides: '.*' must be"):
        parse_overrides([entry])
