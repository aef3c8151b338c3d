"""Coordinators: state of groups, transactions and share groups, as replay of internal topics."""
