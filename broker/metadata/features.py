"""Features of the cluster, each at a level that all its brokers support (KIP-584).

There is one: `metadata.version`, which says what the metadata log may hold. It is raised by an
administrator when every broker runs a version that supports the new level, and never by itself: as
long as it stays, the brokers' version can be put back.

    level  what the metadata log may hold
    1      all but what is named below; a log without a record of its level has this one
    2      records of feature levels
    3      settings of groups
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from pylog_broker.metadata.records import FeatureRange

METADATA_VERSION: Final = "metadata.version"
FIRST_LEVEL: Final = 1
GROUP_SETTINGS_LEVEL: Final = 3
"""The level from which on groups have settings of their own."""
NEWEST_LEVEL: Final = 3
SUPPORTED: Final = (FeatureRange(METADATA_VERSION, FIRST_LEVEL, NEWEST_LEVEL),)
"""The levels that this version supports."""


def range_of(features: Iterable[FeatureRange], name: str) -> FeatureRange:
    """The levels that somebody supports. A version that does not tell has the first one of the
    metadata's, and none of any other feature's.
    """
    level = FIRST_LEVEL if name == METADATA_VERSION else 0
    return next((each for each in features if each.name == name), FeatureRange(name, level, level))


def level_of(finalized: Mapping[str, int], name: str) -> int:
    """The level of a feature in a cluster: finalized, or what goes without saying."""
    return finalized.get(name, FIRST_LEVEL if name == METADATA_VERSION else 0)
