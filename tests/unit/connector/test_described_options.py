"""The configuration page says something about every option that the format takes."""

from __future__ import annotations

from pylog_connector import option_names as options
from pylog_connector.described_options import DESCRIBED


def test_every_option_is_described() -> None:
    taken = {options.BOOTSTRAP, *options.SOURCE, *options.SINK}
    assert taken <= set(DESCRIBED), f"describe {taken - set(DESCRIBED)}"
