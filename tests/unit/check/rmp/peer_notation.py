"""Handwritten histories of peers: phrases in the order of their times, separated by bars or lines.

a list 1 5 abc           a installs the list at timestamp 5 of epoch 1; members in ring order, `abb'` has a
                         second membership of b; those together are those of the list before, or itself;
  with ab, join c,       then, in any order: together, the cause and whom it is about, primary, the minimum
  failure, primary, minimum 254
a asks                   asks to join, `a asks minimum 2`; `a wants to leave`
a sends a:1 safe k 2     Agreed by default
a emits a:1              the Data packet leaves, in this stay
a body b:1               receives the Data packet
a orders 1 6 b: a:1 b:1  sends the ACK at 6 that names b and orders these at 7 and 8
a orders 1 6 b list ab   sends the New List at 6
a confirms 1 6           tells who named it at 6 that it has the token
a hears 1 6              receives the ACK or New List at 6
a shows b:1 1 8          delivers it at 8 of epoch 1, as it was sent, with `withheld`; without a place:
a shows b:1 1 0
a signal ab, a suspended, a ends leave, a ends removed, a ends crash
a keeps 1 from 5 needs 7 waiting a:3,b:2 queued a:2
a gets L 1 6 fence 9     holds the lock L, granted at 6; with `outside` (no primary), `partial`
a told b:1 handler 2 owner a; with `answers`, `again`
a stranger x 4           delivers packet 4 of x, which is no member; with `repeat`
a acknowledges x 4
a repeats P 3 of 2       sends packet P for the third time, and 2 are allowed
a window 10 of 5         10 bytes under way, and the window is 5
a rests waiting 1 calls 1 passes 5 of 3 apart
"""

import re
from dataclasses import dataclass, field

from hopring.check.rmp.peer_events import (
    AskedToJoin,
    AskedToLeave,
    BodySeen,
    DataLeft,
    DataSent,
    DataShown,
    EndSeen,
    FenceEnded,
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
    process_of,
)
from hopring.services import Service


def peers(text: str) -> list[PeerEvent]:
    """The events of all phrases."""
    reader = _Reader()
    phrases = [phrase.split() for phrase in re.split(r"[|\n]", text) if phrase.strip()]
    return [reader.read(at_us, words) for at_us, words in enumerate(phrases, start=1)]


def members(text: str) -> tuple[str, ...]:
    """The members in a text like `abb'`."""
    return tuple(re.findall(r"[a-z](?:\.\d)?'*", text))


def options(words: list[str]) -> dict[str, str]:
    """Pairs of words as a table."""
    return dict(zip(words[::2], words[1::2], strict=True))


