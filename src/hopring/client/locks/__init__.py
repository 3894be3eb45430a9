"""Locks at the client: claims, calls that wait for them, and what applications hold."""
