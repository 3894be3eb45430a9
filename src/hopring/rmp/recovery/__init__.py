"""Recovery from failures: attempts with ballots, votes, sync points, and the commit of a new list."""
