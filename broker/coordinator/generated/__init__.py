"""Codecs generated from broker/coordinator/schemas: do not edit."""
