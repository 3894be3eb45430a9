"""Properties 2.18 and 2.19 on handwritten histories."""

import pytest
from tests.unit.check.evs_notation import history

from hopring.check.history import index
from hopring.check.properties.placement import SAME_VIEW, SANE_VIEW


def test_all_deliver_a_message_in_the_same_view() -> None:
    right = """
    a: view 1 ab | send 1 | deliver a:1 | view 2 ab
    b: view 1 ab | signal | deliver a:1 | view 2 ab
    """
    wrong = """
    a: view 1 ab | send 1 fifo | deliver a:1 | view 2 ab
    b: view 1 ab | view 2 ab | deliver a:1
    """

    assert SAME_VIEW.judge(index(history(right), quiet_end=False))
    witness = SAME_VIEW.judge(index(history(wrong), quiet_end=False)).witness
    assert witness == "a delivered a:1 at 3 us in view 1, b in view 2"


def test_an_unreliable_message_belongs_to_one_view_too() -> None:
    right = """
    a: view 1 abc | send 1 unreliable | deliver a:1 | view 2 abc
    b: view 1 abc | deliver a:1 | view 2 abc
    c: view 1 abc | view 2 abc
    """
    wrong = """
    a: view 1 ab | send 1 unreliable | deliver a:1 | view 2 ab
    b: view 1 ab | view 2 ab | deliver a:1
    """

    assert SAME_VIEW.judge(index(history(right), quiet_end=False))
    witness = SAME_VIEW.judge(index(history(wrong), quiet_end=False)).witness
    assert witness == "a delivered a:1 at 3 us in view 1, b in view 2"


@pytest.mark.parametrize(
    "text",
    [
        "a: view 1 a | send 1 | deliver a:1 | view 2 a | send 2 | deliver a:2",
        # The message waited in a queue over a view change.
        "a: view 1 a | send 1 in 2 | view 2 a | deliver a:1",
        "a: send 1 in 1 | view 1 a | deliver a:1",
        "a: view 1 a | send 1 unreliable | deliver a:1 | view 2 a | send 2 unreliable",
        "a: view 1 a | send 1 unreliable in 2 | view 2 a | deliver a:1",
        """
        a:   view 1a ab | send 1 | deliver a:1 | crash
        b:   view 1a ab | deliver a:1 | view 2b b
        a.2: view 2a a.2
        """,
    ],
)
def test_a_message_is_delivered_where_it_was_stamped(text: str) -> None:
    assert SANE_VIEW.judge(index(history(text), quiet_end=False))


@pytest.mark.parametrize(
    ("text", "witness"),
    [
        (
            "a: view 1 a | send 1 reliable | view 2 a | deliver a:1",
            "(1) a delivered a:1 at 4 us in view 2, but it was stamped in view 1",
        ),
        (
            "a: view 1 a | send 1 unreliable | view 2 a | deliver a:1",
            "(1) a delivered a:1 at 4 us in view 2, but it was stamped in view 1",
        ),
        (
            "a: view 1 a | view 2 a | send 1 unreliable in 1",
            "(1) a sent a:1 at 3 us in view 2 with a stamp of view 1",
        ),
        (
            """
            a:   view 5 ab | send 1 unreliable | crash
            b:   view 5 ab | deliver a:1
            a.2: view 1 a.2
            """,
            "(2) b delivered a:1 at 2 us in view 5, but a had started again, in view 1",
        ),
        (
            """
            a: view 1 ab | send 1 in 2 | view 2 ab | deliver a:1
            b: view 1 ab | deliver a:1
            """,
            "(1) b delivered a:1 at 2 us in view 1, but it was stamped in view 2",
        ),
        (
            "a: view 1 a | view 2 a | send 1 in 1",
            "(1) a sent a:1 at 3 us in view 2 with a stamp of view 1",
        ),
        (
            """
            a:   view 5 ab | send 1 | crash
            b:   view 5 ab | deliver a:1
            a.2: view 1 a.2
            """,
            "(2) b delivered a:1 at 2 us in view 5, but a had started again, in view 1",
        ),
    ],
)
def test_a_delivery_in_another_view_than_that_of_the_stamp_is_a_violation(text: str, witness: str) -> None:
    assert SANE_VIEW.judge(index(history(text), quiet_end=False)).witness == witness


def test_ids_are_not_compared_over_a_restart_that_lost_its_counter() -> None:
    text = """
    a:   view 5 ab | send 1 | crash
    b:   view 5 ab | deliver a:1
    a.2: view 1 a.2
    """

    assert SANE_VIEW.judge(index(history(text), quiet_end=False, counters_survive=False))
