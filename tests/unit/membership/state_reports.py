"""Short constructors of STATETRANS, for tests of recovery. Daemons 0 to 3 are A to D."""

from collections.abc import Mapping

from hopring.ids import DaemonId, Incarnation, Process, SiteId, ViewId
from hopring.membership.messages import HeldRun, PositionFields, SiteState, StateTrans
from hopring.membership.recovery import Decision

OLD = ViewId(7, DaemonId(0), Incarnation(1))
ELSEWHERE = ViewId(7, DaemonId(3), Incarnation(1))
ATTEMPT = ViewId(9, DaemonId(0), Incarnation(1))
ALL_SITES = 0b1111
A, B, C, D = [Process(DaemonId(at), Incarnation(at * 1000 + 1)) for at in range(4)]


def sites(*places: int) -> dict[DaemonId, SiteId]:
    """The sites of daemons 0, 1, 2, ..."""
    return {DaemonId(at): SiteId(place) for at, place in enumerate(places)}


def body(seq: int, lts: int, mask: int = ALL_SITES) -> HeldRun:
    """A bundle that is held with its body."""
    return HeldRun(seq, lts, (), mask, body=True)


def meta(seq: int, lts: int, mask: int = ALL_SITES) -> HeldRun:
    """A bundle that is held as meta-data only."""
    return HeldRun(seq, lts, (), mask, body=False)


def site(number: int, cseq: int, next_lts: int, *held: HeldRun, highest: int = 0, line: int = 0) -> SiteState:
    """What a daemon knows of a site; `highest` may be known from a promise or a token alone."""
    top = max([highest, cseq, *[one.first for one in held]])
    return SiteState(number, cseq, next_lts, top, line, held)


def state(
    sender: Process,
    *known: SiteState,
    aru: int = 0,
    delivered: PositionFields = (0, -1),
    commit: tuple[Process, ...] = (),
    installed: ViewId = OLD,
    clock: int = 50,
) -> StateTrans:
    """The state of one daemon's old view."""
    return StateTrans(
        view=ATTEMPT,
        sender=sender,
        installed=installed,
        clock=clock,
        counter=8,
        commit=commit or (sender,),
        aru=aru,
        delivered=delivered,
        sites=known,
    )


def holes(decision: Decision) -> list[tuple[int, int]]:
    """All holes as plain pairs, in order."""
    gaps = [(gap.site, seq) for gap in decision.gaps for seq in range(gap.first, gap.last + 1)]
    return sorted((int(place), seq) for place, seq in [*decision.holes, *gaps])


def resends(found: list[tuple[tuple[SiteId, int], bool]]) -> list[tuple[int, int, str]]:
    """Resends as (site, sequence, body or meta-data)."""
    return [(int(key[0]), key[1], "body" if with_body else "meta") for key, with_body in found]


def owed(found: Mapping[tuple[SiteId, int], bool]) -> dict[tuple[int, int], str]:
    """The bundles that a daemon must have, by (site, sequence)."""
    return {(int(place), seq): "body" if with_body else "meta" for (place, seq), with_body in found.items()}
