"""Free ports for daemons that a test starts later, or kills and starts again."""

from collections import deque
from typing import Final

from hopring.local.ports import ReservedPorts

_KEPT: Final = 30
"""More clusters than a test, and the fixtures that it shares with others, have at once."""

_reserved: deque[ReservedPorts] = deque()


def free_base_port(count: int) -> int:
    """The first of `count` consecutive ports that are free on loopback, for UDP and TCP.

    They stay reserved for a while, because other workers look for ports too before daemons have bound theirs.
    """
    _reserved.append(ReservedPorts(count))
    while len(_reserved) > _KEPT:
        _reserved.popleft().release()
    return _reserved[-1].base
