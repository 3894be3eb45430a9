"""Who else must deliver a safe message: 2.14(2) and 2.14(3)."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from hopring.check.evs.history import History, Stay
from hopring.check.evs.words import Words
from hopring.check.trace import Process, ViewName
from hopring.check.verdict import Verdict, broken, holds

SAFE_REGULAR = "2.14(2) before the signal, safe for all members"
SAFE_TRANSITIONAL = "2.14(3) after the signal, safe for all that come along"


@dataclass(slots=True)
class _Promise:
    """Every process here, in this view, delivers these messages or ends in it; with who said so first."""

    view: ViewName
    owed_to: frozenset[Process]
    said_by: dict[int, Process] = field(default_factory=dict)


def safe_before_signal(history: History) -> Verdict:
    """2.14(2): what one delivers as safe before the signal, all members deliver or crash in the view."""
    promises = _promises(history, lambda stay: (stay.members, stay.regular))
    return _judge(history, SAFE_REGULAR, promises)


def safe_after_signal(history: History) -> Verdict:
    """2.14(3): after the signal, all in the next view's transitional set do, even if they never got there."""
    promises = _promises(
        history, lambda stay: (stay.after.together if stay.after else frozenset(), stay.transitional)
    )
    return _judge(history, SAFE_TRANSITIONAL, promises)


def _promises(
    history: History, to_whom_and_what: Callable[[Stay], tuple[frozenset[Process], list[int]]]
) -> Iterator[_Promise]:
    """Promises in one view to the same processes are one: that keeps the judgement linear."""
    service = history.messages.service
    for view, stays in history.views.items():
        by_set: dict[frozenset[Process], _Promise] = {}
        for stay in stays.values():
            owed_to, delivered = to_whom_and_what(stay)
            promise = by_set.setdefault(owed_to, _Promise(view, owed_to))
            for number in delivered:
                if service[number].stable:
                    promise.said_by.setdefault(number, stay.process)
        yield from by_set.values()


def _judge(history: History, name: str, promises: Iterator[_Promise]) -> Verdict:
    for promise in promises:
        if not promise.said_by:
            continue
        for process in sorted(promise.owed_to):
            stay = history.views[promise.view].get(process)
            if stay is None:
                return broken(
                    name, _witness(history, promise, process, min(promise.said_by), "never installed it")
                )
            missing = promise.said_by.keys() - history.lives[process].got
            if missing and not history.crashed_in(stay):
                return broken(name, _witness(history, promise, process, min(missing), _fate(history, stay)))
    return holds(name)


def _fate(history: History, stay: Stay) -> str:
    if stay.after is None:
        return "stayed in it without that message"
    return f"went on to {Words(history).view(stay.after.view)} without that message"


def _witness(history: History, promise: _Promise, process: Process, number: int, fate: str) -> str:
    words = Words(history)
    what = f"{words.delivered(promise.said_by[number], number)} in {words.view(promise.view)}"
    return f"{what}, but {words.process(process)} {fate}"
