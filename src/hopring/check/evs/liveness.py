"""What must happen in the end: 2.15, 2.16 and 2.17. Only the end of a quiet run can show that it did not."""

from collections.abc import Collection, Iterable

from hopring.check.evs.history import History
from hopring.check.evs.words import Words
from hopring.check.trace import ViewName
from hopring.check.verdict import Verdict, broken, holds

SELF_DELIVERY = "2.15 self delivery"
MEMBERSHIP_PRECISION = "2.16 membership precision"
TERMINATION = "2.17 termination of delivery"


def self_delivery(history: History) -> Verdict:
    """2.15: who is still there at the quiet end has delivered all it sent (in the stamped view, by 2.19)."""
    words = Words(history)
    for life in history.lives.values():
        if not history.alive_at_quiet_end(life.process):
            continue
        for sending in life.sends:
            if sending.event.service.reliable and sending.number not in life.got:
                return broken(SELF_DELIVERY, f"{words.send(sending.event)} and never delivered it")
    return holds(SELF_DELIVERY)


def membership_precision(history: History, components: Iterable[Collection[str]]) -> Verdict:
    """2.16: after the heal, the daemons of each component end in one view of exactly these daemons."""
    for component in components:
        witness = _imprecise(history, sorted(component))
        if witness:
            return broken(MEMBERSHIP_PRECISION, witness)
    return holds(MEMBERSHIP_PRECISION)


def _imprecise(history: History, daemons: list[str]) -> str:
    words = Words(history)
    unheard = [daemon for daemon in daemons if daemon not in history.starts]
    if unheard:
        return f"{unheard[0]} should be in a view with {{{' '.join(daemons)}}} and did nothing at all"
    processes = [history.starts[daemon][-1] for daemon in daemons]
    together = words.processes(processes)
    meeting: ViewName | None = None
    for process in processes:
        life = history.lives[process]
        who = words.process(process)
        if life.crashed:
            return f"{who} should be in a view with {together} and has crashed"
        if not life.stays:
            return f"{who} should be in a view with {together} and never installed one"
        last = life.stays[-1]
        if last.members != frozenset(processes):
            return (
                f"{who} ended in {words.view(last.view)} of {words.processes(last.members)}, not of {together}"
            )
        meeting = meeting or last.view
        if last.view != meeting:
            first = words.process(processes[0])
            return f"{first} ended in {words.view(meeting)}, {who} in {words.view(last.view)}"
    return ""


def termination(history: History) -> Verdict:
    """2.17: what is sent in a view that its sender never leaves, every member of the view delivers."""
    words = Words(history)
    for life in history.lives.values():
        if not life.stays or not history.alive_at_quiet_end(life.process):
            continue
        last = life.stays[-1]
        for sending in life.sends:
            sent = sending.event
            if sent.view != last.view or sent.service.loose:
                continue
            without = [member for member in last.members if not history.has(member, sending.number)]
            if without:
                what = f"{words.send(sent)} in {words.view(last.view)} and stayed there"
                return broken(TERMINATION, f"{what}, but {words.process(min(without))} never delivered it")
    return holds(TERMINATION)
