"""Properties 2.13(3), 2.13(4), 2.14(2) and 2.14(3) on handwritten histories."""

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
        # b is late, not wrong.
        """
        a: view 1 ab | send 1 | deliver a:1 | deliver b:2
        b: view 1 ab | send 2
        """,
        # b:2 is Reliable and early at b: it does not depend on lower messages.
        """
        a: view 1 ab | send 1 | deliver a:1
        b: view 1 ab | send 2 reliable | deliver b:2 | signal | view 2 b
        """,
        # After the signal, a:1 may be a hole for b.
        """
        a: view 1 ab | send 1 | deliver a:1 | crash
        b: view 1 ab | send 2 | signal | deliver b:2 | view 2 b
        """,
        # Deliveries of another process in another view do not matter.
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
def test_an_agreed_message_follows_all_lower_ones(text: str) -> None:
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
        # Even a Reliable message has its place in the order, and so has one of a sender that is gone.
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
def test_an_agreed_message_without_a_lower_one_is_a_violation(text: str, witness: str) -> None:
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
        # b dies before the next view; the messages that it would have brought are unknown.
        """
        a: view 1 ab | send 1 | deliver a:1
        b: view 1 ab | send 2 | signal | deliver b:2 | crash
        """,
    ],
)
def test_after_the_signal_messages_of_members_that_come_along_are_complete(text: str) -> None:
    assert AGREED_AFTER_SIGNAL.judge(index(history(text), quiet_end=True))


def test_after_the_signal_a_missing_message_of_such_a_member_is_a_violation() -> None:
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
        # b ended without an event: its next start proves it.
        """
        a:   view 1 ab | send 1 safe | deliver a:1
        b:   view 1 ab
        b.2: view 2b b.2
        """,
        # An Agreed message is not safe.
        """
        a: view 1 ab | send 1 agreed | deliver a:1
        b: view 1 ab | view 2 b
        """,
        # Neither is one after the signal, if the other does not come along.
        """
        a: view 1 ab | send 1 safe | signal | deliver a:1 | view 2a a
        b: view 1 ab | view 2b b
        """,
    ],
)
def test_a_safe_message_before_the_signal_is_delivered_by_all(text: str) -> None:
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
def test_a_safe_message_before_the_signal_that_some_lack_is_a_violation(text: str, witness: str) -> None:
    assert SAFE_BEFORE_SIGNAL.judge(index(history(text), quiet_end=False)).witness == witness


@pytest.mark.parametrize(
    "text",
    [
        """
        a: view 1 abc | send 1 safe | signal | deliver a:1 | view 2 ab
        b: view 1 abc | signal | deliver a:1 | view 2 ab
        c: view 1 abc | view 3 c
        """,
        # b was to come along, dropped out, and has the message nevertheless.
        """
        a: view 1 ab | send 1 safe | signal | deliver a:1 | view 2a ab
        b: view 1 ab | signal | deliver a:1 | view 3b b
        """,
        """
        a: view 1 ab | send 1 safe | signal | deliver a:1 | view 2 ab
        b: view 1 ab | crash
        """,
        # a itself never came to a next view: nothing was promised.
        """
        a: view 1 ab | send 1 safe | signal ab | deliver a:1 | crash
        b: view 1 ab | view 2 b
        """,
    ],
)
def test_a_safe_message_after_the_signal_is_delivered_by_members_that_come_along(text: str) -> None:
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
        # b never came to view 2, and is owed the message nevertheless.
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
def test_a_safe_message_after_the_signal_that_such_a_member_lacks_is_a_violation(
    text: str, witness: str
) -> None:
    assert SAFE_AFTER_SIGNAL.judge(index(history(text), quiet_end=True)).witness == witness
