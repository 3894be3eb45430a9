"""Benches of blocks, at real daemons: each is a module to run."""
