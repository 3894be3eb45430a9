"""Numbering: how one id of a group's views follows the other.

Implements  thesis definition 6.1, with the cure of its collisions.
Invariants  ids of one group rise at every member (2.3); nobody else gives an id that was given, to a view with
            other members or with another past (2.20). Every daemon of a view gives the same ids, whether or not
            it knows that the group's view was closed by a message that was not for its site: so an id of an
            earlier view counts like the one that follows a change of network, and while the view is closing
            nothing counts but the place in the order: stamp in the path, site as the step.
"""

from dataclasses import dataclass
from typing import Final

from hopring.groups.names import GroupViewId
from hopring.ids import DaemonId, Incarnation, ViewId
from hopring.ordering.entry import Position

NETWORK_STEP: Final = 0
"""Of the view that a change of network brings."""


@dataclass(slots=True)
class Numbering:
    """Gives out ids in one view of daemons, from when all know the same to its end."""

    view: ViewId
    path: tuple[ViewId, ...] = ()
    floor: int = 0  # No group that is gone had a higher step: it may come back, and must go on above.

    def close(self, next_view: ViewId) -> None:
        """From here on ids belong to those who go on to this view."""
        self.path = (next_view,)

    @property
    def network(self) -> GroupViewId:
        """The id that follows a change of network."""
        return GroupViewId(self.view, (), NETWORK_STEP)

    def after(self, last: GroupViewId | None, place: Position) -> GroupViewId:
        """The id that follows this one of a group, if there was one, by what stands at this place."""
        if self.path:
            # No view of daemons has counter 0, so this stands before whatever may follow on a way.
            stamp = ViewId(0, DaemonId(0), Incarnation(place.lts))
            return GroupViewId(self.view, (*self.path, stamp), place.site + 1)
        return GroupViewId(self.view, (), 1 + max(self.floor, self._step(last)))

    def retire(self, last: GroupViewId) -> None:
        """The group is gone."""
        self.floor = max(self.floor, self._step(last))

    def _step(self, last: GroupViewId | None) -> int:
        return last.step if last is not None and last.view == self.view else NETWORK_STEP


def parting(way: tuple[ViewId, ...], view: ViewId, step: int) -> GroupViewId:
    """The id for those who came this way from a view, to where others came from it another way.

    Members with other last views may have come the same way, so the step has to tell them apart.
    """
    return GroupViewId(way[0], (*way[1:], view), step)
