"""The sticky assignor."""


class StickyPartitionAssignor:
    """As few moves as possible."""

    name = "sticky"
