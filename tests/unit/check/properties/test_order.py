"""Properties 2.11, 2.12, 2.13(2) and the agreement on one order, on handwritten histories."""

import pytest
from tests.unit.check.evs_notation import history

from hopring.check.history import index
from hopring.check.properties.order import AGREED_ORDER, CAUSAL_ORDER, FIFO_ORDER, ONE_ORDER


@pytest.mark.parametrize(
    "text",
    [
        """
        a: view 1 ab | send 1 fifo | send 2 fifo
        b: view 1 ab | deliver a:1 | deliver a:2
        """,
        # A Reliable message may overtake anything.
        """
        a: view 1 ab | send 1 fifo | send 2 reliable
        b: view 1 ab | deliver a:2 | deliver a:1
        """,
        # A gap is legal, and so is a message of another session in between.
        """
        a: view 1 ab | send 1 fifo | send 3 fifo | send 5 fifo
        b: view 1 ab | send 4 fifo | deliver a:1 | deliver b:4 | deliver a:5
        """,
        # Unreliable messages do not count.
        """
        a: view 1 ab | send 1 unreliable | send 2 fifo
        b: view 1 ab | deliver a:2 | deliver a:1
        """,
        # The order of sends counts, not that of numbers.
        """
        a: view 1 ab | send 2 fifo lts 1 | send 1 fifo lts 2
        b: view 1 ab | deliver a:2 | deliver a:1
        """,
    ],
)
def test_fifo_order_is_kept(text: str) -> None:
    assert FIFO_ORDER.judge(index(history(text), quiet_end=False))


@pytest.mark.parametrize("first", ["reliable", "fifo", "causal", "agreed", "safe"])
@pytest.mark.parametrize("second", ["fifo", "causal", "agreed", "safe"])
def test_fifo_messages_do_not_pass_earlier_ones_of_any_reliable_service(first: str, second: str) -> None:
    text = f"""
    a: view 1 ab | send 1 {first} | send 2 {second}
    b: view 1 ab | deliver a:2 | deliver a:1
    """

    witness = FIFO_ORDER.judge(index(history(text), quiet_end=False)).witness
    assert witness == "b delivered a:1 at 3 us after a:2 at 2 us, which was sent later"


def test_fifo_order_holds_over_views_too() -> None:
    text = """
    a: view 1 ab | send 1 reliable | view 2 ab | send 2 fifo
    b: view 1 ab | view 2 ab | deliver a:2 | deliver a:1
    """

    assert not FIFO_ORDER.judge(index(history(text), quiet_end=False))


@pytest.mark.parametrize(
    "text",
    [
        """
        a: view 1 ab | send 1 | deliver a:1 | deliver b:2 | send 3
        b: view 1 ab | deliver a:1 | send 2
        """,
        "a: view 1 ab | send 5 unreliable | send 1",
        # A message sent by another process and not received yet is no cause.
        """
        a: view 1 ab | send 9
        b: view 1 ab | send 2 | deliver a:9
        """,
    ],
)
def test_stamps_are_above_their_causes(text: str) -> None:
    assert CAUSAL_ORDER.judge(index(history(text), quiet_end=False))


@pytest.mark.parametrize(
    ("text", "witness"),
    [
        (
            """
            a: view 1 ab | send 5 reliable
            b: view 1 ab | deliver a:5 | send 2
            """,
            "b sent b:2 at 3 us after it had delivered a:5 at 2 us, but the stamp lts 2 of site 1 in view 1 "
            "is not above lts 5 of site 0 in view 1",
        ),
        (
            "a: view 1 ab | send 5 | send 2",
            "a sent a:2 at 3 us after its a:5 at 2 us, but the stamp lts 2 of site 0 in view 1 "
            "is not above lts 5 of site 0 in view 1",
        ),
        # The chain passes through a Reliable message and breaks at b:1.
        (
            """
            a: view 1 abc | send 5
            b: view 1 abc | deliver a:5 | send 1 reliable
            c: view 1 abc | deliver b:1 | send 2
            """,
            "b sent b:1 at 3 us after it had delivered a:5 at 2 us, but the stamp lts 1 of site 1 in view 1 "
            "is not above lts 5 of site 0 in view 1",
        ),
    ],
)
def test_a_stamp_below_a_cause_is_a_violation(text: str, witness: str) -> None:
    assert CAUSAL_ORDER.judge(index(history(text), quiet_end=False)).witness == witness


