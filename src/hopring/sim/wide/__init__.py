"""The long-haul service in the simulator: clusters, and the channels between them."""
