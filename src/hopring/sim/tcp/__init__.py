"""A model of TCP over the simulated datagram network: an in-order stream to compare Hop with."""
