"""What is assumed of every trace of clients: assumptions 2.1 and 2.3, definition 2.7."""

from collections.abc import Iterator

from hopring.check.evs.shape import LIFE, UNIQUE, one_stamp
from hopring.check.evs.words import Words
from hopring.check.evs_c.history import ClientHistory, Session
from hopring.check.evs_c.words import first_of, of_clients
from hopring.check.trace import Asked, AsksEnd, ClientSent, Connected, Gone, Left, MessageId
from hopring.check.verdict import Verdict


def one_session(history: ClientHistory) -> Verdict:
    """It connects once and first, asks for nothing after its end, and signals name the view they are in."""
    flaws = (one for session in history.sessions.values() for one in _flaws(session, Words(history.whole)))
    return first_of(LIFE, next(flaws, None))


def _flaws(session: Session, words: Words) -> Iterator[str]:
    who = words.process(session.process)
    if not isinstance(session.events[0], Connected):
        yield f"{who} has no connect as its first event"
    asked_end = gone = False
    for at, event in enumerate(session.events):
        kind = type(event).__name__
        if at and isinstance(event, Connected):
            yield f"{who} connected again at {event.at_us} us"
        if gone:
            yield f"{who} was gone, yet {kind} at {event.at_us} us"
        if asked_end and isinstance(event, ClientSent | Asked):
            yield f"{who} had disconnected, yet {kind} at {event.at_us} us"
        asked_end = asked_end or isinstance(event, AsksEnd)
        gone = gone or isinstance(event, Gone)
    for misplaced in session.misplaced:
        yield f"{who} was in another view of {misplaced.group} when its signal came at {misplaced.at_us} us"
    for stray in session.homeless:
        if isinstance(stray, Left):
            yield f"{who} left {stray.group} at {stray.at_us} us and was not in it"


def sent_once(history: ClientHistory) -> Verdict:
    """No message is sent twice, and none in another's name."""
    words = Words(history.whole)
    seen: dict[MessageId, ClientSent] = {}
    for session in history.sessions.values():
        for posted in session.posted:
            event = posted.event
            what = f"{words.process(event.process)} sent {words.message(event.message)} at {event.at_us} us"
            if event.message in seen:
                first = seen[event.message]
                again = f"and {words.process(first.process)} did at {first.at_us} us"
                return first_of(UNIQUE, f"{what}, {again}")
            if event.message.sender != event.process:
                return first_of(UNIQUE, f"{what}, which is not its own")
            seen[event.message] = event
    return first_of(UNIQUE, None)


def one_place(history: ClientHistory) -> Verdict:
    """Definition 2.7: every receiver knows a message by the same stamp, and no two messages share one."""
    return of_clients(one_stamp(history.whole))
