"""Connections of clients: listening sockets, streams, and what slow clients spill to disk."""
