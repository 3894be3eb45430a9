"""R5 and R6: what resilient messages survive, and the chain of primary lists."""

from collections.abc import Iterator
from itertools import groupby, pairwise

from hopring.check.properties.order import circle_of, edges_of
from hopring.check.rmp.peer_events import DataShown
from hopring.check.rmp.peer_history import MAJORITY_RESILIENCE, ListStay, PeerHistory, Place, RingFault


def survives_losses(history: PeerHistory) -> Iterator[RingFault]:
    """R5: a message that survives k losses is with all that go on with all but k members of its list."""
    promised = _promised(history, majority=False)
    for stay in history.all_stays:
        if stay.after is None or stay.place not in promised:
            continue
        lost = len(set(stay.installed.members) - set(stay.after.installed.together))
        got = _got_until(history, stay)
        for message, (shown, k) in promised[stay.place].items():
            if lost <= k and message not in got:
                what = f"{shown.process} delivered {message} at {shown.at_us} us, to survive {k} losses"
                lacks = f"{stay.process} lost {lost} and installed {_name(stay.after)} without it"
                yield RingFault(stay.after.installed, f"{what}; {lacks}")


def _promised(history: PeerHistory, *, majority: bool) -> dict[Place, dict[str, tuple[DataShown, int]]]:
    """By list, the resilient messages that somebody delivered in it before its signal."""
    promised: dict[Place, dict[str, tuple[DataShown, int]]] = {}
    for stay in history.all_stays:
        for shown in stay.before_signal:
            if shown.withheld or not shown.resilience:
                continue
            if (shown.resilience == MAJORITY_RESILIENCE) is majority:
                known = promised.setdefault(stay.place, {})
                if shown.message not in known or known[shown.message][1] < shown.resilience:
                    known[shown.message] = shown, shown.resilience
    return promised


def _got_until(history: PeerHistory, stay: ListStay) -> set[str]:
    """What a process delivered in this list and all before it; withheld messages are not delivered."""
    got: set[str] = set()
    for one in history.stays[stay.process]:
        got.update([shown.message for shown in one.shown if not shown.withheld])
        if one is stay:
            break
    return got


def _name(stay: ListStay) -> str:
    return f"the list at {stay.installed.timestamp} of epoch {stay.installed.epoch}"


def one_primary(history: PeerHistory) -> Iterator[RingFault]:
    """R6: primary lists form a chain of majorities, and majority messages are in all of it, in one order."""
    primaries = [history.lists[place] for place in sorted(history.lists) if history.lists[place].primary]
    for before, after in pairwise(primaries):
        common = set(before.members) & set(after.members)
        # A leave needs no majority of the list before: a majority of that list has it before it counts.
        if after.cause == "failure" and 2 * len(common) <= len(before.members):
            names = f"{' '.join(before.members)} at {before.timestamp} of epoch {before.epoch}"
            there = f"{' '.join(after.members)} at {after.timestamp} of epoch {after.epoch}"
            yield RingFault(after, f"the primary list {there} has no majority of the primary list {names}")
    yield from _lost_by_primary(history)
    yield from _majority_order(history)


def _lost_by_primary(history: PeerHistory) -> Iterator[RingFault]:
    promised = _promised(history, majority=True)
    for stay in history.all_stays:
        later = stay.after
        while later is not None and not later.installed.primary:
            later = later.after
        if later is None or stay.place not in promised:
            continue
        assert later.before is not None
        got = _got_until(history, later.before)
        for message, (shown, _k) in promised[stay.place].items():
            if message not in got:
                what = f"{shown.process} delivered {message} at {shown.at_us} us for a majority"
                lacks = f"{stay.process} installed {_name(later)}, which is primary, without it"
                yield RingFault(later.installed, f"{what}; {lacks}")


def _majority_order(history: PeerHistory) -> Iterator[RingFault]:
    """Messages for a majority are delivered in one order: what comes before what goes in no circle."""
    courses: list[list[str]] = []
    for process in sorted(history.stays):
        shown = [one for stay in history.stays[process] for one in stay.shown if _for_majority(one)]
        # Once directly behind the other: that is a matter of EVS-C 2.5.
        courses.append([message for message, _ in groupby([one.message for one in shown])])
    while heads := {one[0] for one in courses if one} - {message for one in courses for message in one[1:]}:
        courses = [one for one in [[it for it in one if it not in heads] for one in courses] if one]
    left = {message for one in courses for message in one}
    delivered = [one for stay in history.all_stays for one in stay.shown if _for_majority(one)]
    first = min([one for one in delivered if one.message in left], key=history.place_of, default=None)
    if first is not None:
        yield RingFault(first, f"majority messages are delivered in a circle: {' '.join(_circle(courses))}")


def _for_majority(shown: DataShown) -> bool:
    return shown.resilience == MAJORITY_RESILIENCE and not shown.withheld


def _circle(courses: list[list[str]]) -> list[str]:
    """A circle among these courses, in which everything comes behind something."""
    numbers = {message: number for number, message in enumerate(sorted({it for one in courses for it in one}))}
    edges = edges_of([[numbers[message] for message in one] for one in courses])
    names = {number: message for message, number in numbers.items()}
    return [names[number] for number in circle_of(edges)]