@dataclass
class _Reader:
    lists: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sent: dict[str, DataSent] = field(default_factory=dict)

    def read(self, at_us: int, words: list[str]) -> PeerEvent:
        who, verb, *rest = words
        match verb:
            case "list":
                return self._list(who, at_us, rest)
            case "sends":
                return self._sends(who, at_us, rest)
            case "shows":
                return self._shows(who, at_us, rest)
            case "orders":
                epoch, timestamp, named = int(rest[0]), int(rest[1]), rest[2].rstrip(":")
                is_list = rest[3:4] == ["list"]
                messages = () if is_list else tuple(rest[3:])
                made = members(rest[4]) if is_list else ()
                return SlotsOrdered(who, at_us, epoch, timestamp, named, messages, made)
            case "hears":
                return OrderingSeen(who, at_us, int(rest[0]), int(rest[1]))
            case "body":
                return BodySeen(who, at_us, rest[0])
            case "asks":
                return AskedToJoin(who, at_us, int(options(rest).get("minimum", 1)))
            case "wants":
                return AskedToLeave(who, at_us)
            case "signal":
                return ListClosed(who, at_us, members(rest[0]))
            case "suspended":
                return PeerSuspended(who, at_us)
            case "ends":
                self.lists.pop(who, None)
                return RingStayEnded(who, at_us, rest[0])
            case _:
                return _of_resources(who, at_us, verb, rest)

    def _list(self, who: str, at_us: int, rest: list[str]) -> ListSeen:
        epoch, timestamp, made = int(rest[0]), int(rest[1]), members(rest[2])
        words = rest[3:]
        before = self.lists.get(who)
        own = tuple(one for one in made if process_of(one) == who)
        together = own if before is None else tuple(one for one in made if one in before)
        found: dict[str, str] = {}
        flags = {word for word in words if word in ("primary", "failure", "lock")}
        named = options([word for word in words if word not in flags])
        found["cause"] = next(iter(sorted(flags - {"primary"})), "join")
        for cause in ("join", "leave"):
            if cause in named:
                found |= {"cause": cause, "who": named[cause]}
        if "with" in named:
            together = members(named["with"])
        self.lists[who] = made
        minimum, primary = int(named.get("minimum", 1)), "primary" in flags
        return ListSeen(who, at_us, epoch, timestamp, made, together, primary=primary, minimum=minimum, **found)

    def _sends(self, who: str, at_us: int, rest: list[str]) -> DataSent:
        words = rest[1:]
        service = Service.AGREED
        if words and words[0].upper() in Service.__members__:
            service = Service[words.pop(0).upper()]
        event = DataSent(who, at_us, rest[0], service, int(options(words).get("k", 0)))
        self.sent[event.message] = event
        return event

    def _shows(self, who: str, at_us: int, rest: list[str]) -> DataShown:
        message, epoch, timestamp = rest[0], int(rest[1]), int(rest[2])
        sent = self.sent.get(message)
        service, resilience = (sent.service, sent.resilience) if sent else (Service.AGREED, 0)
        return DataShown(who, at_us, message, service, epoch, timestamp, resilience, "withheld" in rest)


def _of_resources(who: str, at_us: int, verb: str, rest: list[str]) -> PeerEvent:
    match verb:
        case "emits":
            return DataLeft(who, at_us, rest[0])
        case "confirms":
            return PassConfirmed(who, at_us, int(rest[0]), int(rest[1]))
        case "keeps":
            named = options(rest[1:])
            waiting, queued = (
                tuple(named[key].split(",")) if key in named else () for key in ("waiting", "queued")
            )
            return QueueSeen(who, at_us, int(rest[0]), int(named["from"]), int(named["needs"]), waiting, queued)
        case "gets":
            place, fence = (int(rest[1]), int(rest[2])), int(rest[4])
            return FenceGiven(who, at_us, rest[0], *place, fence, "outside" not in rest, "partial" in rest)
        case "loses":
            return FenceEnded(who, at_us, rest[0])
        case "told":
            named = options([word for word in rest[1:] if word not in ("answers", "again")])
            owner = named.get("owner", "")
            return ToldToAnswer(
                who, at_us, rest[0], int(named["handler"]), "answers" in rest, owner, "again" in rest
            )
        case "stranger":
            return StrangerShown(who, at_us, rest[0], rest[1], "repeat" in rest)
        case "acknowledges":
            return StrangerAcknowledged(who, at_us, rest[0], rest[1])
        case "repeats":
            return PacketSentAgain(who, at_us, rest[0], int(rest[1]), int(rest[3]))
        case "window":
            return WindowSeen(who, at_us, int(rest[0]), int(rest[2]))
        case "rests":
            apart = "apart" in rest
            words = [word for word in rest if word != "apart"]
            most = int(words[words.index("of") + 1]) if "of" in words else 0
            named = options(
                [word for at, word in enumerate(words) if "of" not in words[max(0, at - 1) : at + 1]]
            )
            waits, calls, passes = (int(named.get(name, 0)) for name in ("waiting", "calls", "passes"))
            return EndSeen(who, at_us, waits, calls, passes, most, apart)
        case _:
            raise ValueError(verb)
