"""Parts of the text of queries: services by their capabilities, and sets of processes as bits.

A query says `service IN {TOTAL}`; the numbers come from the table of services.

Every process that a history names has a number in it, and a set of processes has one bit for each: as many
columns of 64 bits as it takes, `got0`, `got1` and so on. "Who lacks it" is then one operation on numbers and no
join. A history with up to 64 processes needs one column.
"""

from typing import Final

from hopring.services import Capability, Service, services_with

WORD_BITS: Final = 64
WORDS_MAX: Final = 64
LIVES_MAX: Final = WORD_BITS * WORDS_MAX
"""Of one history."""


def numbers(capability: Capability) -> str:
    """The services with this capability as a list, such as `(4, 5, 6)`."""
    return f"({', '.join([str(int(service)) for service in services_with(capability)])})"


# Of the names in a trace; the strongest are tried first, being the most frequent.
_CASES: Final = " ".join([f"WHEN '{one.name.lower()}' THEN {int(one)}" for one in reversed(Service)])
SERVICE_NUMBER: Final = f"CASE service {_CASES} END"

LOOSE: Final = numbers("loose")
RELIABLE: Final = numbers("reliable")
EARLY: Final = numbers("early")
FIFO: Final = numbers("fifo")
TOTAL: Final = numbers("total")
STABLE: Final = numbers("stable")


class Masks:
    """The SQL text of sets of processes; names of columns may have a table's name before them."""

    def __init__(self, words: int) -> None:
        self.words = words  # Columns of each set.

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
        """Whether the two sets differ."""
        return f"({self.each(f'{one}# <> {other}#', ' OR ')})"

    def some(self, name: str) -> str:
        """Whether the set has any process."""
        return self._some(f"{name}#")

    def count(self, name: str) -> str:
        """The number of processes in the set."""
        return f"({self.each(f'bit_count({name}#)', ' + ')})"

    def unlike(self, name: str) -> str:
        """In a grouping: whether the sets of the group are not all the same."""
        return f"({self.each(f'min({name}#) <> max({name}#)', ' OR ')})"

    def _some(self, template: str) -> str:
        return f"({self.each(f'{template} <> 0', ' OR ')})"
