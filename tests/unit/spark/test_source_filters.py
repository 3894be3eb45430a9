from dataclasses import dataclass

from hopring.spark.source.options import OFFSETS_END, Pushed, push


@dataclass
class Comparison:
    attribute: tuple[str, ...]
    value: object = None


class EqualTo(Comparison): ...


class GreaterThan(Comparison): ...


class GreaterThanOrEqual(Comparison): ...


class LessThan(Comparison): ...


class LessThanOrEqual(Comparison): ...


class In(Comparison): ...


class IsNotNull(Comparison): ...


class StringContains(Comparison): ...


def test_comparisons_of_offsets_narrow_what_is_read() -> None:
    filters = [
        IsNotNull(("offset",)),
        GreaterThan(("offset",), 9),
        GreaterThanOrEqual(("offset",), 5),
        LessThan(("offset",), 30),
        LessThanOrEqual(("offset",), 19),
    ]

    pushed, left = push(filters)

    assert (pushed, left) == (Pushed(10, 20), [])
    assert pushed.applied("any", range(0, 15)) == range(10, 15)
    assert not pushed.applied("any", range(0, 10))
    assert push([EqualTo(("offset",), 7)])[0] == Pushed(7, 8)


def test_groups_are_selected_and_contradictory_filters_leave_nothing() -> None:
    pushed, left = push([In(("group",), ("a", "b", None)), EqualTo(("group",), "b")])

    assert (pushed, left) == (Pushed(0, OFFSETS_END, frozenset("b")), [])
    assert not pushed.applied("a", range(9))
    assert pushed.applied("b", range(9)) == range(9)
    assert push([EqualTo(("group",), "a"), EqualTo(("group",), "b")])[0].groups == frozenset()


def test_other_filters_are_given_back() -> None:
    filters = [
        EqualTo(("sender",), "x"),
        In(("offset",), (1, 2)),
        StringContains(("group",), "a"),
        EqualTo(("view", "offset"), 1),
        EqualTo(("offset",), None),
        IsNotNull(("sender",)),
    ]

    assert push(filters) == (Pushed(), filters)
