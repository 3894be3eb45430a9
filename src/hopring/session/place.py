"""Where a message stands in the order; read by msgspec at run time, so this file is not compiled."""

from typing import NamedTuple

from hopring.ids import ViewId


class Place(NamedTuple):
    """Where a bundle stands in the one order of all groups; compared from left to right within a view."""

    view: ViewId
    lts: int
    site: int
