"""Who forwards what to whom between sites: trees, pruning, the overlay network."""
