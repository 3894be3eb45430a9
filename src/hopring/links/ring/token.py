"""The token: the first one, the checks of one that arrives, and the values that a visit writes on it.

Implements  Amir, Stanton (1998) 3.2 and the thesis 4.1, the update of link_aru and site_aru.
Deviations  each ARU has a modifier of its own; with one for both, as in the papers, the member that lowered
            the one could be overwritten by the member that lowered the other. The token stops in an idle ring.

ARU: a member lowers the value to its own, and names itself as modifier. Only the one who lowered it may raise
it again, which also clears the modifier; without a modifier anybody may. After every visit the value is at most
the visitor's own, but a later visitor may raise it again before everybody has seen it. The values that a member
wrote in two visits in a row bracket a whole rotation: the lesser of the two is at most what each member had.

Idle: the token carries `quiet`, the number of visits in a row that found nothing to do. Only the representative
may keep it, and only by state: two whole rotations in which nobody sent, asked, changed a value or owed a
promise. Time alone never stops the token, or the last messages would never become stable.
"""

from typing import Final, final

from hopring.errors import Drop, PeerError
from hopring.ids import NOBODY, NUMBER_MAX, DaemonId
from hopring.links.ring.events import Release
from hopring.links.ring.options import VISIT_SEGMENTS_BELIEVED_MAX
from hopring.links.ring.store import RingStore
from hopring.value import Value
from hopring.wire.data import Missing
from hopring.wire.ring import Token


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


QUIET_MAX = 0xFFFF
"""The field has 16 bits; more silence than this looks the same."""


def first_token(initial_seq: int) -> Token:
    """The token that no member has visited: all have everything up to `initial_seq`, which is nothing."""
    return Token(
        number=0,
        link_seq=initial_seq,
        link_aru=initial_seq,
        link_aru_modifier=NOBODY,
        flow_control=0,
        site_seq=0,
        site_lts=0,
        site_aru=0,
        site_aru_modifier=NOBODY,
    )


def check_token(token: Token, members: tuple[DaemonId, ...], passed: Token, store: RingStore) -> None:
    """Refuses what cannot have come from the token that we passed last and the packets that we have."""
    if token.link_seq > store.aru + store.options.unstable_packets_max:
        raise PeerError(
            Drop.OUT_OF_WINDOW, f"token with link_seq {token.link_seq}, all received to {store.aru}"
        )
    if not store.discarded <= token.link_aru <= token.link_seq:
        raise PeerError(
            Drop.INCONSISTENT,
            f"token with link_aru {token.link_aru} outside {store.discarded}..{token.link_seq}",
        )
    if token.flow_control > len(members) * VISIT_SEGMENTS_BELIEVED_MAX:
        raise PeerError(Drop.LIMIT, f"token with {token.flow_control} segments in a rotation")
    if token.link_seq < passed.link_seq:
        raise PeerError(Drop.INCONSISTENT, f"token on which link_seq fell to {token.link_seq}")
    if token.site_seq < passed.site_seq:
        raise PeerError(Drop.INCONSISTENT, f"token on which site_seq fell to {token.site_seq}")
    if token.site_lts < passed.site_lts:
        raise PeerError(Drop.INCONSISTENT, f"token on which site_lts fell to {token.site_lts}")
    if token.site_seq > NUMBER_MAX or token.site_lts > NUMBER_MAX or token.site_aru > NUMBER_MAX:
        raise PeerError(Drop.OUT_OF_WINDOW, f"token with stamp {token.site_lts} of bundle {token.site_seq}")
    _check_modifier(token.link_aru_modifier, members)
    _check_modifier(token.site_aru_modifier, members)


def _check_modifier(modifier: DaemonId, members: tuple[DaemonId, ...]) -> None:
    if modifier != NOBODY and modifier not in members:
        raise PeerError(Drop.INCONSISTENT, f"token with an ARU lowered by {modifier}, who is no member")


def next_token(
    token: Token,
    me: DaemonId,
    release: Release,
    *,
    link_seq: int,
    link_local: int,
    flow_control: int,
    missing: tuple[Missing, ...],
    active: bool,
) -> Token:
    """What a visit writes; `active` tells of work that shows in none of the other fields."""
    link = updated(Aru(token.link_aru, token.link_aru_modifier), link_local, me)
    site = updated(Aru(token.site_aru, token.site_aru_modifier), release.local_aru, me)
    level = (
        token.link_seq == link_seq
        and token.link_aru == link.value
        and token.link_aru_modifier == link.modifier
        and token.site_seq == release.site_seq
        and token.site_lts == release.site_lts
        and token.site_aru == site.value
        and token.site_aru_modifier == site.modifier
    )
    return Token(
        number=token.number + 1,
        link_seq=link_seq,
        link_aru=link.value,
        link_aru_modifier=link.modifier,
        flow_control=flow_control,
        site_seq=release.site_seq,
        site_lts=release.site_lts,
        site_aru=site.value,
        site_aru_modifier=site.modifier,
        missing=missing,
        quiet=quiet_after(token.quiet, active or bool(missing) or not level),
    )


def quiet_after(quiet: int, active: bool) -> int:
    """The count that a visit writes on the token."""
    return 0 if active else min(quiet + 1, QUIET_MAX)


def may_stop(quiet: int, members: int) -> bool:
    """Whether a token that reaches the representative with this count has seen two silent rotations."""
    return quiet >= 2 * members


def rest_us(hold_us: int, rest_us_max: int, quiet: int, members: int) -> int:
    """How long the token is held: the longer, the longer nothing has happened, if that is wished.

    Whoever wants it gets it at once all the same.
    """
    silent_rotations = quiet // members
    return max(hold_us, min(hold_us * (silent_rotations - 1), rest_us_max))


def may_be_stopped(quiet: int, index: int, members: int) -> bool:
    """Whether the token that member `index` passed with this count may be waiting at the representative.

    If not, it is certain to come round by itself, and nobody needs to hurry it.
    """
    return may_stop(quiet + members - 1 - index, members)
