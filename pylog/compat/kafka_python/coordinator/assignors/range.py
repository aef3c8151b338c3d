"""The range assignor."""


class RangePartitionAssignor:
    """Topic by topic, in ranges."""

    name = "range"
