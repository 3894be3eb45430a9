"""Early messages: Reliable and FIFO ones that are here before a join that lies before them in the order.

Others deliver such a message in the joiner's view. The joiner was no member yet when it was delivered here, and
gets it right after its view. Only joins of this daemon count, and only from their stamp on: whatever came
before that has a lower place.
"""

from dataclasses import dataclass, field

import msgspec

from hopring.groups.events import Deliver
from hopring.ids import DaemonId, GroupName
from hopring.ordering.entry import Position
from hopring.services import Service


@dataclass(slots=True)
class Early:
    """The joins that are stamped and not delivered, and what overtook them."""

    me: DaemonId
    joins: dict[tuple[int, GroupName], Position] = field(default_factory=dict)  # By session and group.
    kept: list[Deliver] = field(default_factory=list)

    def stamped(self, session: int, group: GroupName, position: Position) -> None:
        """A join of this daemon has its place."""
        self.joins[session, group] = position

    def overtakes(self, groups: tuple[GroupName, ...], service: Service, position: Position) -> bool:
        """Whether a joiner may be owed this message."""
        if not self.joins or service not in (Service.RELIABLE, Service.FIFO):
            return False
        return any(group in groups and at < position for (_, group), at in self.joins.items())

    def take(self, session: int, group: GroupName) -> list[Deliver]:
        """The join is delivered: what its session is owed, in order."""
        at = self.joins.pop((session, group), None)
        owed = [] if at is None else [one for one in self.kept if self._owes(one, session, group, at)]
        # It may join another group of these too, and gets no message twice.
        self.kept = [_also(one, session) if one in owed else one for one in self.kept] if self.joins else []
        return [
            msgspec.structs.replace(one, sessions=(session,))
            for one in sorted(owed, key=lambda one: one.position)
        ]

    def _owes(self, deliver: Deliver, session: int, group: GroupName, at: Position) -> bool:
        run = deliver.bundle.run
        discards = run.self_discard and (run.daemon, run.session) == (self.me, session)
        new = session not in deliver.sessions
        return group in run.groups and deliver.position > at and new and not discards

    def clear(self) -> None:
        """The daemons' view is over, and all of it delivered."""
        self.joins.clear()
        self.kept.clear()


def _also(deliver: Deliver, session: int) -> Deliver:
    return msgspec.structs.replace(deliver, sessions=(*deliver.sessions, session))
