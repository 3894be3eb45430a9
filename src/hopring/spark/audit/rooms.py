"""What is known of a view: who was in it, who left it with whom, and what is owed to whom in it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from hopring.spark.audit.lives import Stay

Fields = Mapping[str, Any]


def room_rows(stays: Iterable[Stay]) -> Iterator[Fields]:
    """One row per view: who installed it, who ended in it, who had a signal in it.

    The time before the first views has a room too, without a view, which nobody installed.
    """
    for room, inside in _by(stays, lambda stay: stay.room).items():
        first = inside[0]
        shown = [stay for stay in inside if stay.stay > 0]
        yield {
            "room": room,
            "run": first.life.run,
            "view": first.view,
            "nth": first.nth,
            "installed": _union(stay.life.itself for stay in shown),
            "ended": _union(stay.life.itself for stay in shown if stay.ended),
            "signalled": _union(stay.life.itself for stay in shown if stay.signals),
        }


def way_rows(stays: Iterable[Stay]) -> Iterator[Fields]:
    """Those who left one view for the same next one, each with whom it moves together with.

    2.7's words: one is in the transitional set of the other. Those with the same set are looked at as one:
    there are few sets in a view, and there may be many processes.
    """
    left = [stay for stay in stays if stay.stay > 0 and stay.nth == 1 and stay.after]
    for group in _by(left, lambda stay: (stay.room, stay.after and stay.after.view)).values():
        everybody = _union(stay.life.itself for stay in group)
        holders = _by(group, lambda stay: stay.after.together if stay.after else 0)
        sets = [(together, _union(one.life.itself for one in same)) for together, same in holders.items()]
        for stay in group:
            assert stay.after is not None, "they left"
            named_by = _union(same for together, same in sets if together & stay.life.itself)
            yield {
                "id": stay.id,
                "room": stay.room,
                "run": stay.life.run,
                "process": stay.life.process,
                "view": stay.view,
                "after_view": stay.after.view,
                "self": stay.life.itself,
                "friends": stay.after.together & everybody | named_by,
            }


def owed_rows(stays: Iterable[Stay]) -> Iterator[Fields]:
    """By view: its members, and those that come along from it, each as some have it; with who these are."""
    shown = [stay for stay in stays if stay.stay > 0]
    for (room, members), same in _by(shown, lambda stay: (stay.room, stay.members)).items():
        said_by = _union(stay.life.itself for stay in same)
        yield {"room": room, "behind": False, "owed": members, "said_by": said_by}
    left = [stay for stay in shown if stay.after]
    for (room, together), same in _by(
        left, lambda stay: (stay.room, stay.after.together if stay.after else 0)
    ).items():
        said_by = _union(stay.life.itself for stay in same)
        yield {"room": room, "behind": True, "owed": together, "said_by": said_by}


def _by(stays: Iterable[Stay], key: Any) -> dict[Any, list[Stay]]:
    groups: dict[Any, list[Stay]] = defaultdict(list)
    for stay in stays:
        groups[key(stay)].append(stay)
    return groups


def _union(sets: Iterable[int]) -> int:
    whole = 0
    for one in sets:
        whole |= one
    return whole
