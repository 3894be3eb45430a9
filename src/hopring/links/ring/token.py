"""The token: the first one, the checks of one that arrives, and the values that a visit writes on it.

Implements  Amir, Stanton (1998) 3.2 and the thesis 4.1, the update of link_aru and site_aru.
Deviations  each ARU has a modifier of its own; with one for both, as in the papers, the member that lowered
            the one could be overwritten by the member that lowered the other. In an idle ring the token is
            held by the representative.

ARU: a member lowers the value to its own, and names itself as modifier. Only the member that lowered it may
raise it again, which also clears the modifier; without a modifier any member may. After each visit the value is
at most the visitor's own, but a later visitor may raise it before all members have seen it. The values that a
member wrote in two consecutive visits bracket a whole rotation: every member has everything up to the lesser of
the two.

Lines: while a resilient bundle waits for holders the token carries the line of each member, written by the
member itself. It is a statement about one member, so it counts at once. The lines are carried until all members
have reached `lines_lts`, the highest stamp of such a bundle that a visited member has.

Idle: the token carries `quiet`, the number of consecutive visits in which there was nothing to do. Only the
representative may hold an idle token, and only after two whole rotations in which no member sent, requested,
changed a value or owed a promise. Time alone never makes the token idle: the last messages would not become
stable. ring.py lists all states of the token.
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
    """An ARU on the token, and the member that lowered it."""

    def __init__(self, value: int, modifier: DaemonId = NOBODY) -> None:
        self.value: Final = value
        self.modifier: Final = modifier


def updated(aru: Aru, local: int, me: DaemonId) -> Aru:
    """The ARU that a member with the own value `local` writes on the token."""
    if local < aru.value:
        return Aru(local, me)
    if aru.modifier in (me, NOBODY):
        return Aru(local)
    return aru


@final
class MemberLines(Value):
    """The lines of the members on the token, or none, and the stamp up to which they are wanted."""

    def __init__(self, lines: tuple[int, ...] = (), lts: int = 0) -> None:
        self.lines: Final = lines
        self.lts: Final = lts


NO_LINES: Final = MemberLines()


def next_lines(token: Token, release: Release, place: int, members: int, site_aru: int) -> MemberLines:
    """The lines that the member at this place writes; none if all members have what resilient bundles need."""
    lts = max(token.lines_lts, release.resilient_lts)
    if lts < site_aru or not lts:
        return NO_LINES
    lines = list(token.lines or (0,) * members)
    lines[place] = release.local_aru
    return MemberLines(tuple(lines), lts)


def usable(written_now: int, written_last: int) -> int:
    """The ARU that a member may rely on: every member has everything up to it."""
    return min(written_now, written_last)


QUIET_MAX = 0xFFFF
"""The limit of the count `quiet`, which has 16 bits on the wire."""


def first_token(initial_seq: int) -> Token:
    """The token before the first visit; numbers begin above `initial_seq`."""
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
    """Refuses a token that cannot follow from the one that this member passed last and the packets it has."""
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
    if token.lines and len(token.lines) != len(members):
        raise PeerError(Drop.INCONSISTENT, f"token with {len(token.lines)} lines of {len(members)} members")
    if max(token.lines, default=0) > token.site_lts + 1 or token.lines_lts > token.site_lts:
        raise PeerError(Drop.OUT_OF_WINDOW, f"token with lines above stamp {token.site_lts}")
    _check_modifier(token.link_aru_modifier, members)
    _check_modifier(token.site_aru_modifier, members)


def _check_modifier(modifier: DaemonId, members: tuple[DaemonId, ...]) -> None:
    if modifier != NOBODY and modifier not in members:
        raise PeerError(Drop.INCONSISTENT, f"token with an ARU lowered by {modifier}, which is no member")


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
    lines: "MemberLines",
) -> Token:
    """The token after a visit; `active` means that the visit had work that shows in no other field."""
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
        and token.lines == lines.lines
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
        lines=lines.lines,
        lines_lts=lines.lts,
    )


def quiet_after(quiet: int, active: bool) -> int:
    """The count of quiet visits that a visit writes on the token."""
    return 0 if active else min(quiet + 1, QUIET_MAX)


def may_idle(quiet: int, members: int) -> bool:
    """Whether the representative may hold a token with this count as idle: after two quiet rotations."""
    return quiet >= 2 * members


def idle_hold_us(hold_us: int, hold_us_max: int, quiet: int, members: int) -> int:
    """How long an idle token is held: it grows with the number of quiet rotations, up to `hold_us_max`.

    A member that asks for the token gets it at once all the same.
    """
    quiet_rotations = quiet // members
    return max(hold_us, min(hold_us * (quiet_rotations - 1), hold_us_max))


def may_be_idle(quiet: int, index: int, members: int) -> bool:
    """Whether the token that member `index` passed on with this count may be idle at the representative.

    If not, it is certain to come back without a HURRY.
    """
    return may_idle(quiet + members - 1 - index, members)
