"""What the memory of a daemon is told at its start.

A daemon takes and gives back blocks of a packet's size thousands of times a second. By default the C library
gives such memory back to the kernel at once and asks for it again, which then clears each page anew: a tenth of
the time of a daemon under load.
"""

import ctypes
import gc
from typing import Final

COLLECT_OBJECTS: Final = 50_000
"""So many more objects than before make the collector look for cycles."""

KEPT_BYTES: Final = 64 * 1024 * 1024
"""So much may lie unused before any of it goes back to the kernel."""

MAPPED_BYTES_MIN: Final = 4 * 1024 * 1024
"""Blocks from this size on are mapped by themselves, and go back as soon as they are free."""

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


def spare_the_collector() -> None:
    """Messages make no cycles; to look for some after every few hundred objects costs a tenth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(COLLECT_OBJECTS)


def keep_memory() -> bool:
    """Asks the C library to keep what is free for the next packet; whether it knows how to."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:  # That of glibc does.
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES) and mallopt(_M_MMAP_THRESHOLD, MAPPED_BYTES_MIN))
