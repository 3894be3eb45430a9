"""Random histories of three peers: short, with few different values, so that each property may break."""

from collections.abc import Callable
from random import Random

from hopring.check.rmp.peer_events import (
    AskedToJoin,
    BodySeen,
    DataSent,
    DataShown,
    EndSeen,
    FenceGiven,
    ListClosed,
    ListSeen,
    OrderingSeen,
    PacketSentAgain,
    PassConfirmed,
    PeerEvent,
    PeerSuspended,
    QueueSeen,
    RingStayEnded,
    SlotsOrdered,
    StrangerAcknowledged,
    StrangerShown,
    ToldToAnswer,
    WindowSeen,
)
from hopring.services import Service

NAMES = ("a", "b", "c")
MEMBERS = ("a", "b", "c", "b'")
MESSAGES = ("a:1", "a:2", "b:1", "b:2")

Maker = Callable[[Random, str, int], PeerEvent]


def _members(dice: Random, most: int = 3) -> tuple[str, ...]:
    chosen = dice.sample(MEMBERS, dice.randint(1, most))
    return tuple(one for one in chosen if not (one == "b" and "b'" in chosen))


def _list(dice: Random, who: str, at: int) -> PeerEvent:
    members = _members(dice)
    together = tuple(one for one in members if dice.random() < 0.7)
    cause = dice.choice(["join", "leave", "failure", "failure"])
    minimum = dice.choice([1, 1, 1, 2, 254, 255])
    primary = dice.random() < 0.4
    place = dice.randint(1, 2), dice.randint(1, 6)
    return ListSeen(who, at, *place, members, together, cause, dice.choice(MEMBERS), primary, minimum)


def _shown(dice: Random, who: str, at: int) -> PeerEvent:
    service = dice.choice([Service.FIFO, Service.AGREED, Service.AGREED])
    parts = dice.choice(MESSAGES), service, dice.randint(1, 2), dice.randint(0, 6)
    resilience = dice.choice([0, 1, 255]) if service.total else 0
    return DataShown(who, at, *parts, resilience, dice.random() < 0.1)


def _ordered(dice: Random, who: str, at: int) -> PeerEvent:
    place, following = (dice.randint(1, 2), dice.randint(1, 5)), dice.choice(NAMES)
    if dice.random() < 0.3:
        return SlotsOrdered(who, at, *place, following, (), _members(dice))
    return SlotsOrdered(who, at, *place, following, tuple(dice.sample(MESSAGES, dice.randint(0, 2))))


def _passes(dice: Random, who: str, at: int) -> PeerEvent:
    """An ordering of a ring that rotates: of few processes, and seldom a list."""
    members = dice.choice([("a",), ("a", "b"), ("b", "a")]) if at == 1 or dice.random() < 0.1 else ()
    return SlotsOrdered(who, at, 1, at if dice.random() < 0.9 else dice.randint(1, 5), "a", (), members)


def _queue(dice: Random, who: str, at: int) -> PeerEvent:
    waiting = tuple(dice.sample(MESSAGES, dice.randint(0, 2)))
    queued = tuple(dice.sample(MESSAGES, dice.randint(0, 1)))
    return QueueSeen(who, at, dice.randint(1, 2), dice.randint(3, 6), dice.randint(1, 4), waiting, queued)


def _fence(dice: Random, who: str, at: int) -> PeerEvent:
    place = dice.randint(1, 2), dice.randint(1, 6)
    primary, partial = dice.random() < 0.8, dice.random() < 0.5
    return FenceGiven(who, at, dice.choice("LM"), *place, dice.randint(1, 9), primary, partial)


def _told(dice: Random, who: str, at: int) -> PeerEvent:
    owner = dice.choice([*NAMES, ""])
    holder = (owner == who) is (dice.random() < 0.9)
    return ToldToAnswer(who, at, dice.choice(MESSAGES), 1, holder, owner, dice.random() < 0.3)


