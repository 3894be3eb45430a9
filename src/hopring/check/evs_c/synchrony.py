"""Those who move together from one view of a group to the next: 2.7 and 2.8."""

from collections.abc import Iterator
from itertools import permutations

from hopring.check.evs.history import History, Stay
from hopring.check.evs.synchrony import (
    TRANSITIONAL_SIGNALS,
    VIRTUAL_SYNCHRONY,
    moved,
    same_way,
    together,
)
from hopring.check.evs.words import Words
from hopring.check.evs_c.history import ClientHistory
from hopring.check.evs_c.words import first_of
from hopring.check.trace import Process
from hopring.check.verdict import Verdict

NETWORK = "network"


def virtual_synchrony(history: ClientHistory) -> Verdict:
    """2.7: the same agreed messages in the view they leave; the others by the next change of network.

    Weaker than among daemons: a Reliable or FIFO message may come in another view, and one that lies behind a
    join in the order is promised only to those who are together at the next change of network.
    """
    for name, group in sorted(history.groups.items()):
        for one, other in _companions(group):
            missing = _agreed(group, one.delivered) - _agreed(group, other.delivered)
            for number in sorted(missing):
                if not history.discards(other.process, number):
                    return first_of(VIRTUAL_SYNCHRONY, _without(group, (one, other), number, ""))
            for number in sorted(_early(group, one, other.process) - group.lives[other.process].got):
                if not history.leaves(name, other.process):
                    return first_of(VIRTUAL_SYNCHRONY, _without(group, (one, other), number, " at all"))
    return first_of(VIRTUAL_SYNCHRONY, None)


def transitional_signals(history: ClientHistory) -> Verdict:
    """2.8: at most one signal in a view, for nobody who is not told of; the same agreed messages before it."""
    for _, group in sorted(history.groups.items()):
        for stay in group.stays:
            witness = _flaw_alone(stay, Words(group))
            if witness:
                return first_of(TRANSITIONAL_SIGNALS, f"(1) {witness}")
        for pair in _companions(group):
            witness = _unlike_sides(history, group, pair)
            if witness:
                return first_of(TRANSITIONAL_SIGNALS, f"(2) {witness}")
    return first_of(TRANSITIONAL_SIGNALS, None)


def _companions(group: History) -> Iterator[tuple[Stay, Stay]]:
    """Stays in one view that were left together, each pair both ways."""
    for stays in same_way(group):
        for one, other in permutations(stays, 2):
            if together(one, other):
                yield one, other


def _agreed(group: History, numbers: list[int]) -> set[int]:
    service = group.messages.service
    return {number for number in numbers if service[number].total}


def _early(group: History, stay: Stay, other: Process) -> set[int]:
    """The Reliable and FIFO messages of all views that the two have been through together."""
    if stay.after is None or stay.after.installed.cause != NETWORK:
        return set()
    service, found = group.messages.service, set()
    at: Stay | None = stay
    while at is not None:
        found.update([number for number in at.delivered if service[number].early])
        at = at.before if other in at.together else None
    return found


def _without(group: History, pair: tuple[Stay, Stay], number: int, where: str) -> str:
    words = Words(group)
    who = f"{words.delivered(pair[0].process, number)}, {words.process(pair[1].process)} did not{where}"
    return f"{moved(pair, words)}; {who}"


def _flaw_alone(stay: Stay, words: Words) -> str:
    """A second signal, or one that leaves out who came along to the view that followed."""
    who = f"{words.process(stay.process)} in {words.view(stay.view)}"
    if len(stay.signals) > 1:
        first, second, *_rest = stay.signals
        return f"{who} got a signal at {first.at_us} us and another at {second.at_us} us"
    if stay.signals and stay.after is not None:
        said = frozenset(stay.signals[0].together)
        if not stay.after.together <= said:
            came = f"{words.view(stay.after.view)} came with {words.processes(stay.after.together)}"
            return f"{who} got a signal for {words.processes(said)}, but {came}"
    return ""


def _unlike_sides(history: ClientHistory, group: History, pair: tuple[Stay, Stay]) -> str:
    one, other = pair
    words = Words(group)
    if (one.cut is None) is not (other.cut is None):
        got, not_got = pair if other.cut is None else pair[::-1]
        signals = f"{words.process(got.process)} got a signal and {words.process(not_got.process)} none"
        return f"{moved(pair, words)}; {signals}"
    for number in sorted(_agreed(group, one.regular) - _agreed(group, other.regular)):
        if one.cut is not None and not history.discards(other.process, number):
            return _without(group, pair, number, " before the signal")
    return ""
