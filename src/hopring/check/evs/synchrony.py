"""Those who move together: 2.7 and 2.8."""

from collections.abc import Callable, Hashable, Iterator
from itertools import combinations

from hopring.check.evs.history import History, Stay
from hopring.check.evs.words import Words
from hopring.check.trace import ViewName
from hopring.check.verdict import Verdict, broken, holds

VIRTUAL_SYNCHRONY = "2.7 virtual synchrony"
TRANSITIONAL_SIGNALS = "2.8 transitional signals"


def virtual_synchrony(history: History) -> Verdict:
    """2.7: two that move together have delivered the same set in the view they leave."""
    pair = _first_difference(history, lambda stay: frozenset(stay.delivered))
    if pair is None:
        return holds(VIRTUAL_SYNCHRONY)
    words = Words(history)
    witness = _only_one(pair, (frozenset(pair[0].delivered), frozenset(pair[1].delivered)), "", words)
    return broken(VIRTUAL_SYNCHRONY, witness)


def transitional_signals(history: History) -> Verdict:
    """2.8: at most one signal in a view, and the same agreed messages on either side of it."""
    words = Words(history)
    for stay in history.stays:
        witness = _flaw_alone(stay, words)
        if witness:
            return broken(TRANSITIONAL_SIGNALS, f"(1) {witness}")
    pair = _first_difference(history, lambda stay: _sides(history, stay))
    if pair is None:
        return holds(TRANSITIONAL_SIGNALS)
    return broken(TRANSITIONAL_SIGNALS, f"(2) {_unlike_sides(history, pair, words)}")


def _flaw_alone(stay: Stay, words: Words) -> str:
    """A second signal, or one that names another set than the view it announces."""
    who = f"{words.process(stay.process)} in {words.view(stay.view)}"
    if len(stay.signals) > 1:
        first, second, *_rest = stay.signals
        return f"{who} got a signal at {first.at_us} us and another at {second.at_us} us"
    if stay.signals and stay.after and frozenset(stay.signals[0].together) != stay.after.together:
        said, came = words.processes(stay.signals[0].together), words.processes(stay.after.together)
        return f"{who} got a signal for {said}, but {words.view(stay.after.view)} came with {came}"
    return ""


def _sides(history: History, stay: Stay) -> tuple[frozenset[int], frozenset[int]] | None:
    """The agreed messages before and after the signal; None without one, and then all is said by 2.7."""
    if stay.cut is None:
        return None
    service = history.messages.service
    before, after = (
        frozenset([number for number in side if service[number].total])
        for side in (stay.regular, stay.transitional)
    )
    return before, after


def _unlike_sides(history: History, pair: tuple[Stay, Stay], words: Words) -> str:
    one, other = (_sides(history, stay) for stay in pair)
    if one is None or other is None:
        got, not_got = pair if other is None else pair[::-1]
        signals = f"{words.process(got.process)} got a signal and {words.process(not_got.process)} none"
        return f"{moved(pair, words)}; {signals}"
    if one[0] != other[0]:
        return _only_one(pair, (one[0], other[0]), " before the signal", words)
    return _only_one(pair, (one[1], other[1]), " after the signal", words)


def _only_one(
    pair: tuple[Stay, Stay], sets: tuple[frozenset[int], frozenset[int]], side: str, words: Words
) -> str:
    number = min(sets[0] ^ sets[1])
    one, other = pair if number in sets[0] else pair[::-1]
    who = f"{words.delivered(one.process, number)}{side}, {words.process(other.process)} did not"
    return f"{moved(pair, words)}; {who}"


def moved(pair: tuple[Stay, Stay], words: Words) -> str:
    """That two came from one view to the next together."""
    one, other = pair
    assert one.after is not None
    way = f"from {words.view(one.view)} to {words.view(one.after.view)}"
    return f"{words.process(one.process)} and {words.process(other.process)} moved together {way}"


def _first_difference(history: History, look: Callable[[Stay], Hashable]) -> tuple[Stay, Stay] | None:
    """Two stays that were left together and look different."""
    for group in same_way(history):
        looks = [look(stay) for stay in group]
        if looks.count(looks[0]) == len(looks):
            continue
        for (one, one_look), (other, other_look) in combinations(zip(group, looks, strict=True), 2):
            if one_look != other_look and together(one, other):
                return one, other
    return None


def same_way(history: History) -> Iterator[list[Stay]]:
    """Stays in one view that were left for the same next view."""
    for stays in history.views.values():
        by_next: dict[ViewName, list[Stay]] = {}
        for stay in stays.values():
            if stay.after is not None:
                by_next.setdefault(stay.after.view, []).append(stay)
        yield from by_next.values()


def together(one: Stay, other: Stay) -> bool:
    """Whether two that left for the same view count each other as coming along."""
    assert one.after is not None
    assert other.after is not None
    return other.process in one.after.together or one.process in other.after.together
