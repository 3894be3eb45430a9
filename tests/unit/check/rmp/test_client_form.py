"""Rings as histories of clients: EVS-C judges them; a packet that two epochs order is two messages there."""

import pytest
from tests.unit.check.rmp.peer_notation import peers

from hopring.check.rmp.client_form import check_rings, client_history
from hopring.check.trace import ClientDelivered, ClientSent

PAIR = (
    "a list 1 1 a join a | a orders 1 2 b list ab | b hears 1 2 | b list 1 2 ab join b with b"
    " | a list 1 2 ab join b"
)
TRIO = "a list 1 1 abc with a | b list 1 1 abc with b | c list 1 1 abc with c"


def broken(text: str, components: list[list[str]] | None = None) -> list[str]:
    return [
        one.property.removeprefix("EVS-C ") for one in check_rings(peers(text), True, components) if not one
    ]


@pytest.mark.parametrize(
    "text",
    [
        # An early message comes before its place, and is no matter of the order.
        f"{PAIR} | a sends a:1 | b body a:1 | b sends b:1 fifo | b shows b:1 1 0 | b orders 1 3 a: a:1 b:1"
        "| b shows a:1 1 4 | a hears 1 3 | a shows a:1 1 4 | a shows b:1 1 5",
        # Both sides of a split give places to the packets that the other side has not ordered.
        f"{TRIO} | b sends b:1 | c sends c:1 | a orders 1 2 b: b:1 c:1 | a shows b:1 1 3 | a shows c:1 1 4"
        "| a ends crash | b list 2 2 bc failure | c list 2 2 bc failure"
        "| c orders 2 3 b: c:1 b:1 | b shows c:1 2 4 | b shows b:1 2 5 | c shows c:1 2 4 | c shows b:1 2 5",
        # A member that was removed is another one when it comes back; what it had sent is no promise any more.
        f"{PAIR} | b sends b:1 | a list 2 3 a failure | b ends removed | b list 2 4 ab' join b' with b'"
        "| a list 2 4 ab' join b'",
        # What had not left when it was removed is sent by the member that it is then.
        f"{PAIR} | b sends b:1 | a list 2 3 a failure | b ends removed | a list 2 4 ab' join b'"
        "| b list 2 4 ab' join b' with b' | b sends b:2 | b emits b:1 | b emits b:2 | a body b:1 | a body b:2"
        "| a orders 2 5 b: b:1 b:2 | a shows b:1 2 6 | a shows b:2 2 7 | b shows b:1 2 6 | b shows b:2 2 7",
        # It is ordered in an epoch that its source has not lived to see.
        f"{PAIR} | b sends b:1 | b ends crash | a list 2 3 ab failure | a orders 2 4 b: b:1 | a shows b:1 2 5"
        "| a list 3 6 a failure",
        # Its source comes to a later epoch, which orders it as well.
        f"{TRIO} | b sends b:1 causal | b sends b:2 causal | a list 2 3 ac failure | c list 2 3 ac failure"
        "| a orders 2 4 c: b:1 b:2 | a shows b:1 2 5 | b list 3 3 b failure"
        "| b orders 3 4 b: b:1 b:2 | b shows b:1 3 5 | b shows b:2 3 6"
        "| a ends crash | c ends crash",
        f"{PAIR} | b wants to leave | a list 1 3 a leave b | b ends leave",
    ],
)
def test_right_histories(text: str) -> None:
    assert broken(text) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("2.5 no duplication", f"{PAIR} | a sends a:1 | a shows a:1 1 3 | a shows a:1 1 4"),
        (
            "2.5 no duplication",
            f"{TRIO} | b sends b:1 | b shows b:1 1 3 | b list 2 4 b failure | b shows b:1 2 5 | c ends crash",
        ),
        (
            "2.7 virtual synchrony",
            f"{TRIO} | a sends a:1 | b shows a:1 1 3 | a ends crash | b list 2 4 bc failure"
            "| c list 2 4 bc failure",
        ),
        (
            "2.11 FIFO messages",
            f"{PAIR} | a sends a:1 fifo | a sends a:2 fifo | b shows a:2 1 0 | b shows a:1 1 0",
        ),
        (
            "2.13(2) agreed messages come in their order",
            f"{PAIR} | a sends a:1 | a sends a:2 | b shows a:1 1 5 | a shows a:2 1 4 | a shows a:1 1 5"
            "| b shows a:2 1 4",
        ),
        ("2.15 self delivery", f"{PAIR} | a sends a:1"),
        ("2.17 termination of delivery", f"{PAIR} | a sends a:1 | a shows a:1 1 3"),
        ("2.3 local monotonicity", f"{PAIR} | a list 1 1 a failure"),
        ("2.2 self inclusion", f"{PAIR} | a list 1 3 b failure"),
    ],
)
def test_wrong_histories(name: str, text: str) -> None:
    assert name in broken(text)


def test_all_of_a_component_end_in_one_list() -> None:
    apart = "a list 1 1 a join a | b list 2 1 b join b"

    assert broken(f"{PAIR}", [["a", "b"]]) == []
    assert broken(apart, [["a", "b"]]) == ["2.16 membership precision"]
    assert broken(apart, [["a"], ["b"]]) == []


def test_a_packet_that_two_epochs_order_is_sent_again_in_the_second() -> None:
    text = f"{PAIR} | b sends b:1 | a shows b:1 1 3 | b list 2 3 b failure | b shows b:1 2 4"
    order = client_history(peers(text), copies=True)
    sends = [event.message for event in order if isinstance(event, ClientSent)]
    shown = [event.message for event in order if isinstance(event, ClientDelivered)]

    assert len(set(sends)) == 2
    assert shown == sends
    whole = client_history(peers(text), copies=False)
    assert len({event.message for event in whole if isinstance(event, ClientSent | ClientDelivered)}) == 1
