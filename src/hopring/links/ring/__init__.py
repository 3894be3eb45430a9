"""Ring: reliable multicast inside a site by a rotating token."""
