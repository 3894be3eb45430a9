"""All violations of a property are found, each once, in the order of their facts."""

import pytest
from tests.unit.check.evs_notation import history

from hopring.check.history import index
from hopring.check.properties import CLIENTS, DAEMONS
from hopring.check.properties.integrity import DELIVERY_INTEGRITY, NO_DUPLICATION
from hopring.check.properties.property import Property, PropertyInstance, ShownViolation
from hopring.check.properties.views import MEMBERSHIP_AGREEMENT, TRANSITIONAL_SET


def shown(promised: Property, text: str, most: int = 1_000) -> tuple[int, list[ShownViolation]]:
    assert promised.daemons is not None
    return promised.daemons.violations(index(history(text), quiet_end=True), most)


def test_independent_faults_are_all_named_and_those_beyond_the_limit_counted() -> None:
    twice = "view 1 ab | deliver a:1 | deliver a:1 | deliver a:2 | deliver a:2"
    text = f"b: {twice}\na: view 1 ab | send 1 | send 2 | deliver a:1 | deliver a:2 | deliver a:2"

    count, found = shown(NO_DUPLICATION, text)

    assert count == 3
    assert [one.facts for one in found] == [
        ("a#0000000000000001/0", "a#0000000000000001/0:2"),
        ("b#0000000000000001/0", "a#0000000000000001/0:1"),
        ("b#0000000000000001/0", "a#0000000000000001/0:2"),
    ]
    assert [one.witness for one in found] == [
        "a delivered a:2 at 6 us, and before that at 5 us",
        "b delivered a:1 at 3 us, and before that at 2 us",
        "b delivered a:2 at 5 us, and before that at 4 us",
    ]
    assert shown(NO_DUPLICATION, text, most=1) == (3, found[:1])


def test_a_message_that_nobody_sent_comes_before_those_of_strangers() -> None:
    text = """
    a: view 1 ab | deliver c:1 | deliver b:7 as agreed lts 9
    b: view 1 ab | deliver c:1
    c: view 1 abc | send 1
    """

    count, found = shown(DELIVERY_INTEGRITY, text)

    assert count == 2
    assert [one.witness for one in found] == [
        "a delivered b:7 at 3 us, which nobody sent",
        "a delivered c:1 at 2 us, but c is not in its view 1",
    ]


def test_two_processes_that_differ_are_named_with_both_sets() -> None:
    text = "c: view 1 ab with c\na: view 1 abc\nb: view 1 abc"

    count, (found,) = shown(MEMBERSHIP_AGREEMENT, text)

    assert count == 1
    assert found.facts[1:] == ("a#0000000000000001/0", "c#0000000000000001/0")
    assert found.witness == "a installed view 1 at 1 us of {a b c}, c installed view 1 at 1 us of {a b}"


def test_transitional_sets_that_differ_are_shown() -> None:
    text = """
    a: view 1 abc | view 2 abc with ab
    b: view 1 abc | view 2 abc with ab
    c: view 1 abc | view 2 abc
    """

    _count, found = shown(TRANSITIONAL_SET, text)

    assert found[-1].facts[:2] == ("(4)", "a#0000000000000001/0")
    assert (
        found[-1].witness
        == "(4) a came to view 2 from view 1 with {a b}, c came to view 2 from view 1 with {a b c}"
    )


@pytest.mark.parametrize("promise", [*DAEMONS, *CLIENTS], ids=lambda promise: promise.name)
def test_every_property_names_its_facts(promise: PropertyInstance) -> None:  # type: ignore[type-arg]
    assert promise.names
    assert len(set(promise.names)) == len(promise.names)
