"""The token by itself: the first one, what makes one believable, and what a visit writes on it."""

from hopring.errors import Drop, PeerError
from hopring.ids import NOBODY, NUMBER_MAX, DaemonId
from hopring.links.aru import Aru, updated
from hopring.links.ring_events import Release
from hopring.links.ring_idle import quiet_after
from hopring.links.ring_store import RingStore
from hopring.links.ring_window import VISIT_SEGMENTS_BELIEVED_MAX
from hopring.wire.data import Missing
from hopring.wire.ring import Token


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
