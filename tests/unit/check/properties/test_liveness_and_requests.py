"""Properties 2.15, 2.16 and 2.17 on handwritten histories."""

import pytest
from tests.unit.check.evs_notation import history

from hopring.check.history import index
from hopring.check.properties.liveness import MEMBERSHIP_PRECISION, TERMINATION
from hopring.check.properties.requests import SELF_DELIVERY


@pytest.mark.parametrize(
    "text",
    [
        "a: view 1 a | send 1 reliable | deliver a:1",
        "a: view 1 a | send 1 | signal | deliver a:1 | view 2 a",
        "a: view 1 a | send 1 | crash",
        "a: view 1 a | send 1 unreliable",
        """
        a:   view 1 a | send 1
        a.2: view 2 a.2
        """,
    ],
)
def test_a_process_delivers_its_own_messages(text: str) -> None:
    assert SELF_DELIVERY.judge(index(history(text), quiet_end=True))


def test_an_own_message_that_is_never_delivered_is_a_violation() -> None:
    text = """
    a: view 1 ab | send 1 | view 2 a
    b: view 1 ab | deliver a:1 | view 3 b
    """

    assert SELF_DELIVERY.judge(index(history(text), quiet_end=False))
    witness = SELF_DELIVERY.judge(index(history(text), quiet_end=True)).witness
    assert witness == "a sent a:1 at 2 us and never delivered it"


@pytest.mark.parametrize(
    ("text", "components"),
    [
        (
            """
            a: view 1 a | view 3 ab with a
            b: view 2 b | view 3 ab with b
            """,
            ["ab"],
        ),
        (
            """
            a: view 1a ab | view 2a a
            b: view 1a ab | view 2b b
            """,
            ["a", "b"],
        ),
        (
            """
            a:   view 1 ab | view 2 a | view 3 ab.2 with a
            b:   view 1 ab | crash
            b.2: view 3 ab.2
            """,
            ["ab"],
        ),
        ("a: view 1 ab", []),
    ],
)
def test_each_component_ends_in_one_view(text: str, components: list[str]) -> None:
    assert MEMBERSHIP_PRECISION.judge(index(history(text), quiet_end=True, components=components))


@pytest.mark.parametrize(
    ("text", "components", "witness"),
    [
        (
            """
            a: view 1 ab
            b: view 1 ab
            """,
            ["a", "b"],
            "a ended in view 1 of {a b}, not of {a}",
        ),
        (
            """
            a: view 1 ab
            b: view 1 ab | view 2 ab
            """,
            ["ab"],
            "a ended in view 1, b in view 2",
        ),
        (
            """
            a:   view 1 ab
            b:   view 1 ab
            b.2: view 2 ab.2
            """,
            ["ab"],
            "a ended in view 1 of {a b}, not of {a b.2}",
        ),
        ("a: view 1 a", ["ab"], "b should be in a view with {a b} and did nothing at all"),
        ("a: recover", ["a"], "a should be in a view with {a} and never installed one"),
        ("a: view 1 a | crash", ["a"], "a should be in a view with {a} and has crashed"),
    ],
)
def test_a_component_without_a_common_view_is_a_violation(
    text: str, components: list[str], witness: str
) -> None:
    assert (
        MEMBERSHIP_PRECISION.judge(index(history(text), quiet_end=True, components=components)).witness
        == witness
    )


@pytest.mark.parametrize(
    "text",
    [
        """
        a: view 1 ab | send 1 fifo | deliver a:1
        b: view 1 ab | deliver a:1
        """,
        # a moves on or dies: other properties decide what b must get.
        """
        a: view 1 ab | send 1 | deliver a:1 | view 2 ab
        b: view 1 ab | view 2 ab
        """,
        """
        a: view 1 ab | send 1 | deliver a:1 | crash
        b: view 1 ab
        """,
        """
        a: view 1 ab | send 1 unreliable
        b: view 1 ab
        """,
    ],
)
def test_messages_sent_in_a_lasting_view_are_delivered_by_all(text: str) -> None:
    assert TERMINATION.judge(index(history(text), quiet_end=True))


@pytest.mark.parametrize(
    ("text", "witness"),
    [
        (
            """
            a: view 1 ab | send 1 reliable | deliver a:1
            b: view 1 ab
            """,
            "a sent a:1 at 2 us in view 1 and stayed there, but b never delivered it",
        ),
        (
            """
            a: view 1 ab | send 1 | deliver a:1
            b: view 1 ab | view 2 b
            """,
            "a sent a:1 at 2 us in view 1 and stayed there, but b never delivered it",
        ),
        (
            "a: view 1 ab | send 1 | deliver a:1",
            "a sent a:1 at 2 us in view 1 and stayed there, but b never delivered it",
        ),
    ],
)
def test_a_message_of_a_lasting_view_that_a_member_lacks_is_a_violation(text: str, witness: str) -> None:
    assert TERMINATION.judge(index(history(text), quiet_end=True)).witness == witness
    assert TERMINATION.judge(index(history(text), quiet_end=False))
