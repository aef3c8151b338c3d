"""Reads of fixed offset ranges, for those who plan their own work."""
