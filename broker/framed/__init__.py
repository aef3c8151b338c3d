"""The edge for framed TCP: produce, fetch and unary calls of pylog's clients without HTTP/2."""
