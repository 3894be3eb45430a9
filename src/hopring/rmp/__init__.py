"""RMP: total order among processes over IP multicast, without daemons."""
