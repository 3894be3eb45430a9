"""Quantities with their units: "200ms", "1MiB", "20Mbit"."""

import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

_QUANTITY: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?([A-Za-z]{1,5})(/s)?")


@dataclass(frozen=True, slots=True)
class Quantity:
    """A kind of quantity, with its units as multiples of the stored integer."""

    name: str
    kept_in: str
    example: str
    units: dict[str, Fraction]
    written: tuple[str, ...]  # The largest first; the last divides everything.
    per_second: bool = False  # Whether "/s" may follow the unit.

    def read(self, text: str) -> int:
        """The quantity as an integer; ValueError says what is wrong."""
        found = _QUANTITY.fullmatch(text)
        if found is None or found[2] not in self.units or (found[3] and not self.per_second):
            raise ValueError(f"is not a {self.name}")
        value = Fraction(found[1]) * self.units[found[2]]
        if value.denominator != 1:
            raise ValueError(f"is no whole number of {self.kept_in}")
        return int(value)

    def write(self, value: int) -> str:
        """The shortest text that reads as this value, in the largest unit that divides it."""
        for unit in self.written:
            count = value / self.units[unit]
            if count.denominator == 1 and (count or unit == self.written[-1]):
                return f"{count}{unit}"
        raise AssertionError(f"the smallest unit of a {self.name} divides everything")


DURATION: Final = Quantity(
    name="duration",
    kept_in="microseconds",
    example="200ms",
    units={
        "us": Fraction(1),
        "ms": Fraction(1_000),
        "s": Fraction(1_000_000),
        "min": Fraction(60_000_000),
    },
    written=("s", "ms", "us"),
)

SIZE: Final = Quantity(
    name="size",
    kept_in="bytes",
    example="1MiB",
    units={
        "B": Fraction(1),
        "kB": Fraction(10**3),
        "MB": Fraction(10**6),
        "GB": Fraction(10**9),
        "KiB": Fraction(2**10),
        "MiB": Fraction(2**20),
        "GiB": Fraction(2**30),
    },
    written=("GiB", "MiB", "KiB", "B"),
)

RATE: Final = Quantity(
    name="rate",
    kept_in="bytes per second",
    example="20Mbit",
    units={
        "bit": Fraction(1, 8),
        "kbit": Fraction(10**3, 8),
        "Mbit": Fraction(10**6, 8),
        "Gbit": Fraction(10**9, 8),
    },
    written=("Gbit", "Mbit", "kbit", "bit"),
    per_second=True,
)
