"""The controller as a part of a process: its metadata log, its time, its threads, and the Cluster
service that brokers call. It knows nothing of a gateway, so any process can host it.
"""
