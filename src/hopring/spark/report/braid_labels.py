"""Which of a braid's knots are named, where there is no room for all of them. Pure."""

from collections.abc import Sequence
from typing import Final

from hopring.value import Value

LETTER_PX: Final = 6.6
GAP_PX: Final = 10.0
TIME_LETTERS: Final = 8
FIRST: Final = ("split", "merge")


class Label(Value, frozen=True):
    """A name at its place; `side` says which end of it that place is."""

    x: float
    what: str
    when: str
    side: str


def placed(knots: Sequence[tuple[float, str, str]], right: float) -> list[Label]:
    """Splits and merges first, then the others from left to right; of a long name perhaps its beginning."""
    taken: list[tuple[float, float]] = []
    found: list[Label] = []
    for x, what, when in sorted(knots, key=lambda knot: (not knot[1].startswith(FIRST), knot[0])):
        for shown in dict.fromkeys((what, what.partition(",")[0])):
            width = LETTER_PX * max(len(shown), TIME_LETTERS)
            side = _side(x, width, right)
            begin = x - {"begin": 0.0, "middle": width / 2, "end": width}[side]
            if all(begin > other_end + GAP_PX or begin + width + GAP_PX < other for other, other_end in taken):
                taken.append((begin, begin + width))
                found.append(Label(x, shown, when, side))
                break
    return sorted(found, key=lambda label: label.x)


def _side(x: float, width: float, right: float) -> str:
    if x - width / 2 < 0:
        return "begin"
    return "end" if x + width / 2 > right else "middle"
