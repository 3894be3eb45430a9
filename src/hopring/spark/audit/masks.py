"""Sets of processes as bits, so that "who lacks it" is one operation on a number and not a join.

Every process that a history names has a number in it, and a set of processes is one bit for each: as many
columns of 64 bits as it takes, `got0`, `got1` and so on. A history with up to 64 processes needs one.
"""

from typing import Final

from hopring.value import Value

WORD_BITS: Final = 64
WORDS_MAX: Final = 64
LIVES_MAX: Final = WORD_BITS * WORDS_MAX
"""Of one history."""


class Masks(Value, frozen=True):
    """How SQL speaks of sets; names may have a table's name before them."""

    words: int

    def each(self, template: str, between: str = ", ") -> str:
        """The template for every word, with its number in place of `#`."""
        return between.join(template.replace("#", str(word)) for word in range(self.words))

    def columns(self, name: str) -> str:
        """All columns of a set."""
        return self.each(f"{name}#")

    def bit(self, number: str, unless: str = "false") -> str:
        """The set of one process, word by word, as a template; empty if the condition holds."""
        one = f"shiftleft(CAST(1 AS BIGINT), CAST({number} % {WORD_BITS} AS INT))"
        return f"CASE WHEN {number} DIV {WORD_BITS} = # AND NOT ({unless}) THEN {one} ELSE 0 END"

    def overlap(self, one: str, other: str) -> str:
        """Whether the two have a process in common."""
        return self._some(f"({one}# & {other}#)")

    def beyond(self, one: str, *others: str) -> str:
        """Whether the first has a process that none of the others has."""
        return self._some(f"({one}# & ~({' | '.join(f'{other}#' for other in others)}))")

    def differ(self, one: str, other: str) -> str:
        """Whether they are not the same."""
        return f"({self.each(f'{one}# <> {other}#', ' OR ')})"

    def some(self, name: str) -> str:
        """Whether there is anybody in it."""
        return self._some(f"{name}#")

    def count(self, name: str) -> str:
        """How many are in it."""
        return f"({self.each(f'bit_count({name}#)', ' + ')})"

    def unlike(self, name: str) -> str:
        """In a grouping: whether the sets of the group are not all the same."""
        return f"({self.each(f'min({name}#) <> max({name}#)', ' OR ')})"

    def _some(self, template: str) -> str:
        return f"({self.each(f'{template} <> 0', ' OR ')})"
