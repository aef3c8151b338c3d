"""The share coordinator: the state of partitions of share groups, kept in `__share_group_state`."""
