"""Codecs between the values of `broker/api` and pylog's own messages, which two edges speak."""
