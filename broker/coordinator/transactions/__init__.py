"""Transactional ids: who may write under them, and how their transactions end (KIP-98, KIP-890)."""
