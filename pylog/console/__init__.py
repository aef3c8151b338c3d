"""The console: a cluster's topics, records, groups and brokers as web pages.

A client of the cluster like any other: it asks by `AdminClient`, reads by `Consumer` and writes by
`Producer`. `python -m pylog.console` is the process; `pylog console`, `LocalCluster(console=True)`
and the Spark driver start it.
"""
