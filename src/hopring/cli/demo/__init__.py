"""The demonstration: three sites on one machine, a process per daemon, real sockets, a bad network."""
