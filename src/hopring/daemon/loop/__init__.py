"""The event loop of a daemon: descriptors, timers, and the bookkeeping of its sleeps."""
