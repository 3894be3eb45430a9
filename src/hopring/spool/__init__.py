"""Spools: durable logs of a group's ordered stream, each a directory of segment files with one writer."""
