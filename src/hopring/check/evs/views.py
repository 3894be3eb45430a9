"""Views and their transitional sets: 2.1 to 2.4, and 2.20."""

from collections.abc import Iterator

from hopring.check.evs.history import History, Stay
from hopring.check.evs.words import Words
from hopring.check.trace import Delivered, Process, ViewName
from hopring.check.verdict import Verdict, broken, holds

INITIAL_VIEW = "2.1 initial view event"
SELF_INCLUSION = "2.2 self inclusion"
LOCAL_MONOTONICITY = "2.3 local monotonicity"
TRANSITIONAL_SET = "2.4 transitional set"
MEMBERSHIP_AGREEMENT = "2.20 membership agreement"


def initial_view(history: History) -> Verdict:
    """2.1: nothing is delivered and nothing signalled before the first view."""
    words = Words(history)
    for life in history.lives.values():
        for event in life.homeless:
            if isinstance(event, Delivered):
                what = words.delivery(event)
            else:
                what = f"{words.process(life.process)} got a transitional signal at {event.at_us} us"
            return broken(INITIAL_VIEW, f"{what} before it had installed a view")
    return holds(INITIAL_VIEW)


def self_inclusion(history: History) -> Verdict:
    """2.2: who installs a view is in it."""
    words = Words(history)
    for stay in history.stays:
        if stay.process not in stay.members:
            whom = words.processes(stay.members)
            return broken(SELF_INCLUSION, f"{words.install(stay)}, which has only {whom}")
    return holds(SELF_INCLUSION)


def local_monotonicity(history: History) -> Verdict:
    """2.3: a process installs views with rising ids."""
    words = Words(history)
    for stay in history.stays:
        before = stay.before
        if before is not None and stay.view <= before.view:
            then = f"{words.view(before.view)} at {before.installed.at_us} us"
            return broken(LOCAL_MONOTONICITY, f"{words.install(stay)} after {then}")
    return holds(LOCAL_MONOTONICITY)


def transitional_set(history: History) -> Verdict:
    """2.4: who came along, the same for all who came along."""
    words = Words(history)
    for stay in history.stays:
        for witness in _flaws_alone(stay, words):
            return broken(TRANSITIONAL_SET, witness)
    for stays in history.views.values():
        for witness in _flaws_together(stays, words):
            return broken(TRANSITIONAL_SET, witness)
    return holds(TRANSITIONAL_SET)


def _flaws_alone(stay: Stay, words: Words) -> Iterator[str]:
    """(1), with {self} in place of the thesis' empty set; (2); and (3) where both processes are the same."""
    if stay.before is None:
        if stay.together != {stay.process}:
            yield f"(1) {_with_set(stay, words)}, but it is its first view"
        return
    strangers = stay.together - (stay.members & stay.before.members)
    if strangers:
        views = f"{words.view(stay.before.view)}, which it came from, and {words.view(stay.view)}"
        yield f"(2) {_with_set(stay, words)}, but {words.processes(strangers)} is not in both {views}"
    if stay.process not in stay.together:
        yield f"(3) {_with_set(stay, words)}, which leaves itself out"


def _with_set(stay: Stay, words: Words) -> str:
    return f"{words.install(stay)} with the transitional set {words.processes(stay.together)}"


def _flaws_together(stays: dict[Process, Stay], words: Words) -> Iterator[str]:
    """(3) and (4), for those that did install the view; about others, only (2) says something."""
    from_view: dict[ViewName, set[Process]] = {}
    for stay in stays.values():
        if stay.before is not None:
            from_view.setdefault(stay.before.view, set()).add(stay.process)
    first_from: dict[ViewName, Stay] = {}
    for stay in stays.values():
        companions = from_view[stay.before.view] if stay.before is not None else {stay.process}
        wrong = stay.together.intersection(stays) ^ companions
        if wrong:
            yield f"(3) {_not_companions(stay, stays[min(wrong)], words)}"
        if stay.before is not None:
            first = first_from.setdefault(stay.before.view, stay)
            if first.together != stay.together:
                yield f"(4) {_unlike_sets(first, stay, words)}"


def _not_companions(stay: Stay, other: Stay, words: Words) -> str:
    counts = "counts" if other.process in stay.together else "does not count"
    ways = f"{_way(stay, words)}, {_way(other, words)}"
    return f"{ways}, and {words.process(stay.process)} {counts} {words.process(other.process)} as coming along"


def _way(stay: Stay, words: Words) -> str:
    origin = "nowhere" if stay.before is None else words.view(stay.before.view)
    return f"{words.process(stay.process)} came to {words.view(stay.view)} from {origin}"


def _unlike_sets(stay: Stay, other: Stay, words: Words) -> str:
    sets = f"with {words.processes(stay.together)}, {_way(other, words)} with {words.processes(other.together)}"
    return f"{_way(stay, words)} {sets}"


def membership_agreement(history: History) -> Verdict:
    """2.20: one id, one set of members. Client views hold this only with the ids that rule them apart."""
    words = Words(history)
    first: dict[ViewName, Stay] = {}
    for stay in history.stays:
        other = first.setdefault(stay.view, stay)
        if stay.members != other.members:
            ours, theirs = words.processes(stay.members), words.processes(other.members)
            return broken(
                MEMBERSHIP_AGREEMENT, f"{words.install(other)} of {theirs}, {words.install(stay)} of {ours}"
            )
    return holds(MEMBERSHIP_AGREEMENT)
