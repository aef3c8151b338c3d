"""Replication of partitions:

pure state machines for leader, follower and the broker's replica manager.
"""
