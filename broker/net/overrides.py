"""The setting `max.connections.per.ip.overrides`: `address:limit`, separated by commas. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence

from pylog.errors import InvalidConfig


def parse_overrides(entries: Sequence[str]) -> Mapping[str, int]:
    """Limits by address; InvalidConfig names the entry that is none. Host names, which Kafka looks
    up once at its start, are refused.
    """
    limits = {}
    for entry in entries:
        host, _, number = entry.rpartition(":")
        host = host.strip().removeprefix("[").removesuffix("]")
        try:
            address = str(ipaddress.ip_address(host))
        except ValueError:
            address = ""
        if not address or not (number.isascii() and number.isdigit()) or len(number) > 9:
            raise InvalidConfig(
                f"max.connections.per.ip.overrides: {entry!r} must be address:limit, such as "
                "127.0.0.1:200"
            )
        limits[address] = int(number)
    return limits
