"""Connections of clients: listening sockets, streams, and backlogs of slow clients on disk."""
