"""A cluster of real daemons on this machine, for trying things out and for tests: `hopring.local_cluster`."""
