"""Properties 2.7 and 2.8 on handwritten histories."""

import pytest
from tests.unit.check.evs_notation import history

from hopring.check.history import index
from hopring.check.properties.signals import TRANSITIONAL_SIGNALS
from hopring.check.properties.synchrony import VIRTUAL_SYNCHRONY


@pytest.mark.parametrize(
    "text",
    [
        """
        a: view 1 ab | send 1 fifo | deliver a:1 | signal | view 2 ab
        b: view 1 ab | signal | deliver a:1 | view 2 ab
        """,
        # They part: nothing is promised.
        """
        a: view 1a ab | send 1 | deliver a:1 | view 2a a
        b: view 1a ab | view 2b b
        """,
        # They meet again in view 3, coming from different views.
        """
        a: view 1a ab | send 1 | deliver a:1 | view 2a a | view 3 ab with a
        b: view 1a ab | view 2b b | view 3 ab with b
        """,
        # b dies on the way.
        """
        a: view 1 ab | send 1 | deliver a:1 | view 2 ab
        b: view 1 ab | crash
        """,
        """
        a: view 1 ab | send 1 unreliable | deliver a:1 | view 2 ab
        b: view 1 ab | view 2 ab
        """,
        # b comes from the same view to the same view, but no one counts it as coming along: 2.4 is broken.
        """
        a: view 1 ab | send 1 | deliver a:1 | view 2 ab with a
        b: view 1 ab | view 2 ab with b
        """,
    ],
)
def test_processes_that_move_together_have_delivered_the_same(text: str) -> None:
    assert VIRTUAL_SYNCHRONY.judge(index(history(text), quiet_end=True))


@pytest.mark.parametrize(
    ("text", "witness"),
    [
        (
            """
            a: view 1 ab | send 1 reliable | deliver a:1 | view 2 ab
            b: view 1 ab | view 2 ab
            """,
            "a and b moved together from view 1 to view 2; a delivered a:1 at 3 us, b did not",
        ),
        # For daemons, a delivery in another view does not count.
        (
            """
            a: view 1 ab | send 1 | view 2 ab | deliver a:1
            b: view 1 ab | deliver a:1 | view 2 ab
            """,
            "a and b moved together from view 1 to view 2; b delivered a:1 at 2 us, a did not",
        ),
        # Of three processes, the third is the one that parted earlier.
        (
            """
            a: view 1 abc | send 1 | deliver a:1 | signal | view 2 ab
            b: view 1 abc | signal | view 2 ab
            c: view 1 abc | view 3 c
            """,
            "a and b moved together from view 1 to view 2; a delivered a:1 at 3 us, b did not",
        ),
    ],
)
def test_different_deliveries_of_processes_that_move_together_are_a_violation(text: str, witness: str) -> None:
    assert VIRTUAL_SYNCHRONY.judge(index(history(text), quiet_end=True)).witness == witness


@pytest.mark.parametrize(
    "text",
    [
        """
        a: view 1 ab | send 1 | deliver a:1 | signal | deliver b:2 | view 2 ab
        b: view 1 ab | send 2 | deliver a:1 | signal | deliver b:2 | view 2 ab
        """,
        "a: view 1 a | signal | view 2 a | signal | view 3 a",
        # Early messages may be on either side.
        """
        a: view 1 ab | send 1 fifo | deliver a:1 | signal | view 2 ab
        b: view 1 ab | signal | deliver a:1 | view 2 ab
        """,
        # Processes that part may have the signal at different places.
        """
        a: view 1 ab | send 1 | deliver a:1 | signal | view 2a a
        b: view 1 ab | signal | deliver a:1 | view 2b b
        """,
        "a: view 1 ab | signal ab | crash",
        # Without a signal there are no sides; that b lacks the message is a case for 2.7.
        """
        a: view 1 ab | send 1 | deliver a:1 | view 2 ab
        b: view 1 ab | view 2 ab
        """,
    ],
)
def test_processes_that_move_together_agree_on_both_sides_of_the_signal(text: str) -> None:
    assert TRANSITIONAL_SIGNALS.judge(index(history(text), quiet_end=True))


@pytest.mark.parametrize(
    ("text", "witness"),
    [
        (
            "a: view 1 ab | signal | signal | view 2 a",
            "(1) a in view 1 got a signal at 2 us and another at 3 us",
        ),
        (
            "a: view 1 ab | signal a | view 2 ab",
            "(1) a in view 1 got a signal for {a}, but view 2 came with {a b}",
        ),
        (
            """
            a: view 1 ab | signal | view 2 ab
            b: view 1 ab | view 2 ab
            """,
            "(2) a and b moved together from view 1 to view 2; a got a signal and b none",
        ),
        (
            """
            a: view 1 ab | send 1 | deliver a:1 | signal | view 2 ab
            b: view 1 ab | signal | deliver a:1 | view 2 ab
            """,
            "(2) a and b moved together from view 1 to view 2; a delivered a:1 at 3 us before the signal, "
            "b did not",
        ),
        (
            """
            a: view 1 ab | send 1 safe | signal | view 2 ab
            b: view 1 ab | signal | deliver a:1 | view 2 ab
            """,
            "(2) a and b moved together from view 1 to view 2; b delivered a:1 at 3 us after the signal, "
            "a did not",
        ),
    ],
)
def test_inconsistent_signals_are_a_violation(text: str, witness: str) -> None:
    assert TRANSITIONAL_SIGNALS.judge(index(history(text), quiet_end=True)).witness == witness
