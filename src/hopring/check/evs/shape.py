"""What the thesis assumes of every trace (assumptions 2.1 and 2.3, definition 2.7).

If these do not hold, the trace is wrong or the stamps are, and what the other checks say means little.
"""

from collections.abc import Iterator
from itertools import pairwise

from hopring.check.evs.history import History, Life
from hopring.check.evs.words import Words
from hopring.check.trace import Crash, Event, MessageId, Recover, Sent
from hopring.check.verdict import Verdict, broken, holds

LIFE = "assumption 2.1 the events of a process make one life"
UNIQUE = "assumption 2.3 a message is sent once, by its sender"
ORD = "definition 2.7 a message has one place in the order, and no other message has it"


def one_life(history: History) -> Verdict:
    """Recover first, crash last, and each event in the view that its process is in."""
    words = Words(history)
    for life in history.lives.values():
        for witness in _flaws_of_life(life, words):
            return broken(LIFE, witness)
    return holds(LIFE)


def _flaws_of_life(life: Life, words: Words) -> Iterator[str]:
    who = words.process(life.process)
    if not isinstance(life.events[0], Recover):
        yield f"{who} has no recover as its first event"
    for place, event in life.borders:
        if isinstance(event, Recover) and place > 0:
            yield f"{who} recovered again at {event.at_us} us without a new incarnation"
        if isinstance(event, Crash) and place + 1 < len(life.events):
            more = life.events[place + 1]
            yield f"{who} crashed at {event.at_us} us, yet {_kind(more)} at {more.at_us} us"
    for misplaced in life.misplaced:
        said = f"is said to be in {words.view(misplaced.view)}"
        yield f"{who} was in another view when its {_kind(misplaced)} at {misplaced.at_us} us {said}"


def _kind(event: Event) -> str:
    return type(event).__name__.lower()


def sent_once(history: History) -> Verdict:
    """No message is sent twice, none in another's name, and the stamp is of the view that the send names."""
    words = Words(history)
    seen: dict[MessageId, Sent] = {}
    for life in history.lives.values():
        for sending in life.sends:
            event = sending.event
            first = seen.get(event.message)
            if first is not None:
                return broken(UNIQUE, f"{words.send(event)}, and {words.send(first)}")
            if event.message.sender != life.process:
                return broken(UNIQUE, f"{words.send(event)}, which is not its own")
            if event.view != event.ord.view and event.service.reliable:
                views = f"in {words.view(event.view)} with a stamp of {words.view(event.ord.view)}"
                return broken(UNIQUE, f"{words.send(event)} {views}")
            seen[event.message] = event
    return holds(UNIQUE)


def one_stamp(history: History) -> Verdict:
    """Every receiver knows a message by the stamp it was sent with, and no two messages share one."""
    messages, words = history.messages, Words(history)
    reliable = [n for n, service in enumerate(messages.service) if service.reliable]
    for low, high in pairwise(reliable):
        if messages.ord[low] == messages.ord[high]:
            both = f"{words.number(low)} and {words.number(high)}"
            return broken(ORD, f"{both} have the same stamp, {words.ord(messages.ord[low])}")
    for life in history.lives.values():
        for event, number in zip(life.deliveries, life.numbers, strict=True):
            ord_sent = messages.ord[number]
            if event.ord != ord_sent and messages.service[number].reliable:
                stamps = f"with stamp {words.ord(event.ord)}, others with {words.ord(ord_sent)}"
                return broken(ORD, f"{words.delivery(event)} {stamps}")
    return holds(ORD)
