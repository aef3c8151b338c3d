"""Kafka's own protocol between brokers: replication, after a proof of the cluster's secret."""
