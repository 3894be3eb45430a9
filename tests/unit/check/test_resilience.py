"""The checks of resilient messages, on histories written by hand, right and wrong. 255 is a majority."""

import pytest
from tests.unit.check.evs_notation import history

from hopring.check.history import index
from hopring.check.properties.resilience import IN_PRIMARIES, PROPERTIES, SURVIVES, SURVIVES_IN_PRIMARIES


def broken(text: str, quiet_end: bool = True) -> list[str]:
    found = index(history(text), quiet_end)
    return [one.name for one in PROPERTIES if not one.judge(found)]


@pytest.mark.parametrize(
    "text",
    [
        # All that stay together have it.
        """
        a: view 1 abc | send 1 k 1 | deliver a:1 | crash
        b: view 1 abc | deliver a:1 | signal | view 2 bc
        c: view 1 abc | signal | deliver a:1 | view 2 bc
        """,
        # Two are lost, and it was to survive one.
        """
        a: view 1 abc | send 1 k 1 | deliver a:1 | crash
        b: view 1 abc | crash
        c: view 1 abc | signal | view 2 c
        """,
        # It was delivered behind the signal only: that promises nothing to others.
        """
        a: view 1 abc | send 1 k 1 | signal | deliver a:1 | view 2 a
        b: view 1 abc | signal | view 2 bc
        c: view 1 abc | signal | view 2 bc
        """,
        # The minority of a split passes over what the majority has.
        """
        a: view 1 abc primary | send 1 k 255 | deliver a:1 | signal | view 2 ab primary
        b: view 1 abc primary | signal | deliver a:1 | view 2 ab primary
        c: view 1 abc primary | signal | deliver a:1 withheld 1 | view 3c c
        """,
        # In a view that is not primary all pass it over.
        """
        a: view 1 ab | send 1 k 255 | deliver a:1 withheld 1
        b: view 1 ab | deliver a:1 withheld 1
        """,
    ],
)
def test_right_histories(text: str) -> None:
    assert broken(text) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            SURVIVES.name,
            """
            a: view 1 abc | send 1 k 1 | deliver a:1 | crash
            b: view 1 abc | signal | deliver a:1 | view 2 bc
            c: view 1 abc | signal | view 2 bc
            """,
        ),
        (
            SURVIVES.name,
            """
            a: view 1 abc | send 1 k 2 | deliver a:1 | crash
            b: view 1 abc | crash
            c: view 1 abc | signal | view 2 c
            """,
        ),
        (
            SURVIVES.name,
            """
            a: view 1 ab | send 1 k 1 | deliver a:1
            b: view 1 ab
            """,
        ),
        (
            IN_PRIMARIES.name,
            """
            a: view 1 ab | send 1 k 255 | deliver a:1
            b: view 1 ab | deliver a:1
            """,
        ),
        (
            IN_PRIMARIES.name,
            """
            a: view 1 abc primary | send 1 k 255 | deliver a:1 | signal | view 2 ab primary
            b: view 1 abc primary | deliver a:1 | signal | view 2 ab primary
            c: view 1 abc primary | signal | deliver a:1 | view 3c c
            """,
        ),
        (
            SURVIVES_IN_PRIMARIES.name,
            """
            a: view 1 abc primary | send 1 k 255 | deliver a:1 | crash
            b: view 1 abc primary | signal | view 2 bc primary
            c: view 1 abc primary | signal | view 2 bc primary
            """,
        ),
        (
            SURVIVES_IN_PRIMARIES.name,
            """
            a: view 1 abc primary | send 1 k 255 | deliver a:1 | crash
            b: view 1 abc primary | signal | deliver a:1 withheld 1 | view 2 bc primary
            c: view 1 abc primary | signal | deliver a:1 withheld 1 | view 2 bc primary
            """,
        ),
    ],
)
def test_wrong_histories(name: str, text: str) -> None:
    assert broken(text) == [name]
