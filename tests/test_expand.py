"""What mypyc is given in the place of values and dataclasses."""

from dataclasses import replace
from typing import Any, NewType

import expand
import pytest

from hopring import ids

pytestmark = pytest.mark.interpreted  # Compiled values have no interpreted children.

VALUES = '''
from hopring.value import Value

class Packet(Value, frozen=True):
    """A packet."""

    seq: int
    body: bytes = b""  # May be empty.
    wide: tuple[int, ...] = (
        1,
        2,
    )

    def size(self) -> int:
        return len(self.body)


class Tick(Value, frozen=True):
    """Nothing in it."""
'''

DATACLASSES = """
from dataclasses import dataclass, field
from typing import ClassVar

@dataclass(frozen=True, slots=True)
class Place:
    KINDS: ClassVar[int] = 3
    x: int
    y: int = 0


@dataclass(slots=True)
class Store:
    kept: dict[int, bytes] = field(default_factory=dict)
    count: int = 0

    def __post_init__(self) -> None:
        self.count += len(self.kept)


@dataclass(slots=True)
class Square:
    side: int
    area: int = field(init=False)
    corners: int = field(init=False, default=4)

    def __post_init__(self) -> None:
        self.area = self.side * self.side
"""

NEW_TYPES = """
from hopring.ids import (
    DaemonId,
    SiteId,
)

def both(one: int, other: int) -> tuple[DaemonId, SiteId]:
    return DaemonId(one + 1), SiteId(DaemonId(other))
"""


def classes(source: str) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "expanded"}
    exec(expand.expanded(source), space)
    return space


def test_a_value_is_a_plain_class_with_the_init_of_its_fields() -> None:
    Packet = classes(VALUES)["Packet"]
    one = Packet(7, wide=(3,))
    assert (one.seq, one.body, one.wide, one.size()) == (7, b"", (3,), 0)
    assert Packet(7).wide == (1, 2)
    assert repr(Packet(1, b"x")) == "Packet(seq=1, body=b'x', wide=(1, 2))"


def test_values_are_equal_by_their_fields_and_their_kind() -> None:
    found = classes(VALUES)
    Packet, Tick = found["Packet"], found["Tick"]
    assert Packet(1) == Packet(1)
    assert hash(Packet(1)) == hash(Packet(1))
    assert Packet(1) != Packet(2)
    assert Tick() == Tick()
    assert Tick() != Packet(1)
    assert Packet(1, b"a").replace(seq=2) == Packet(2, b"a")


def test_a_dataclass_keeps_all_but_its_init() -> None:
    Place = classes(DATACLASSES)["Place"]
    assert Place(1) == Place(1, 0)
    assert hash(Place(1)) == hash(Place(1, 0))
    assert Place.KINDS == 3
    assert repr(Place(1)) == "Place(x=1, y=0)"


def test_what_a_factory_makes_is_made_anew_and_the_last_word_is_had() -> None:
    Store = classes(DATACLASSES)["Store"]
    Store().kept[1] = b""
    assert Store().kept == {}
    assert Store({1: b"", 2: b""}).count == 2


def test_what_is_not_given_is_set_later_and_replaced_with_the_rest() -> None:
    square = classes(DATACLASSES)["Square"](3)
    assert (square.area, square.corners) == (9, 4)
    assert replace(square, side=2).area == 4


def test_calls_of_new_types_are_casts() -> None:
    text = expand.expanded(NEW_TYPES)
    assert "return _cast(DaemonId, one + 1), _cast(SiteId, _cast(DaemonId, other))" in text
    assert classes(NEW_TYPES)["both"](1, 2) == (2, 2)


def test_all_new_types_are_known() -> None:
    assert {name for name, one in vars(ids).items() if isinstance(one, NewType)} == expand.NEW_TYPES


def test_what_stands_in_a_text_stays_as_it_is() -> None:
    source = 'from hopring.ids import SiteId\n\nname = f"site {SiteId(3)}"\n'
    assert expand.expanded(source) == source


@pytest.mark.parametrize(
    "source",
    [
        "@dataclass(kw_only=True)\nclass Named:\n    x: int\n",
        "@dataclass\nclass Child(Parent):\n    x: int\n",
        "@dataclass\nclass Hidden:\n    x: int = field(init=False, repr=False)\n",
        "@dataclass\nclass Own:\n    x: int\n\n    def __init__(self) -> None:\n        self.x = 1\n",
        "@dataclass\nclass Perhaps:\n    x: list[int] | None = field(default_factory=list)\n",
        "class Plain:\n    x: int = 0\n",
    ],
)
def test_what_cannot_be_written_out_plainly_stays_as_it_is(source: str) -> None:
    assert expand.expanded(source) == source
