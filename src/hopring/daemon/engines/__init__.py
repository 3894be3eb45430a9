"""Engines on a daemon's sockets and loop."""
