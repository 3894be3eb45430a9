"""2.5, 2.6, 2.18 and 2.19 on histories written by hand, and what is assumed of every trace."""

import pytest
from msgspec.structs import replace
from tests.unit.check.evs_notation import history

from hopring.check.history import index
from hopring.check.properties.integrity import DELIVERY_INTEGRITY, NO_DUPLICATION
from hopring.check.properties.placement import SAME_VIEW, SANE_VIEW
from hopring.check.properties.shape import ONE_LIFE, ONE_STAMP, SENT_ONCE
from hopring.check.trace import Crash, MessageId, MessageSent, ProcessName, ViewName


@pytest.mark.parametrize(
    "text",
    [
        "a: view 1 a | send 1 | deliver a:1 | crash",
        "a: view 1 a | deliver a:1 | signal | view 2 a | deliver a:2",
        """
        a:   view 1 a | crash
        a.2: view 2 a.2
        """,
    ],
)
def test_a_life(text: str) -> None:
    assert ONE_LIFE.judge(index(history(text), quiet_end=False))


@pytest.mark.parametrize(
    ("text", "witness"),
    [
        ("a: bare | view 1 a", "a has no recover as its first event"),
        ("a: view 1 a | recover", "a recovered again at 2 us without a new incarnation"),
        ("a: crash | view 1 a", "a crashed at 1 us, yet has a view at 2 us"),
        (
            "a: view 1 a | deliver a:1 in 2",
            "its deliver at 2 us names view 2, and a was in another view",
        ),
    ],
)
def test_what_is_no_life(text: str, witness: str) -> None:
    assert ONE_LIFE.judge(index(history(text), quiet_end=False)).witness == witness


def test_a_message_is_sent_once_by_its_sender_with_a_stamp_of_its_view() -> None:
    right = "a: view 1 a | send 1 | send 2 | view 2 a | send 3"
    twice = "a: view 1 a | send 1 | send 1"

    assert SENT_ONCE.judge(index(history(right), quiet_end=False))
    assert (
        SENT_ONCE.judge(index(history(twice), quiet_end=False)).witness
        == "a sent a:1 at 3 us, and a sent a:1 at 2 us"
    )


def test_a_message_in_anothers_name() -> None:
    first, *_views, sent = history("a: view 1 ab | send 1")
    assert isinstance(sent, MessageSent)
    forged = [first, replace(sent, message=MessageId("b", 1, 1))]

    assert SENT_ONCE.judge(index(forged, quiet_end=False)).witness == "a sent b:1 at 2 us, which is not its own"


def test_a_stamp_of_another_view_than_the_one_the_send_names() -> None:
    *before, sent = history("a: view 1 a | view 2 a | send 1")
    assert isinstance(sent, MessageSent)
    events = [*before, replace(sent, view=ViewName(1, 0, 0))]

    witness = SENT_ONCE.judge(index(events, quiet_end=False)).witness
    assert witness == "a sent a:1 at 3 us in view 1 with a stamp of view 2"


def test_a_message_has_one_stamp_of_its_own() -> None:
    right = """
    a: view 1 ab | send 1 | send 2
    b: view 1 ab | deliver a:1 | send 1 | deliver a:2
    """

    assert ONE_STAMP.judge(index(history(right), quiet_end=False))


@pytest.mark.parametrize(
    ("text", "witness"),
    [
        (
            "a: view 1 a | send 1 lts 7 | send 2 lts 7",
            "a:1 and a:2 have the same stamp, lts 7 of site 0 in view 1",
        ),
        (
            """
            a: view 1 ab | send 1
            b: view 1 ab | deliver a:1 lts 9
            """,
            "b delivered a:1 at 2 us with stamp lts 9 of site 0 in view 1, "
            "others with lts 1 of site 0 in view 1",
        ),
    ],
)
def test_stamps_that_are_shared_or_differ(text: str, witness: str) -> None:
    assert ONE_STAMP.judge(index(history(text), quiet_end=False)).witness == witness


def test_two_halves_of_a_site_may_issue_one_stamp_in_two_views() -> None:
    text = """
    a: view 1a a | send 1
    b: view 1b b | send 1
    """

    assert ONE_STAMP.judge(index(history(text), quiet_end=False))


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
        """,  # Between two processes there is no clock.
        "a: view 1 a | send 1 | deliver a:1",
        """
        a: view 1 ab | send 1 unreliable
        b: view 1 ab | deliver a:1 | view 2 b with b
        """,
    ],
)
def test_what_is_delivered_was_sent(text: str) -> None:
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
def test_what_is_delivered_out_of_nothing(text: str, witness: str) -> None:
    assert DELIVERY_INTEGRITY.judge(index(history(text), quiet_end=False)).witness == witness


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
        "a: view 1 a | send 1 in 2 | view 2 a | deliver a:1",  # Queued over a view change.
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
def test_a_message_in_a_view_where_it_does_not_belong(text: str, witness: str) -> None:
    assert SANE_VIEW.judge(index(history(text), quiet_end=False)).witness == witness


def test_ids_are_not_compared_over_a_restart_that_lost_its_counter() -> None:
    text = """
    a:   view 5 ab | send 1 | crash
    b:   view 5 ab | deliver a:1
    a.2: view 1 a.2
    """

    assert SANE_VIEW.judge(index(history(text), quiet_end=False, counters_survive=False))


def test_values_that_are_no_events_are_passed_over() -> None:
    assert list(index(["a word", 7, Crash(ProcessName("a", 1), 5)], quiet_end=False).lives) == [
        ProcessName("a", 1)
    ]
