"""2.13(3), 2.13(4), 2.14(2) and 2.14(3) on histories written by hand."""

import pytest
from tests.unit.check.evs_notation import history

from hopring.check.history import index
from hopring.check.properties.agreed import AGREED_AFTER_SIGNAL, AGREED_BEFORE_SIGNAL
from hopring.check.properties.safe import SAFE_AFTER_SIGNAL, SAFE_BEFORE_SIGNAL


@pytest.mark.parametrize(
    "text",
    [
        """
        a: view 1 ab | send 1 | deliver a:1 | deliver b:2
        b: view 1 ab | send 2 | deliver a:1 | deliver b:2
        """,
        # b is behind, not wrong.
        """
        a: view 1 ab | send 1 | deliver a:1 | deliver b:2
        b: view 1 ab | send 2
        """,
        # b:2 is Reliable and early at b: it owes nothing to what is below it.
        """
        a: view 1 ab | send 1 | deliver a:1
        b: view 1 ab | send 2 reliable | deliver b:2 | signal | view 2 b
        """,
        # After the signal, a:1 may be a hole for b.
        """
        a: view 1 ab | send 1 | deliver a:1 | crash
        b: view 1 ab | send 2 | signal | deliver b:2 | view 2 b
        """,
        # What another delivered in another view is no concern of this one.
        """
        a: view 1a a | send 1 | deliver a:1
        b: view 1b b | send 2 | deliver b:2
        """,
        """
        a: view 1 ab | send 1 unreliable | deliver a:1
        b: view 1 ab | send 2 | deliver b:2
        """,
    ],
)
def test_an_agreed_message_comes_with_all_below_it(text: str) -> None:
    assert AGREED_BEFORE_SIGNAL.judge(index(history(text), quiet_end=True))


@pytest.mark.parametrize(
    ("text", "witness"),
    [
        (
            """
            a: view 1 ab | send 1 | deliver a:1
            b: view 1 ab | send 2 | deliver b:2
            """,
            "b delivered b:2 at 3 us in view 1 and never a:1, "
            "which has a lower stamp and which a delivered there",
        ),
        # Even what is only Reliable has its place in the order; even a sender that is gone.
        (
            """
            a: view 1 abc | send 1 reliable | crash
            b: view 1 abc | send 2 safe | deliver b:2 | signal | view 2 b
            c: view 1 abc | deliver a:1 | crash
            """,
            "b delivered b:2 at 3 us in view 1 and never a:1, "
            "which has a lower stamp and which c delivered there",
        ),
    ],
)
def test_an_agreed_message_that_comes_alone(text: str, witness: str) -> None:
    assert AGREED_BEFORE_SIGNAL.judge(index(history(text), quiet_end=True)).witness == witness


@pytest.mark.parametrize(
    "text",
    [
        """
        a: view 1 abc | send 1 | deliver a:1 | signal | deliver b:2 | view 2 ab
        b: view 1 abc | send 2 | deliver a:1 | signal | deliver b:2 | view 2 ab
        """,
        # c does not come along, so its message may be missing.
        """
        b: view 1 bc | send 2 | signal | deliver b:2 | view 2 b
        c: view 1 bc | send 1 | deliver c:1 | crash
        """,
        # b dies before the next view; what it was to bring along is not known.
        """
        a: view 1 ab | send 1 | deliver a:1
        b: view 1 ab | send 2 | signal | deliver b:2 | crash
        """,
    ],
)
def test_after_the_signal_all_of_those_who_come_along(text: str) -> None:
    assert AGREED_AFTER_SIGNAL.judge(index(history(text), quiet_end=True))


def test_after_the_signal_without_a_message_of_one_who_comes_along() -> None:
    text = """
    a: view 1 abc | send 1 | deliver a:1 | signal | view 2 ab
    b: view 1 abc | send 2 | signal | deliver b:2 | view 2 ab
    """

    witness = AGREED_AFTER_SIGNAL.judge(index(history(text), quiet_end=True)).witness
    assert witness == (
        "b delivered b:2 at 4 us in view 1 and never a:1, which has a lower stamp and which a delivered there"
    )


