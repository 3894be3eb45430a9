"""The checks of locks, on histories written by hand, right and wrong."""

import pytest

from hopring.check.locks import (
    ALL_GRANTED,
    FENCES_RISE,
    IN_PRIMARIES,
    ONE_HOLDER,
    PLACES,
    LockAwaited,
    LockEvent,
    LockGone,
    LockTaken,
    check_locks,
)


def taken(
    at_us: int,
    holder: str,
    epoch: int,
    step: int,
    *,
    partial: bool = False,
    primary: bool = True,
    asked: bool = False,
) -> LockTaken:
    return LockTaken(at_us, holder, "row", epoch, step, partial, primary, asked)


def broken(*history: LockEvent) -> list[str]:
    return [verdict.property for verdict in check_locks(history) if not verdict]


def test_holders_one_after_the_other_are_right() -> None:
    assert (
        broken(
            taken(1, "a", 7, 1),
            LockGone(2, "a", "row"),
            taken(3, "b", 7, 2),
            LockGone(4, "b", "row"),
            taken(5, "a", 8, 1),
            taken(6, "c", 4, 1, partial=True, primary=False, asked=True),
            LockAwaited(9_000_000, "b", "row"),
        )
        == []
    )


WRONG: dict[str, tuple[list[LockEvent], list[str]]] = {
    "two at a time": ([taken(1, "a", 7, 1), taken(2, "b", 7, 2)], [ONE_HOLDER]),
    "a fence that falls": (
        [taken(1, "a", 7, 5), LockGone(2, "a", "row"), taken(3, "b", 7, 4)],
        [FENCES_RISE],
    ),
    "one fence for two": (
        [taken(1, "a", 7, 5), LockGone(2, "a", "row"), taken(3, "b", 7, 5)],
        [FENCES_RISE, PLACES],
    ),
    "outside of a primary view": ([taken(1, "a", 7, 1, primary=False)], [IN_PRIMARIES]),
    "partial, and not asked for": ([taken(1, "a", 7, 1, partial=True, primary=False)], [IN_PRIMARIES]),
    "free and awaited": ([LockAwaited(2_000_000, "a", "row")], [ALL_GRANTED]),
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_wrong_histories_break_the_property_that_they_are_for(name: str) -> None:
    history, names = WRONG[name]
    assert broken(*history) == names
