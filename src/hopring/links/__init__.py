"""One neighbour, or one local ring: Hop, TCP and Ring as state machines without I/O."""
