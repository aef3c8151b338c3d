"""The cluster's one address that clients need to know: bootstrap, administration, and connections
that are passed on to brokers. It knows the controller only by its metadata and by what may be asked
of it.
"""
