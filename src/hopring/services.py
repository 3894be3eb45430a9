"""The six services, from the weakest promise to the strongest."""

from enum import IntEnum
from typing import Final


class Service(IntEnum):
    """What a message is promised; the number is the one on the wire."""

    UNRELIABLE = 1
    RELIABLE = 2
    FIFO = 3
    CAUSAL = 4
    AGREED = 5
    SAFE = 6


SERVICES: Final = {int(service): service for service in Service}
"""By their numbers: to look one up takes a fraction of what it takes to make one."""

UNRELIABLE = Service.UNRELIABLE
RELIABLE = Service.RELIABLE
FIFO = Service.FIFO
CAUSAL = Service.CAUSAL
AGREED = Service.AGREED
SAFE = Service.SAFE
