"""Spools: durable logs of a group's events. Each is a directory of segment files with a single writer."""
