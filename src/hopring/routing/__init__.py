"""Routing between sites: trees, pruning, the overlay network."""
