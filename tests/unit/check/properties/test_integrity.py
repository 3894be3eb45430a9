"""Properties 2.5 and 2.6 on handwritten histories."""

import pytest
from tests.unit.check.evs_notation import history

from hopring.check.history import index
from hopring.check.properties.integrity import DELIVERY_INTEGRITY, NO_DUPLICATION


def test_a_message_is_delivered_once() -> None:
    right = "a: view 1 a | send 1 | send 2 | deliver a:1 | deliver a:2"
    wrong = "a: view 1 a | send 1 | deliver a:1 | view 2 a | deliver a:1"
    unreliable = "a: view 1 a | send 1 unreliable | deliver a:1 | deliver a:1"

    assert NO_DUPLICATION.judge(index(history(right), quiet_end=False))
    witness = NO_DUPLICATION.judge(index(history(wrong), quiet_end=False)).witness
    assert witness == "a delivered a:1 at 5 us, and before that at 3 us"
    assert not NO_DUPLICATION.judge(index(history(unreliable), quiet_end=False))


@pytest.mark.parametrize(
    "text",
    [
        """
        b: view 1 ab | deliver a:1
        a: view 1 ab | send 1
        """,  # Clocks of two processes are not compared.
        "a: view 1 a | send 1 | deliver a:1",
        """
        a: view 1 ab | send 1 unreliable
        b: view 1 ab | deliver a:1 | view 2 b with b
        """,
    ],
)
def test_delivered_messages_were_sent(text: str) -> None:
    assert DELIVERY_INTEGRITY.judge(index(history(text), quiet_end=False))


@pytest.mark.parametrize(
    ("text", "witness"),
    [
        ("a: view 1 a | deliver b:1", "a delivered b:1 at 2 us, which nobody sent"),
        ("a: view 1 a | deliver b:1 as unreliable", "a delivered b:1 at 2 us, which nobody sent"),
        ("a: view 1 a | deliver a:1 | send 1", "a delivered a:1 at 2 us, but sent it only later, at 3 us"),
        (
            """
            a: view 1 ab | send 1 agreed
            b: view 1 ab | deliver a:1 as safe
            """,
            "b delivered a:1 at 2 us as SAFE, but it was sent as AGREED",
        ),
        (
            """
            a: view 1 ab | send 1
            b: view 1 ab | view 2 b | deliver a:1
            """,
            "b delivered a:1 at 3 us, but a is not in its view 2",
        ),
        (
            """
            a: view 1 ab | send 1 unreliable
            b: view 1 ab | view 2 b with b | deliver a:1
            """,
            "b delivered a:1 at 3 us, but a is not in its view 2",
        ),
    ],
)
def test_a_delivery_without_a_send_is_a_violation(text: str, witness: str) -> None:
    assert DELIVERY_INTEGRITY.judge(index(history(text), quiet_end=False)).witness == witness
