"""Changes of the map of a group, applied by hand."""

import json

from hopring.blocks.replicated.replicated_dict import MapChange, MapState


def change(state: MapState, key: str, expected: list[list[object]], wanted: list[object]) -> MapChange | None:
    done = state.apply(json.dumps(["w", 1, key, expected, wanted]).encode())
    assert done is not None
    assert done[:2] == ("w", 1)
    return done[2]


def test_entries_are_set_and_deleted() -> None:
    state = MapState()

    assert change(state, "a", [], [1]) == MapChange("a", 1, deleted=False)
    assert change(state, "a", [], []) == MapChange("a", None, deleted=True)
    assert state.entries == {}


def test_a_condition_that_does_not_hold_changes_nothing() -> None:
    state = MapState()
    change(state, "a", [], [None])

    assert change(state, "a", [[]], [2]) is None
    assert change(state, "a", [[1]], [2]) is None
    assert change(state, "b", [[None]], [2]) is None
    assert change(state, "a", [[None]], [2]) is not None
    assert state.entries == {"a": 2}


def test_foreign_messages_are_no_changes() -> None:
    state = MapState()

    for data in (b"", b"\xff", b"7", b"[1, 2]", b'["w", 1, 7, [], [1]]', b'["w", 1, "k", {}, [1]]', b"null"):
        assert state.apply(data) is None
    assert state.entries == {}


def test_a_snapshot_is_restored() -> None:
    one, other = MapState(), MapState()
    change(one, "a", [], [{"b": [1.5, None]}])
    other.restore(one.snapshot())

    assert other.entries == one.entries
