"""The assumptions 2.1 and 2.3 and definition 2.7, on handwritten histories."""

import pytest
from msgspec.structs import replace
from tests.unit.check.evs_notation import history

from hopring.check.history import index
from hopring.check.properties.shape import ONE_LIFE, ONE_STAMP, SENT_ONCE
from hopring.check.trace import MessageId, MessageSent, ViewName


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
def test_valid_sequences_of_recover_and_crash(text: str) -> None:
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
def test_invalid_sequences_of_recover_and_crash(text: str, witness: str) -> None:
    assert ONE_LIFE.judge(index(history(text), quiet_end=False)).witness == witness


def test_a_message_is_sent_once_by_its_sender_with_a_stamp_of_its_view() -> None:
    right = "a: view 1 a | send 1 | send 2 | view 2 a | send 3"
    twice = "a: view 1 a | send 1 | send 1"

    assert SENT_ONCE.judge(index(history(right), quiet_end=False))
    assert (
        SENT_ONCE.judge(index(history(twice), quiet_end=False)).witness
        == "a sent a:1 at 3 us, and a sent a:1 at 2 us"
    )


def test_a_message_in_the_name_of_another_process_is_a_violation() -> None:
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
