"""Finds ports that are not in use."""

import random
import socket

_dice = random.Random()


def free_base_port(count: int) -> int:
    """The first of `count` consecutive ports that are free on loopback, for UDP and TCP."""
    for _ in range(200):
        base = _dice.randrange(20_000, 32_000 - count)
        if all(_is_free(base + offset) for offset in range(count)):
            return base
    raise OSError("no free ports on loopback")


def _is_free(port: int) -> bool:
    for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
        with socket.socket(socket.AF_INET, kind) as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True
