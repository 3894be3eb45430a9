"""The campaign's worlds of independent clusters: the long-haul service under long cuts, judged by W1 to W17."""
