"""Groups: their members, what these own, and the offsets that they have committed."""
