"""Share groups (KIP-932): who is a member, and which partitions each reads beside others."""
