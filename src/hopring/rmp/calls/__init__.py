"""Multi-RPC: calls of processes that are not members, and the answers of those that are (paper 3.3, 4.5)."""
