"""What must happen in the end: 2.15 to 2.17, and that what a session asks for is carried out."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from hopring.check.evs.history import History, Stay
from hopring.check.evs.liveness import MEMBERSHIP_PRECISION, SELF_DELIVERY, TERMINATION
from hopring.check.evs.words import Words
from hopring.check.evs_c.history import ClientHistory, Posted, Session
from hopring.check.evs_c.words import first_of
from hopring.check.trace import AsksEnd, AsksJoin, AsksLeave, ClientSent, Left, Process
from hopring.check.verdict import Verdict

REQUESTS = "what a session asks for is carried out"


def requests(history: ClientHistory) -> Verdict:
    """Whose daemon is there in the end has been shown a view for each join, each leave, and its own end."""
    words = Words(history.whole)
    for session in history.sessions.values():
        if not session.crashed:
            for what in _not_done(history, session):
                return first_of(REQUESTS, f"{words.process(session.process)} {what}")
    return first_of(REQUESTS, None)


def _not_done(history: ClientHistory, session: Session) -> Iterator[str]:
    if any(isinstance(one, AsksEnd) for one in session.asked):
        if not session.gone:
            yield "disconnected, and never ended"
        return  # It may give up what it had asked for before.
    if session.gone:
        yield "ended, and never disconnected"
    joins, leaves = (
        Counter([one.group for one in session.asked if isinstance(one, kind)]) for kind in (AsksJoin, AsksLeave)
    )
    left = Counter([one.group for one in session.events if isinstance(one, Left)])
    begun: Counter[str] = Counter()
    for group, of_group in history.groups.items():
        life = of_group.lives.get(session.process)
        begun[group] = 0 if life is None else sum(stay.before is None for stay in life.stays)
    for group in sorted({*joins, *leaves, *left, *begun}):
        if begun[group] != joins[group]:
            yield f"asked {joins[group]} times to join {group}, and came to be in it {begun[group]} times"
        if left[group] != leaves[group]:
            yield f"asked {leaves[group]} times to leave {group}, and left it {left[group]} times"


def self_delivery(history: ClientHistory) -> Verdict:
    """2.15: who wants to be in a group, sends to it and never leaves it gets its message, in any view."""
    words = Words(history.whole)
    for process, session in history.sessions.items():
        if not history.alive(process):
            continue
        for posted in session.posted:
            if _owed(session, posted) and not _has(history, process, posted):
                what = f"{words.process(process)} sent {words.message(posted.event.message)}"
                return first_of(SELF_DELIVERY, f"{what} at {posted.event.at_us} us and never delivered it")
    return first_of(SELF_DELIVERY, None)


def _owed(session: Session, posted: Posted) -> bool:
    event = posted.event
    if event.self_discard or event.service.loose:
        return False
    later = {one.group for one in session.asked[posted.asked :] if isinstance(one, AsksLeave)}
    throughout = posted.wanted.intersection(event.groups) - later
    return bool(throughout) or session.private_group in event.groups


def _has(history: ClientHistory, process: Process, posted: Posted) -> bool:
    number = history.whole.messages.number.get(posted.event.message)
    return number is not None and history.whole.has(process, number)


def membership_precision(history: ClientHistory, components: Iterable[Collection[str]]) -> Verdict:
    """2.16: in each component all end in the same view of a group, which has exactly who wants to be in it."""
    for component in components:
        for name, group in sorted(history.groups.items()):
            wanting = frozenset(
                process
                for process, session in history.sessions.items()
                if process.daemon in component and not session.ends and name in session.wants
            )
            witness = _imprecise(history, group, name, wanting)
            if witness:
                return first_of(MEMBERSHIP_PRECISION, witness)
    return first_of(MEMBERSHIP_PRECISION, None)


def _imprecise(history: ClientHistory, group: History, name: str, wanting: frozenset[Process]) -> str:
    words = Words(group)
    meeting: Stay | None = None
    for process in sorted(wanting):
        life = group.lives.get(process)
        if life is None or life.stays[-1] in history.left:
            return f"{words.process(process)} should be in {name} with {words.processes(wanting)} and is not"
        last = life.stays[-1]
        if last.members != wanting:
            whom = f"of {words.processes(last.members)}, not of {words.processes(wanting)}"
            return f"{words.process(process)} ended in {words.view(last.view)} {whom}"
        meeting = meeting or last
        if meeting.view != last.view:
            first = f"{words.process(meeting.process)} ended in {words.view(meeting.view)}"
            return f"{first}, {words.process(process)} in {words.view(last.view)}"
    return ""


def termination(history: ClientHistory) -> Verdict:
    """2.17: what is sent by a member, or got by one, in the view it is in at the end, all its members get."""
    number = history.whole.messages.number
    for name, group in sorted(history.groups.items()):
        words = Words(group)
        for stay in group.stays:
            if stay.after is not None or history.ends_in(stay):
                continue
            own = _sent_in(history, name, stay)
            for sent in own:
                if sent.message not in number and (not sent.self_discard or len(stay.members) > 1):
                    what = f"{words.process(stay.process)} sent {words.message(sent.message)}"
                    where = f"at {sent.at_us} us in {words.view(stay.view)} and stayed there"
                    return first_of(TERMINATION, f"{what} {where}, but nobody ever delivered it")
            owed = {*stay.delivered, *[number[one.message] for one in own if one.message in number]}
            for member in sorted(stay.members):
                missing = owed - group.lives[member].got if member in group.lives else owed
                if missing:
                    what = f"{words.number(min(missing))} is of {words.view(stay.view)}"
                    stays = f"{words.process(stay.process)} stayed there"
                    return first_of(TERMINATION, f"{what}, {stays}; {words.process(member)} never delivered it")
    return first_of(TERMINATION, None)


def _sent_in(history: ClientHistory, group: str, stay: Stay) -> list[ClientSent]:
    """What the session sent to the group in this view."""
    return [
        posted.event
        for posted in history.sessions[stay.process].posted
        if group in posted.event.groups and posted.stays.get(group) is stay and posted.event.service.reliable
    ]
