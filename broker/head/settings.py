"""The settings of the controller and gateway. Imports cheaply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadSettings:
    """`data_dir` is the root: the metadata log lies in `controller/` below it."""

    data_dir: str
    brokers: int
    secret: bytes = field(repr=False)
    listen: str = "127.0.0.1:9092"
    advertised_host: str | None = None
    allow_plaintext: bool = False
    config: Mapping[str, str] = field(default_factory=dict)
    """Broker configuration by Kafka's names; the controller reads its own part of it."""
