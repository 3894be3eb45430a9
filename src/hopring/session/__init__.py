"""Sessions: the protocol between a client and its daemon, and the daemon's end of it."""
