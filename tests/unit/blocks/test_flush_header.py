"""The header of view synchrony: what is written is read, and nothing else is."""

import pytest

from hopring.blocks.flush_header import (
    AgreementMark,
    ExclusionMark,
    FlushMark,
    ViewMark,
    decode_flush,
    encode_flush,
    view_key,
)
from hopring.groups.names import GroupViewId
from hopring.ids import DaemonId, Incarnation, ViewId

KEY = "0123456789abcdef"
VIEW = ViewId(7, DaemonId(1), Incarnation(2**63))


@pytest.mark.parametrize(
    ("mark", "text"),
    [
        (ViewMark(KEY), f"m.{KEY}"),
        (AgreementMark(KEY, "#ann.b#d1"), f"a.{KEY}.#ann.b#d1"),
        (ExclusionMark(KEY), f"x.{KEY}"),
    ],
)
def test_a_mark_is_read_as_it_was_written(mark: FlushMark, text: str) -> None:
    assert encode_flush(mark) == text
    assert decode_flush(text) == mark


@pytest.mark.parametrize(
    "text",
    [
        "",
        "m",
        "m.",
        "m.0123",
        f"m.{KEY}0",
        f"m.{KEY.upper()}",
        f"m.{KEY}.",
        f"x.{KEY}.#ann#d1",
        f"a.{KEY}",
        f"a.{KEY}.",
        f"a.{KEY}." + "x" * 200,
        f"b.{KEY}",
        f".{KEY}",
    ],
)
def test_anything_else_is_no_mark(text: str) -> None:
    assert decode_flush(text) is None


def test_different_views_have_different_keys() -> None:
    other = ViewId(7, DaemonId(1), Incarnation(5))
    views = [
        GroupViewId(VIEW, (), 0),
        GroupViewId(VIEW, (), 1),
        GroupViewId(VIEW, (other,), 1),
        GroupViewId(other, (VIEW,), 1),
        GroupViewId(other, (), 1),
    ]

    keys = [view_key(one) for one in views]

    assert len(set(keys)) == len(views)
    assert keys == [view_key(one) for one in views]
    assert all(decode_flush(f"m.{key}") == ViewMark(key) for key in keys)
