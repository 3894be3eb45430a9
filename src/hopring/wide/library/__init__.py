"""The library of the long-haul service: sets that are joined, conversations, multicasts, and their events."""
