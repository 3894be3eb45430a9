"""Several clusters of this machine, joined by the long-haul service, for trials and tests."""
