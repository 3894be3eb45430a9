"""One process of RMP with all its groups, in the place where daemons have their groups."""
