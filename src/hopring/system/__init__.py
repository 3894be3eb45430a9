"""The operating system under daemons and clients: the real one, or a simulated one in its place."""
