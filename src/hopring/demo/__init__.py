"""`hop demo`: three sites of real daemons, clients in groups, a partition and a merge, and a verdict."""
