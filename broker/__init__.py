"""pylog brokers and controller:

what `broker_app.py` and `LocalCluster` run. Nothing outside this package imports it.
"""
