"""Waiting: deadlines in a timing wheel, operations in a purgatory."""
