"""A broker's answers to clients: one handler for each API, values in, values out.

An edge (`broker/grpc`, `broker/framed`) turns its bytes into these values and back, and decides
nothing. No protocol is known here.
"""
