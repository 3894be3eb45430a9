"""The checks of state transfer, on histories written by hand."""

from collections.abc import Sequence

from hopring.check.state import (
    ALL_READY,
    HAS_STATE,
    ONE_SPEAKER,
    SAME_STATES,
    SPEAKERS_STATE,
    BecameReady,
    OperationApplied,
    RoundBegan,
    Spoke,
    State,
    StateAtEnd,
    StateEvent,
    check_state,
)

RIGHT: list[StateEvent] = [
    BecameReady(1, "anna", (), ()),
    OperationApplied(2, "anna", "x", (1, 1), True, ("x",)),
    RoundBegan(3, "anna", "r1", ("x",)),
    Spoke(3, "anna", "r1", (0,)),
    OperationApplied(4, "anna", "y", (1, 2), True, ("x", "y")),
    BecameReady(5, "bert", (("anna", "r1"),), ("x",)),
    OperationApplied(6, "bert", "y", (1, 2), True, ("x", "y")),
    StateAtEnd(9, "anna", "v", ("x", "y")),
    StateAtEnd(9, "bert", "v", ("x", "y")),
]


def merge(states: Sequence[State]) -> State:
    return tuple(sorted({one for state in states for one in state}))


def broken_by(history: list[StateEvent]) -> list[str]:
    return [one.property for one in check_state(history, True, merge) if not one]


def changed(at: int, event: StateEvent) -> list[StateEvent]:
    return [*RIGHT[:at], event, *RIGHT[at + 1 :]]


def test_a_right_history_breaks_nothing() -> None:
    assert broken_by(RIGHT) == []


def test_a_state_that_is_not_the_speakers_is_seen() -> None:
    wrong = changed(5, BecameReady(5, "bert", (("anna", "r1"),), ("x", "y")))

    assert broken_by(wrong) == [SPEAKERS_STATE]


def test_a_merge_has_to_be_that_of_all_sources() -> None:
    sides: list[StateEvent] = [RoundBegan(1, "anna", "r", ("x",)), RoundBegan(1, "carl", "r", ("z",))]
    sources = (("anna", "r"), ("carl", "r"))

    assert broken_by([*sides, BecameReady(2, "bert", sources, ("x", "z"))]) == []
    assert broken_by([*sides, BecameReady(2, "bert", sources, ("x",))]) == [SPEAKERS_STATE]


def test_a_speaker_without_state_is_seen() -> None:
    assert broken_by([*RIGHT[:2], *RIGHT[3:]]) == [HAS_STATE]


def test_two_speakers_for_one_member_are_seen() -> None:
    assert broken_by([*RIGHT, Spoke(3, "carl", "r1", (0, 1))]) == [ONE_SPEAKER]


def test_different_states_at_one_place_are_seen_if_the_view_had_agreed() -> None:
    lost = OperationApplied(6, "bert", "y", (1, 2), True, ("y",))
    unsettled = OperationApplied(6, "bert", "y", (1, 2), False, ("y",))

    assert broken_by(changed(6, lost)) == [SAME_STATES]
    assert broken_by(changed(6, unsettled)) == []


def test_at_the_end_all_of_a_view_are_ready_and_equal() -> None:
    assert broken_by(changed(8, StateAtEnd(9, "bert", "v", None))) == [ALL_READY]
    assert broken_by(changed(8, StateAtEnd(9, "bert", "v", ("x",)))) == [ALL_READY]
    assert broken_by(changed(8, StateAtEnd(9, "bert", "other side", ("x",)))) == []
