"""The edge for framed streams: produce and fetch of pylog's clients without HTTP/2."""
