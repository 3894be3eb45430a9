"""A group that closed here before the daemons' signal, at a rift in the order.

Daemons for whose sites nothing was missing there go on with the group until the signal, if somebody of theirs
joins it behind the rift. What they show and what is shown here are then different views: ids here name it.
"""

from dataclasses import dataclass

from hopring.groups.names import GroupViewId
from hopring.ids import DaemonId, Incarnation, Process, ViewId
from hopring.ordering.entry import Position


@dataclass(slots=True)
class Aside:
    """What is shown here of such a group."""

    together: frozenset[Process]
    view: ViewId  # The daemons' that is closing; not all of them know the same id of the group's last view.
    id: GroupViewId  # Of the last view that was shown.
    next_view: ViewId
    rift: Position

    def step(self) -> None:
        """There is another view to show."""
        # No view of daemons has counter 0, so this stands before whatever may follow the next view on a way.
        place = ViewId(0, DaemonId(self.rift.site), Incarnation(self.rift.lts))
        # Twice: who joins from elsewhere, and knows of no rift, is shown an id with one such place.
        path = (self.next_view, place, place)
        step = self.id.step + 1 if self.id.path == path else 1
        self.id = GroupViewId(self.view, path, step)
