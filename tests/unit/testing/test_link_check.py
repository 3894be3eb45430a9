"""Handwritten histories of links, right and wrong. One event per word, in the order in which they happened:

a+x  a submits x        b-x  b receives x        a!  the link fails at a        a#  host a crashes
"""

import pytest

from hopring.testing.link_world import all_arrives, check_link, link_end, no_invention
from hopring.testing.trace import HostChange, HostChanged, LinkEndFailed, ObjectReceived, ObjectSubmitted

HOSTS = ("a", "b")


def history(words: str, link: str = "a-b") -> list[object]:
    return [event(at_us, word, link) for at_us, word in enumerate(words.split(), start=1)]


def event(at_us: int, word: str, link: str) -> object:
    host, sign, payload = word[0], word[1], word[2:].encode()
    match sign:
        case "+":
            return ObjectSubmitted(at_us, link, host, payload)
        case "-":
            return ObjectReceived(at_us, link, host, payload)
        case "!":
            return LinkEndFailed(at_us, link, host, "tired")
        case _:
            return HostChanged(at_us, host, HostChange.CRASH)


@pytest.mark.parametrize(
    "words",
    [
        "",
        "a+x b-x",
        "a+x a+y b-y b-x",  # Links do not order payloads.
        "a+x b+x a-x b-x",  # Both ends may send the same.
        "a+x a+x b-x b-x",
        "a+x a! b!",  # A failed link owes nothing,
        "a+x a+y b-y b!",  # even if it failed at one end only,
        "a+x a#",  # or if an end has crashed.
        "a+x b-x a! b!",
    ],
)
def test_a_right_history_holds(words: str) -> None:
    assert all(check_link(history(words), "a-b", HOSTS))


@pytest.mark.parametrize(
    ("words", "witness"),
    [
        ("b-x", "at 1 us b received b'x' once, submitted by others never before"),
        ("b-x a+x", "at 1 us b received b'x' once, submitted by others never before"),
        ("a+x a-x", "at 2 us a received b'x' once, submitted by others never before"),
        ("a+x b-x b-x", "at 3 us b received b'x' twice, submitted by others once before"),
        ("a+x b-y", "at 2 us b received b'y' once, submitted by others never before"),
    ],
)
def test_a_receipt_without_a_submit_is_a_violation(words: str, witness: str) -> None:
    verdict = no_invention(history(words), "a-b")

    assert not verdict
    assert verdict.witness == witness


@pytest.mark.parametrize(
    ("words", "witness"),
    [
        ("a+x", "a submitted b'x' at 1 us and b never received it"),
        ("a+x a+y b-y", "a submitted b'x' at 1 us and b never received it"),
        ("a+x a+x b-x", "a submitted b'x' at 2 us and b never received it"),
        ("a# a+x", "a submitted b'x' at 2 us and b never received it"),
        ("a+x c#", "a submitted b'x' at 1 us and b never received it"),
    ],
)
def test_a_missing_payload_on_a_working_link_is_a_violation(words: str, witness: str) -> None:
    verdict = all_arrives(history(words), "a-b", HOSTS)

    assert not verdict
    assert verdict.witness == witness


@pytest.mark.parametrize(
    ("words", "witness"),
    [
        ("a! a+x", "failed at a at 1 us, yet submitted at 2 us"),
        ("b+x a! a-x", "failed at a at 2 us, yet received at 3 us"),
        ("a! a!", "failed at a at 1 us, yet failed at 2 us"),
    ],
)
def test_events_after_the_failure_of_an_end_are_a_violation(words: str, witness: str) -> None:
    verdict = link_end(history(words), "a-b")

    assert not verdict
    assert verdict.witness == witness


def test_the_other_end_may_still_receive_after_one_has_failed() -> None:
    assert link_end(history("a+x a! b-x b!"), "a-b")


def test_a_ring_owes_every_object_to_every_other_member() -> None:
    assert all(check_link(history("a+x b-x c-x"), "a-b", ("a", "b", "c")))

    verdict = all_arrives(history("a+x b-x"), "a-b", ("a", "b", "c"))
    assert verdict.witness == "a submitted b'x' at 1 us and c never received it"


def test_links_are_judged_separately() -> None:
    events = history("a+x b-x") + history("b-x", link="a-b/2")

    assert all(check_link(events, "a-b", HOSTS))
    assert not no_invention(events, "a-b/2")


def test_a_long_payload_is_cut_short_in_the_witness() -> None:
    verdict = no_invention(history("b-" + "x" * 100), "a-b")

    assert "b'xxxxxxxxxxxxxxxx' and 84 bytes more" in verdict.witness
