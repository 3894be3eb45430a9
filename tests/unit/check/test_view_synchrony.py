"""The properties of view synchrony, on histories written by hand: a right one, and one error in each other.

a and b are in view v1; c joins; both flush, and all three install v2.
"""

from collections.abc import Callable

import pytest

from hopring.check.view_synchrony import (
    AGREEMENT,
    ALL_AGREED,
    ALL_ARRIVE,
    COMPLETE,
    QUIET_BEFORE,
    SAME_VIEW,
    SENDING_VIEW,
    SYNCHRONY,
    AgreementSent,
    FlushAgreed,
    FlushAsked,
    FlushEvent,
    SentInView,
    ShownInView,
    StayBegan,
    StayEnded,
    SynchronousView,
    check_view_synchrony,
)


def event(text: str, at_us: int) -> FlushEvent:
    """A stay and what happens: `a joins a`, `a view v1 ab a`, `a asked`, `a agreement v2`, `a sends m1`."""
    stay, kind, *words = text.split()
    if kind == "view":
        return SynchronousView(at_us, stay, words[0], tuple(words[1]), tuple(words[2]))
    kinds: dict[str, Callable[[int, str, str], FlushEvent]] = {
        "sends": SentInView,
        "shown": ShownInView,
        "agreement": AgreementSent,
        "joins": StayBegan,
    }
    bare: dict[str, Callable[[int, str], FlushEvent]] = {
        "asked": FlushAsked,
        "agrees": FlushAgreed,
        "ends": StayEnded,
    }
    return kinds[kind](at_us, stay, words[0]) if kind in kinds else bare[kind](at_us, stay)


RIGHT = """
a joins a / b joins b
a agreement v1 / b agreement v1 / a view v1 ab a / b view v1 ab b
c joins c / c agreement v2
a asked / b asked / a sends m1 / a agrees / a agreement v2
a shown m1 / b shown m1 / b agrees / b agreement v2
a view v2 abc ab / b view v2 abc ab / c view v2 abc c
c sends m2 / a shown m2 / b shown m2 / c shown m2
""".replace("\n", "/")


def broken(text: str, components: list[str] | None) -> list[str]:
    lines = [line.strip() for line in text.split("/") if line.strip()]
    history = [event(line, at_us) for at_us, line in enumerate(lines)]
    return [one.property for one in check_view_synchrony(history, components) if not one]


def test_a_right_history_keeps_every_property() -> None:
    assert broken(RIGHT, ["abc"]) == []


@pytest.mark.parametrize(
    ("right", "wrong", "name"),
    [
        ("c shown m2", "c shown m2 / c shown m1", SENDING_VIEW),
        ("b shown m1 / b agrees", "b agrees", COMPLETE),
        ("c shown m2", "c shown m2 / b shown m1", SENDING_VIEW),
        ("b shown m1 / b agrees", "b agrees / b agreement v2 / b view v2 abc ab / b shown m1", SAME_VIEW),
        ("b agrees / b agreement v2", "b asked", ALL_AGREED),
        ("b agrees / b agreement v2", "b agreement v2", ALL_AGREED),
        ("a agrees", "a agrees / a sends m3", QUIET_BEFORE),
        ("c agreement v2", "c agreement v2 / c sends m3", QUIET_BEFORE),
        ("b view v2 abc ab", "b view v2 ab ab", AGREEMENT),
        ("b view v2 abc ab", "b view v2 abc b", AGREEMENT),
        ("c view v2 abc c", "c view v2 abc ac", AGREEMENT),
        ("c view v2 abc c", "c view v2 abc a", AGREEMENT),
    ],
)
def test_an_error_breaks_the_property(right: str, wrong: str, name: str) -> None:
    assert right in RIGHT
    assert name in broken(RIGHT.replace(right, wrong), None)


def test_members_that_come_together_have_been_shown_the_same_of_others() -> None:
    """c dies in v1 after it has sent m1, and only a gets it."""
    text = """
    a joins a / b joins b / c joins c / a agreement v1 / b agreement v1 / c agreement v1
    a view v1 abc a / b view v1 abc b / c view v1 abc c / c sends m1 / c ends / a shown m1
    a asked / b asked / a agrees / b agrees / a agreement v2 / b agreement v2
    a view v2 ab ab / b view v2 ab ab
    """.replace("\n", "/")

    assert broken(text, None) == [SYNCHRONY]
    assert broken(text.replace("a shown m1", "a shown m1 / b shown m1"), None) == []


@pytest.mark.parametrize("end", ["/ a asked", "/ d joins d", "/ c ends"])
def test_at_a_quiet_end_all_have_one_open_view(end: str) -> None:
    assert broken(RIGHT + end, ["abcd"]) == [ALL_ARRIVE]
    assert broken(RIGHT + end, None) == []
