"""Producer, consumer and admin client: pure cores (accumulator, sender, fetcher, metadata) and the
shells that carry out what the cores decide.
"""
