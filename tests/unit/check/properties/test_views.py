"""Properties 2.1 to 2.4 and 2.20 on handwritten histories; the notation is in `evs_notation`."""

import pytest
from tests.unit.check.evs_notation import history

from hopring.check.history import index
from hopring.check.properties.views import (
    INITIAL_VIEW,
    LOCAL_MONOTONICITY,
    MEMBERSHIP_AGREEMENT,
    SELF_INCLUSION,
    TRANSITIONAL_SET,
)


@pytest.mark.parametrize("text", ["a: view 1 a | send 1 | deliver a:1 | signal | view 2 a", "a: send 1 in 1"])
def test_deliveries_and_signals_within_a_view_are_right(text: str) -> None:
    assert INITIAL_VIEW.judge(index(history(text), quiet_end=True))


@pytest.mark.parametrize(
    ("text", "witness"),
    [
        ("a: send 1 in 1 | deliver a:1 | view 1 a", "a delivered a:1 at 2 us before it had installed a view"),
        ("a: signal | view 1 a", "a got a transitional signal at 1 us before it had installed a view"),
        (
            """
            a:   view 1 a | send 1 unreliable | crash
            a.2: recover | deliver a:1 | view 2 a.2
            """,
            "a.2 delivered a:1 at 2 us before it had installed a view",
        ),
    ],
)
def test_nothing_comes_before_the_first_view(text: str, witness: str) -> None:
    assert INITIAL_VIEW.judge(index(history(text), quiet_end=True)).witness == witness


def test_a_process_is_a_member_of_the_views_that_it_installs() -> None:
    right = index(history("a: view 1 ab"), quiet_end=False)
    wrong = index(history("a: view 1 ab | view 2 bc with b"), quiet_end=False)

    assert SELF_INCLUSION.judge(right)
    assert SELF_INCLUSION.judge(wrong).witness == "a installed view 2 at 2 us, which has only {b c}"


def test_an_earlier_start_of_the_daemon_is_not_the_process() -> None:
    text = """
    a:   view 1 a | crash
    a.2: view 2 a
    """

    assert SELF_INCLUSION.judge(index(history(text), quiet_end=False)).witness.startswith(
        "a.2 installed view 2"
    )


@pytest.mark.parametrize(
    "text",
    [
        "a: view 1 a | view 2 a | view 5 a",
        "a: view 1a ab | view 1b ab",  # The counter is the same, the representative is higher.
        """
        a:   view 7 a | crash
        a.2: view 1 a.2
        """,  # Another incarnation is another process.
    ],
)
def test_view_ids_rise(text: str) -> None:
    assert LOCAL_MONOTONICITY.judge(index(history(text), quiet_end=False))


@pytest.mark.parametrize(
    ("text", "witness"),
    [
        ("a: view 1 a | view 3 a | view 2 a", "a installed view 2 at 3 us after view 3 at 2 us"),
        ("a: view 1 a | view 1 a", "a installed view 1 at 2 us after view 1 at 1 us"),
        ("a: view 1b ab | view 1a ab", "a installed view 1 of 0 at 2 us after view 1 of 1 at 1 us"),
    ],
)
def test_view_ids_never_fall_or_stay(text: str, witness: str) -> None:
    assert LOCAL_MONOTONICITY.judge(index(history(text), quiet_end=False)).witness == witness


@pytest.mark.parametrize(
    "text",
    [
        "a: view 1 abc with a",
        """
        a: view 1 ab | view 3 abc with ab
        b: view 1 ab | view 3 abc with ab
        c: view 2 c  | view 3 abc with c
        """,
        # b was to come along and died on the way: only (2) applies to it.
        """
        a: view 1 ab | view 2 ab with ab
        b: view 1 ab | crash
        """,
        # c starts in the view to which the others move.
        """
        a: view 1 ab | view 2 abc with ab
        b: view 1 ab | view 2 abc with ab
        c: view 2 abc
        """,
        # Of two that left together, one dropped out and came to the next view from another.
        """
        a: view 1 ab | view 2a ab with ab | view 3 ab with a
        b: view 1 ab | view 2b b with b   | view 3 ab with b
        """,
    ],
)
def test_transitional_sets_with_the_members_that_came_along(text: str) -> None:
    assert TRANSITIONAL_SET.judge(index(history(text), quiet_end=False))


@pytest.mark.parametrize(
    ("text", "witness"),
    [
        (
            "a: view 1 ab with ab",
            "(1) a installed view 1 at 1 us with the transitional set {a b}, but it is its first view",
        ),
        (
            "a: view 1 ab | view 2 ac with ac",
            "(2) a installed view 2 at 2 us with the transitional set {a c}, but {c} is not in both view 1, "
            "which it came from, and view 2",
        ),
        (
            "a: view 1 ab | view 2 ac with ab",
            "(2) a installed view 2 at 2 us with the transitional set {a b}, but {b} is not in both view 1, "
            "which it came from, and view 2",
        ),
        (
            "a: view 1 ab | view 2 ab with b",
            "(3) a installed view 2 at 2 us with the transitional set {b}, which leaves itself out",
        ),
        (
            """
            a: view 1 ab | view 3 ab with ab
            b: view 1 ab | view 2 b with b | view 3 ab with b
            """,
            "(3) a came to view 3 from view 1, b came to view 3 from view 2, and a counts b as coming along",
        ),
        (
            """
            a: view 1 ab | view 2 ab with ab
            b: view 2 ab
            """,
            "(3) a came to view 2 from view 1, b came to view 2 from nowhere, and a counts b as coming along",
        ),
        (
            """
            a: view 1 ab | view 2 ab with a
            b: view 1 ab | view 2 ab with ab
            """,
            "(3) a came to view 2 from view 1, b came to view 2 from view 1, "
            "and a does not count b as coming along",
        ),
        (
            """
            a: view 1 abc | view 2 abc with abc
            b: view 1 abc | view 2 abc with ab
            """,
            "(4) a came to view 2 from view 1 with {a b c}, b came to view 2 from view 1 with {a b}",
        ),
    ],
)
def test_wrong_transitional_sets_are_a_violation(text: str, witness: str) -> None:
    assert TRANSITIONAL_SET.judge(index(history(text), quiet_end=False)).witness == witness


@pytest.mark.parametrize(
    "text",
    [
        """
        a: view 1 ab
        b: view 1 ba
        """,
        """
        a: view 1a a
        b: view 1b b
        """,  # Two components may use one counter: the representatives tell their views apart.
    ],
)
def test_one_id_one_set_of_members(text: str) -> None:
    assert MEMBERSHIP_AGREEMENT.judge(index(history(text), quiet_end=False))


@pytest.mark.parametrize(
    ("text", "witness"),
    [
        (
            """
            a: view 1 ab
            b: view 1 abc
            """,
            "a installed view 1 at 1 us of {a b}, b installed view 1 at 1 us of {a b c}",
        ),
        (
            """
            a:   view 1 ab
            b:   view 1 ab | crash
            b.2: view 1 ab.2
            """,
            "a installed view 1 at 1 us of {a b}, b.2 installed view 1 at 1 us of {a b.2}",
        ),
    ],
)
def test_one_id_with_two_sets_of_members_is_a_violation(text: str, witness: str) -> None:
    assert MEMBERSHIP_AGREEMENT.judge(index(history(text), quiet_end=False)).witness == witness
