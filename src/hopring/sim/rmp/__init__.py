"""Peers of RMP in virtual time: their rings on a faulty network, and what an observer sees of them."""
