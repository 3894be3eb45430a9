"""Random generators, one per purpose, all grown from one seed.

A generator's name is its seed: asking for "path a->b loss" gives the same draws whatever else the world
contains, so adding a host or a fault does not shift the luck of the others.
"""

from random import Random


def generator(seed: int, purpose: str) -> Random:
    """The generator of this purpose. Text seeds are hashed the same way in every process."""
    return Random(f"{seed} {purpose}")
