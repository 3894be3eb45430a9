"""Sessions: what a client and its daemon say to each other, and the daemon's end of it."""
