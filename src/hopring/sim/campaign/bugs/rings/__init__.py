"""Planted bugs of rings of peers: of the ring, of its recovery, and of calls."""
