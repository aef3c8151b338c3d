"""Share groups on a running broker: the coordinator's shards, the way to those of other brokers,
and the partitions that this broker leads.
"""
