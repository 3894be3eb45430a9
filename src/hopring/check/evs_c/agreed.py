"""What comes along with an agreed message, 2.13(3) and 2.13(4), and who else gets a safe one, 2.14."""

from collections.abc import Callable, Iterable

from hopring.check.evs.agreed import agreed_after_signal, agreed_before_signal
from hopring.check.evs.history import History, Stay
from hopring.check.evs.safe import SAFE_REGULAR, SAFE_TRANSITIONAL
from hopring.check.evs.words import Words
from hopring.check.evs_c.history import ClientHistory
from hopring.check.evs_c.words import first_of, of_each_group
from hopring.check.trace import Process, ViewName
from hopring.check.verdict import Verdict

Promised = Callable[[Stay], tuple[Iterable[Process], list[int]]]


def no_gaps_before_signal(history: ClientHistory) -> Verdict:
    """2.13(3): with an agreed message before the signal, all below it that anyone got in this view."""
    return of_each_group(agreed_before_signal, history)


def no_gaps_after_signal(history: ClientHistory) -> Verdict:
    """2.13(4): after the signal, those from senders that come along."""
    return of_each_group(agreed_after_signal, history)


def safe_before_signal(history: ClientHistory) -> Verdict:
    """2.14(2): every member of the view gets it or ends; not necessarily in that view.

    The view may have come from a join, which is Agreed: a daemon that had its signal before the join shows it
    in a closing view.
    """
    return _safe(history, SAFE_REGULAR, lambda stay: (stay.members, stay.regular))


def safe_after_signal(history: ClientHistory) -> Verdict:
    """2.14(3): after the signal, all in the next view's transitional set do, even if they never got there."""
    return _safe(
        history,
        SAFE_TRANSITIONAL,
        lambda stay: (stay.after.together if stay.after else (), stay.transitional),
    )


def _safe(history: ClientHistory, name: str, promised: Promised) -> Verdict:
    for group_name, group in sorted(history.groups.items()):
        closing = history.closing[group_name]
        service, words = group.messages.service, Words(group)
        for stay in group.stays:
            owed_to, numbers = promised(stay)
            safe = {number for number in numbers if service[number].stable}
            for process in sorted(owed_to) if safe else ():
                life = group.lives.get(process)
                missing = safe - life.got if life is not None else safe
                if missing and not _ends(history, group, closing, process, stay):
                    what = f"{words.delivered(stay.process, min(missing))} in {words.view(stay.view)}"
                    lacks = f"{words.process(process)} went on without that message"
                    return first_of(name, f"{what}, but {lacks}")
    return first_of(name, None)


def _ends(history: ClientHistory, group: History, closing: set[ViewName], process: Process, at: Stay) -> bool:
    """Whether the session ended, or left the group, no later than in this view or what closed behind it."""
    life = group.lives.get(process)
    if life is None:
        return not history.alive(process)
    until = [stay for stay in life.stays if stay.view <= at.view]
    if not until:
        # Its daemon had its signal before the join that made it a member.
        until = [stay for stay in life.stays if stay.before is None][:1]
    last: Stay | None = until[-1]
    while last is not None:
        if history.ends_in(last):
            return True
        last = last.after if last.after is not None and last.after.view in closing else None
    return False
