"""Sockets between daemons: datagrams, TCP streams of links, multicast, and a shaper for tests."""
