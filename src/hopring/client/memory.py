"""What the memory of a client's process is told before frames come.

Frames are blocks of up to some hundred kilobytes that come and go. By default the C library of Linux gives such
memory back to the kernel at once, which clears each page anew when it comes again: three tenths of a
receiver's time in a flood. How much it keeps it learns from the longest block that was given back so far.
"""

from functools import cache
from typing import Final

LONGEST_BYTES: Final = 8 * 1024 * 1024
"""Twice as much is kept then. It is never touched, so it takes no memory itself."""


@cache
def expect_blocks() -> None:
    """Once for a process; where the application has set the C library otherwise, that stays as it is."""
    bytearray(LONGEST_BYTES)
