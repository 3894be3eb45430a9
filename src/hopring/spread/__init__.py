"""The client protocol of Spread 4 and 5: the daemon's side, and the codec of the client's."""
