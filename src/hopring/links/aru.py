"""ARU arithmetic: how one value on the token comes to mean "all received up to".

Implements  Amir, Stanton (1998) 3.2 and the thesis 4.1, the update of link_aru and site_aru.
Deviation   each ARU has a modifier of its own; with one for both, as in the papers, the member that lowered
            the one could be overwritten by the member that lowered the other.

A member lowers the value to its own, and names itself as modifier. Only the one who lowered it may raise it
again, which also clears the modifier; without a modifier anybody may. After every visit the value is at most
the visitor's own, but a later visitor may raise it again before everybody has seen it. What a member wrote in
two visits in a row brackets a whole rotation: the lesser of the two is at most what each member had.
"""

from typing import Final, final

from hopring.ids import NOBODY, DaemonId
from hopring.value import Value


@final
class Aru(Value):
    """A value as the token carries it, and who lowered it."""

    def __init__(self, value: int, modifier: DaemonId = NOBODY) -> None:
        self.value: Final = value
        self.modifier: Final = modifier


def updated(aru: Aru, local: int, me: DaemonId) -> Aru:
    """What a member whose own value is `local` writes on the token."""
    if local < aru.value:
        return Aru(local, me)
    if aru.modifier in (me, NOBODY):
        return Aru(local)
    return aru


def usable(written_now: int, written_last: int) -> int:
    """What a member may rely on: every member had all up to here."""
    return min(written_now, written_last)
