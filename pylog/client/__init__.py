"""Producer, consumer and admin client: pure cores (`sending`, `fetching`, `cluster.metadata`) and
the shells that carry out what the cores decide.
"""
