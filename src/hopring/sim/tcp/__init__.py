"""A model of TCP over the simulated datagram network: an honest in-order stream beside Hop."""
