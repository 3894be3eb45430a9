"""`hop demo`: three sites of real daemons, clients in groups, a partition, a merge, and a verdict."""