@pytest.mark.parametrize(
    "text",
    [
        """
        a: view 1 ab | send 1 safe | deliver a:1 | view 2a a
        b: view 1 ab | signal | deliver a:1 | view 2b b
        """,
        """
        a: view 1 ab | send 1 safe | deliver a:1
        b: view 1 ab | crash
        """,
        # b's life ended in silence: its next start tells.
        """
        a:   view 1 ab | send 1 safe | deliver a:1
        b:   view 1 ab
        b.2: view 2b b.2
        """,
        # Agreed is not safe.
        """
        a: view 1 ab | send 1 agreed | deliver a:1
        b: view 1 ab | view 2 b
        """,
        # Nor is what comes after the signal, if the other does not come along.
        """
        a: view 1 ab | send 1 safe | signal | deliver a:1 | view 2a a
        b: view 1 ab | view 2b b
        """,
    ],
)
def test_safe_before_the_signal_is_safe_for_all(text: str) -> None:
    assert SAFE_BEFORE_SIGNAL.judge(index(history(text), quiet_end=True))


def test_the_end_of_a_trace_excuses_unless_it_was_quiet() -> None:
    text = """
    a: view 1 ab | send 1 safe | deliver a:1
    b: view 1 ab
    """

    assert SAFE_BEFORE_SIGNAL.judge(index(history(text), quiet_end=False))
    witness = SAFE_BEFORE_SIGNAL.judge(index(history(text), quiet_end=True)).witness
    assert witness == "a delivered a:1 at 3 us in view 1, but b stayed in it without that message"


@pytest.mark.parametrize(
    ("text", "witness"),
    [
        (
            """
            a: view 1 ab | send 1 safe | deliver a:1
            b: view 1 ab | view 2 b
            """,
            "a delivered a:1 at 3 us in view 1, but b went on to view 2 without that message",
        ),
        (
            """
            a: view 1 ab | send 1 safe | deliver a:1
            b: view 1 ab | view 2 b | crash
            """,
            "a delivered a:1 at 3 us in view 1, but b went on to view 2 without that message",
        ),
        (
            """
            a: view 2a ab | send 1 safe | deliver a:1
            b: view 1b b | crash
            """,
            "a delivered a:1 at 3 us in view 2, but b never installed it",
        ),
    ],
)
def test_safe_before_the_signal_for_too_few(text: str, witness: str) -> None:
    assert SAFE_BEFORE_SIGNAL.judge(index(history(text), quiet_end=False)).witness == witness


@pytest.mark.parametrize(
    "text",
    [
        """
        a: view 1 abc | send 1 safe | signal | deliver a:1 | view 2 ab
        b: view 1 abc | signal | deliver a:1 | view 2 ab
        c: view 1 abc | view 3 c
        """,
        # b was to come along, fell out, and has the message all the same.
        """
        a: view 1 ab | send 1 safe | signal | deliver a:1 | view 2a ab
        b: view 1 ab | signal | deliver a:1 | view 3b b
        """,
        """
        a: view 1 ab | send 1 safe | signal | deliver a:1 | view 2 ab
        b: view 1 ab | crash
        """,
        # a itself never came to a next view: nobody was promised anything.
        """
        a: view 1 ab | send 1 safe | signal ab | deliver a:1 | crash
        b: view 1 ab | view 2 b
        """,
    ],
)
def test_safe_after_the_signal_is_safe_for_those_who_come_along(text: str) -> None:
    assert SAFE_AFTER_SIGNAL.judge(index(history(text), quiet_end=True))


@pytest.mark.parametrize(
    ("text", "witness"),
    [
        (
            """
            a: view 1 ab | send 1 safe | signal | deliver a:1 | view 2 ab
            b: view 1 ab | signal | view 2 ab
            """,
            "a delivered a:1 at 4 us in view 1, but b went on to view 2 without that message",
        ),
        # b never came to view 2, and is owed the message all the same.
        (
            """
            a: view 1 ab | send 1 safe | signal | deliver a:1 | view 2a ab
            b: view 1 ab | signal | view 3b b
            """,
            "a delivered a:1 at 4 us in view 1, but b went on to view 3 without that message",
        ),
        (
            """
            a: view 1 ab | send 1 safe | signal | deliver a:1 | view 2 ab
            b: view 1 ab
            """,
            "a delivered a:1 at 4 us in view 1, but b stayed in it without that message",
        ),
    ],
)
def test_safe_after_the_signal_for_too_few(text: str, witness: str) -> None:
    assert SAFE_AFTER_SIGNAL.judge(index(history(text), quiet_end=True)).witness == witness
