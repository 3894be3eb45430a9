"""A cluster of real daemons on this machine, for trials and tests: `hopring.local_cluster`."""
