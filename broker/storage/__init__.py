"""Logs on disk: a broker's directories, the logs in them, their segments and indexes."""
