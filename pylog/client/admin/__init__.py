"""Administrators' calls: topics, configurations, records and the cluster."""
