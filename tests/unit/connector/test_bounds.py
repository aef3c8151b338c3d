"""What the driver's side makes of what the cluster answers."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from connector import bounds, errors
from connector.options import source_options


class Reader:
    """Knows topics of so many partitions."""

    def __init__(self, *counts: int) -> None:
        self.topics = {
            f"t{n}": SimpleNamespace(partitions=range(count)) for n, count in enumerate(counts)
        }

    def topics_where(self, wanted: object) -> dict[str, SimpleNamespace]:
        return self.topics


def test_59_a_pattern_that_finds_too_much_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bad input 59: a hundred thousand topics."""
    reader = Reader(bounds.PARTITIONS_MAX, 1)
    monkeypatch.setattr(bounds, "reader_for", lambda options: reader)
    options = {"pylog.bootstrap.servers": "h:1", "subscribePattern": ".*"}
    source = bounds.BoundsReader(source_options(options, streaming=True))
    with pytest.raises(errors.InvalidOption) as error:
        source.bounds()
    for word in ("subscribePattern='.*' finds 2 topics with 100001", "100000", "narrower"):
        assert word in str(error.value)
