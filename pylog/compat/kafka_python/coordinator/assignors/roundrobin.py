"""The roundrobin assignor."""


class RoundRobinPartitionAssignor:
    """One partition to each member in turn."""

    name = "roundrobin"
