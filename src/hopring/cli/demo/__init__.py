"""The demonstration: three sites on one machine, a process per daemon, real sockets, and a bad network between."""
