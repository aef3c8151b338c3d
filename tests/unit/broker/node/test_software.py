"""The version that a broker reports."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from pylog_broker.metadata.features import METADATA_VERSION, NEWEST_LEVEL
from pylog_broker.metadata.records import FeatureRange
from pylog_broker.node.software import DISTRIBUTION, NOT_INSTALLED, this_software


def test_the_highest_version_of_each_api_and_feature() -> None:
    software = this_software()
    assert software.name == "pylog"
    assert dict(software.apis)["Fetch"] == 18
    assert software.features == (FeatureRange(METADATA_VERSION, 1, NEWEST_LEVEL),)
    try:
        expected = version(DISTRIBUTION)
    except PackageNotFoundError:
        expected = NOT_INSTALLED
    assert software.version == expected
