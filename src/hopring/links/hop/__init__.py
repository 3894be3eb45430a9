"""Hop: a reliable, unordered link between two sites over datagrams."""