@pytest.mark.parametrize(
    "text",
    [
        """
        a: view 1 ab | send 1 | send 3 safe
        b: view 1 ab | send 2 causal | deliver a:1 | deliver b:2 | deliver a:3
        """,
        # An early Reliable message has a higher stamp than its successor.
        """
        a: view 1 ab | send 1 | send 3 reliable
        b: view 1 ab | deliver a:3 | deliver a:1
        """,
        """
        a: view 1 ab | send 1 fifo
        b: view 1 ab | send 2 fifo | deliver b:2 | deliver a:1
        """,
        # A tie is decided by the site.
        """
        a: view 1 ab | send 1 lts 7 | deliver a:1 | deliver b:1
        b: view 1 ab | send 1 lts 7 | deliver a:1 | deliver b:1
        """,
    ],
)
def test_agreed_messages_come_in_their_order(text: str) -> None:
    assert AGREED_ORDER.judge(index(history(text), quiet_end=False))


@pytest.mark.parametrize(
    ("text", "witness"),
    [
        (
            """
            a: view 1 ab | send 1
            b: view 1 ab | send 2 safe | deliver b:2 | deliver a:1
            """,
            "b delivered a:1 at 4 us after b:2 at 3 us, which has a higher stamp",
        ),
        (
            """
            a: view 1 ab | send 1 reliable
            b: view 1 ab | send 2 | deliver b:2 | deliver a:1
            """,
            "b delivered a:1 at 4 us after b:2 at 3 us, which has a higher stamp",
        ),
        (
            """
            a: view 1 ab | send 1 lts 7
            b: view 1 ab | send 1 causal lts 7 | deliver b:1 | signal | deliver a:1
            """,
            "b delivered a:1 at 5 us after b:1 at 3 us, which has a higher stamp",
        ),
    ],
)
def test_nothing_reliable_comes_after_a_later_agreed_message(text: str, witness: str) -> None:
    assert AGREED_ORDER.judge(index(history(text), quiet_end=False)).witness == witness


@pytest.mark.parametrize(
    "text",
    [
        """
        a: view 1 ab | send 1 | deliver a:1 | deliver b:2
        b: view 1 ab | send 2 | deliver a:1 | deliver b:2
        """,
        # Against the stamps, but all alike: 2.13(2) covers that.
        """
        a: view 1 ab | send 1 | deliver b:2 | deliver a:1
        b: view 1 ab | send 2 | deliver b:2 | deliver a:1
        """,
        """
        a: view 1 ab | send 1 fifo | deliver a:1 | deliver b:2
        b: view 1 ab | send 2 | deliver b:2 | deliver a:1
        """,
    ],
)
def test_all_follow_one_order(text: str) -> None:
    assert ONE_ORDER.judge(index(history(text), quiet_end=False))


@pytest.mark.parametrize(
    ("text", "witness"),
    [
        (
            """
            a: view 1 ab | send 1 | deliver a:1 | deliver b:2
            b: view 1 ab | send 2 | deliver b:2 | deliver a:1
            """,
            "a delivered a:1 before b:2, b delivered b:2 before a:1",
        ),
        (
            """
            a: view 1 abc | send 1 | deliver a:1 | deliver b:2
            b: view 1 abc | send 2 | deliver b:2 | deliver c:3
            c: view 1 abc | send 3 | deliver c:3 | deliver a:1
            """,
            "each before the next, at one process or another: a:1, b:2, c:3, a:1",
        ),
    ],
)
def test_two_orders_or_a_cycle_are_a_violation(text: str, witness: str) -> None:
    assert ONE_ORDER.judge(index(history(text), quiet_end=False)).witness == witness
