"""The client protocol of Spread 4 and 5, as a server has to speak it."""
