"""Codecs generated from broker/kafka/schemas: do not edit."""
