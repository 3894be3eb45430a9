"""Tables 1 and 2 of the long-haul paper: milliseconds for a message, on two Sparcstations of 1990.

Makpangou and Birman (1990), as printed. 12.95 stands twice in the row of channels, so one of these two is not
what was measured; the whole system has no row in table 2.
"""

from typing import Final

SIZES: Final = (0, 4, 64, 256, 512, 1024)

TCP: Final = "tcp"
CHANNEL: Final = "channel"
CBCAST: Final = "cbcast"
WHOLE: Final = "everything"
LAYERS: Final = (TCP, CHANNEL, CBCAST)
"""The rows below the whole service: each has what is below it."""

STREAM: Final = 1
REQUEST: Final = 2
"""The numbers of the tables: 99 messages and then one back; a message there and one back."""

PAPER_MS: Final[dict[tuple[int, str], tuple[float, ...]]] = {
    (STREAM, TCP): (2.02, 2.06, 2.35, 2.42, 2.72, 3.44),
    (STREAM, CHANNEL): (9.38, 12.95, 9.98, 12.95, 10.41, 12.01),
    (STREAM, CBCAST): (10.36, 13.42, 11.10, 10.85, 12.86, 14.25),
    (STREAM, WHOLE): (94.66, 103.72, 103.73, 128.38, 171.21, 131.43),
    (REQUEST, TCP): (7.38, 8.31, 7.94, 13.15, 15.03, 11.37),
    (REQUEST, CHANNEL): (23.29, 23.22, 23.97, 23.91, 47.79, 27.81),
    (REQUEST, CBCAST): (26.69, 26.67, 26.36, 26.13, 28.17, 30.64),
}


def paper_ms(table: int, row: str, size_bytes: int) -> float | None:
    """What the paper has there; None for another size, or no row."""
    figures = PAPER_MS.get((table, row))
    return figures[SIZES.index(size_bytes)] if figures is not None and size_bytes in SIZES else None
