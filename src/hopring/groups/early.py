"""Early messages: Reliable and FIFO messages that arrive before an earlier-ordered JOIN.

Others deliver such a message in the joiner's view. The joiner was no member yet when it was delivered here, and
gets it right after its view. Only joins of this daemon count, and only from their stamp on: whatever came
before that has a lower place. A FIFO message of the same sender that comes to the joiner through another group
waits with it, or it would overtake.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from hopring.groups.events import Deliver
from hopring.ids import DaemonId, GroupName
from hopring.ordering.entry import Position
from hopring.services import Service

Gets = Callable[[int, Deliver], bool]
"""Whether a session is in one of the groups of a message now."""


@dataclass(slots=True)
class Early:
    """The joins that are stamped and not delivered, and what overtook them."""

    me: DaemonId
    joins: dict[Position, tuple[int, GroupName]] = field(default_factory=dict)  # Session and group.
    kept: list[Deliver] = field(default_factory=list)  # With the sessions that have got it.
    withheld: list[tuple[int, Deliver]] = field(default_factory=list)  # By session, in the sender's order.

    def stamped(self, session: int, group: GroupName, position: Position) -> None:
        """A join of this daemon has its place."""
        self.joins[position] = (session, group)

    def overtakes(self, groups: tuple[GroupName, ...], service: Service, position: Position) -> bool:
        """Whether a joiner may be owed this message."""
        if not self.joins or not service.early:
            return False
        return any(group in groups and at < position for at, (_, group) in self.joins.items())

    def keep(self, deliver: Deliver) -> None:
        """It may be owed to a joiner; who is named in it has got it."""
        self.kept.append(deliver)

    def withhold(self, deliver: Deliver) -> Deliver:
        """Takes out those for whom it has to wait; their turn comes with a join."""
        if not self.joins:
            return deliver
        waiting = [one for one in deliver.sessions if self._waits(one, deliver)]
        if not waiting:
            return deliver
        self.withheld.extend([(one, deliver) for one in waiting])
        rest = tuple([one for one in deliver.sessions if one not in waiting])
        return deliver.replace(sessions=rest)

    def take(self, at: Position, gets: Gets) -> list[Deliver]:
        """The join at this place is delivered: what its session is owed, in order.

        What waited for a session that is in none of its groups now is not for it, unless a later join owes it.
        """
        if at not in self.joins:
            return []
        session, group = self.joins.pop(at)
        waiting = {one.position for number, one in self.withheld if number == session}
        owed = [one for one in self.kept if self._owes(one, session, group, at)]
        self.withheld.extend([(session, one) for one in owed if one.position not in waiting])
        out: dict[Position, Deliver] = {}
        withheld, self.withheld = self.withheld, []
        for number, one in withheld:
            if number != session or self._behind(session, one):
                self.withheld.append((number, one))
            elif gets(session, one):
                out[one.position] = one
        # It may join another group of these too, and gets no message twice.
        self.kept = [_also(one, session) if one.position in out else one for one in self.kept]
        if not self.joins:
            self.kept.clear()
        return [out[place].replace(sessions=(session,)) for place in sorted(out)]

    def clear(self) -> None:
        """The daemons' view is over, and all of it delivered."""
        self.joins.clear()
        self.kept.clear()
        assert not self.withheld, "all joins of the view are delivered"

    def _waits(self, session: int, deliver: Deliver) -> bool:
        return self._behind(session, deliver)

    def _behind(self, session: int, deliver: Deliver) -> bool:
        """Whether the session is still owed a message of this sender that this one may not pass."""
        return deliver.bundle.run.service.by_session and any(
            number == session and one.position < deliver.position and self._owes(one, session, group, at)
            for at, (number, group) in self.joins.items()
            for one in self.kept
            if _same_sender(one, deliver)
        )

    def _owes(self, deliver: Deliver, session: int, group: GroupName, at: Position) -> bool:
        run = deliver.bundle.run
        discards = run.self_discard and (run.daemon, run.session) == (self.me, session)
        new = session not in deliver.sessions
        return group in run.groups and deliver.position > at and new and not discards


def _also(deliver: Deliver, session: int) -> Deliver:
    return deliver.replace(sessions=(*deliver.sessions, session))


def _same_sender(one: Deliver, other: Deliver) -> bool:
    mine, others = one.bundle.run, other.bundle.run
    return (mine.daemon, mine.session) == (others.daemon, others.session)
