"""Numbering: how one id of a group's views follows the other.

Implements  thesis definition 6.1, with the cure of its collisions.
Invariants  ids of one group rise at every member (2.3); nobody else gives an id that was given, to a view with
            other members or with another past (2.20). Every daemon of a view gives the same ids.
"""

from dataclasses import dataclass

from hopring.groups.names import GroupViewId
from hopring.ids import ViewId


@dataclass(slots=True)
class Numbering:
    """Gives out ids in one view of daemons, from when all know the same to its end."""

    view: ViewId
    path: tuple[ViewId, ...] = ()
    floor: int = 0  # No group that is gone had a higher step: it may come back, and must go on above.

    def close(self, next_view: ViewId) -> None:
        """From here on ids belong to those who go on to this view."""
        self.floor = 0
        self.path = (next_view,)

    def after(self, last: GroupViewId | None) -> GroupViewId:
        """The id that follows this one of a group; of a new group, the first."""
        step = self.floor + 1
        if last is not None and (last.view, last.path) == (self.view, self.path):
            step = last.step + 1
        return GroupViewId(self.view, self.path, step)

    def retire(self, last: GroupViewId) -> None:
        """The group is gone."""
        self.floor = max(self.floor, last.step)


def parting(way: tuple[ViewId, ...], view: ViewId, step: int) -> GroupViewId:
    """The id for those who came this way from a view, to where others came from it another way.

    Members with other last views may have come the same way, so the step has to tell them apart.
    """
    return GroupViewId(way[0], (*way[1:], view), step)