def _end(dice: Random, who: str, at: int) -> PeerEvent:
    waiting, calls, passes = (dice.choice([0, 0, 0, 1]) for _ in range(3))
    return EndSeen(who, at, waiting, calls, passes, dice.choice([0, 1]), dice.random() < 0.5)


def _orderings(dice: Random, who: str, at: int) -> PeerEvent:
    return OrderingSeen(who, at, dice.randint(1, 2), dice.randint(1, 5))


def _confirmed(dice: Random, who: str, at: int) -> PeerEvent:
    return PassConfirmed(who, at, dice.randint(1, 2), dice.randint(1, 5))


def _stranger(dice: Random, who: str, at: int) -> PeerEvent:
    return StrangerShown(who, at, "x", dice.choice("123"), dice.random() < 0.3)


_MAKERS: tuple[tuple[Maker, ...], ...] = (
    # Kinds of events that belong together: a history is made of the events of one row.
    (_list, _shown, _ordered, lambda _d, who, at: RingStayEnded(who, at, "crash")),
    (_list, _shown, _shown, lambda d, who, at: ListClosed(who, at, _members(d))),
    (_list, _ordered, _orderings, _confirmed),
    (_list, _ordered, _orderings, lambda d, who, at: BodySeen(who, at, d.choice(MESSAGES)), _queue),
    (_list, _ordered, _orderings, _orderings, _queue, _queue),
    (_list, _shown, _ordered, lambda _d, who, at: PeerSuspended(who, at)),
    (_fence, _told),
    (_passes,),
    (
        *(_stranger, _stranger, lambda d, who, at: StrangerAcknowledged(who, at, "x", d.choice("123"))),
        lambda d, who, at: RingStayEnded(who, at, "removed") if d.random() < 0.5 else _stranger(d, who, at),
    ),
    (_list, _end, lambda d, who, at: AskedToJoin(who, at, d.choice([1, 2, 254]))),
    (lambda d, who, at: WindowSeen(who, at, d.randint(1, 10), 9),),
    (lambda d, who, at: PacketSentAgain(who, at, "P", d.randint(1, 6), 5),),
    (_list, lambda d, who, at: DataSent(who, at, d.choice(MESSAGES), Service.AGREED), _ordered, _orderings),
)


def _follows(dice: Random, who: str, at: int) -> PeerEvent:
    """A list of a recovery, of members that come from the common list."""
    members = dice.choice([("a", "b", "c"), ("a", "b"), ("b", "c"), (who,)])
    return ListSeen(who, at, 2, dice.randint(5, 6), members, members, "failure", "", dice.random() < 0.8)


def _resilient(dice: Random, who: str, at: int) -> PeerEvent:
    message, resilience = dice.choice(MESSAGES), dice.choice([1, 2, 255])
    withheld = dice.random() < 0.1
    return DataShown(who, at, message, Service.AGREED, 1, dice.randint(2, 4), resilience, withheld)


def _common_history(dice: Random) -> list[PeerEvent]:
    """All begin in one list, which breaks: resilience is about that."""
    events: list[PeerEvent] = [
        ListSeen(who, at, 1, 1, NAMES, (who,), primary=True) for at, who in enumerate(NAMES, start=1)
    ]
    makers: tuple[Maker, ...] = (_resilient, _resilient, _follows)
    if dice.random() < 0.3:
        makers += (lambda d, who, at: ListClosed(who, at, _members(d)),)
    return events + [
        dice.choice(makers)(dice, dice.choice(NAMES), at) for at in range(4, dice.randint(5, 10) + 1)
    ]


def random_history(dice: Random) -> list[PeerEvent]:
    """A history of up to ten events."""
    if dice.random() < 0.25:
        return _common_history(dice)
    makers = dice.choice(_MAKERS)
    return [dice.choice(makers)(dice, dice.choice(NAMES), at) for at in range(1, dice.randint(2, 9) + 1)]
