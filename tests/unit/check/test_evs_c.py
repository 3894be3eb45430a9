"""The guarantees for clients on handwritten histories: for each property, right and wrong ones."""

import pytest
from msgspec.structs import replace
from tests.unit.check.client_literals import BREAKS, HOLDS, TWO
from tests.unit.check.evs_c_notation import client_history, verdict

from hopring.check.judge import check_evs_c, first_broken_c
from hopring.check.trace import ClientSent


@pytest.mark.parametrize(("number", "text"), HOLDS)
def test_right_histories_pass(number: str, text: str) -> None:
    assert verdict(text, number)


@pytest.mark.parametrize(("number", "text", "witness"), BREAKS)
def test_wrong_histories_are_violations(number: str, text: str, witness: str) -> None:
    found = verdict(text, number)

    assert (found.holds, found.witness) == (False, witness)


@pytest.mark.parametrize(
    ("text", "witness"),
    [
        (TWO, ""),
        ("a: view red 1.1 a | view red 1.2 ab", "a/1 ended in red 1.2 of {a/1 b/1}, not of {a/1}"),
        ("a: view red 1.1 ab\nb: join red", "b/1 should be in red with {a/1 b/1} and is not"),
        ("a: view red 1.1 ab\nb: view red 1.2 ab", "a/1 ended in red 1.1, b/1 in red 1.2"),
    ],
)
def test_at_a_quiet_end_a_group_has_exactly_the_sessions_that_asked_to_join(text: str, witness: str) -> None:
    assert verdict(text, "2.16", [{"a", "b"}]).witness == witness


def test_a_right_history_gets_one_verdict_per_property() -> None:
    verdicts = check_evs_c(client_history(TWO), True, [{"a", "b"}])

    assert all(verdicts)
    assert len({one.property for one in verdicts}) == len(verdicts)


def test_without_a_quiet_end_liveness_is_not_required() -> None:
    text = "a: view red 1.1 ab | send 1 safe | got a:1 | join green\nb: view red 1.1 ab"

    assert first_broken_c(client_history(text), False) is None
    assert first_broken_c(client_history(text), True) is not None


def test_every_property_has_histories_of_both_kinds() -> None:
    judged = {one.property for one in check_evs_c(client_history(TWO), True)}

    def named(number: str) -> set[str]:
        return {verdict(TWO, number).property}

    assert set().union(*[named(number) for number, _ in HOLDS]) == judged
    assert set().union(*[named(number) for number, _, _ in BREAKS]) == judged


def test_a_cause_may_be_what_a_session_sent_in_the_name_of_another() -> None:
    events = client_history(
        """
        b: view red 1.1 ab | send 3 | got b:3
        a: view red 1.1 ab | send 1 | send 2 | got a:2
        """
    )
    (theirs,) = [one for one in events if isinstance(one, ClientSent) and one.process.daemon == "b"]
    forged = [
        replace(one, message=theirs.message) if isinstance(one, ClientSent) and one.at_us == 2 else one
        for one in events
    ]

    broken = {one.property: one.witness for one in check_evs_c(forged, False) if not one}

    assert broken["EVS-C 2.12 causal messages"].startswith("a/1 sent a/1:2 at 3 us after its b/1:3 at 2 us")
