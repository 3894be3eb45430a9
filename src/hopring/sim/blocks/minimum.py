"""Agents in a group with a minimum: they join, state minima, send, and leave, through splits and merges.

In each world the minima are numbers, or some members state a majority, or all.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

from hopring.check.minimum import (
    ALL,
    MAJORITY,
    MinimumEvent,
    MinimumSignal,
    MinimumView,
    OrderedShown,
    SenderWaits,
    check_minimum,
)
from hopring.check.properties.property import Verdict
from hopring.client.events import Member, Quorum, Suspended, Transition, View
from hopring.ids import GroupName, Place
from hopring.services import Service
from hopring.sim.block_cluster import AgentMessage, BlockAgent, BlockAgents, BlockKind, SimBlockCluster
from hopring.wire.rmp.lists import MINIMUM_ALL, MINIMUM_MAJORITY

GROUP: Final = GroupName("minimum")
FLAVOURS: Final = ((0, 2, 3), (0, 2, 3), (0, MINIMUM_MAJORITY), (2, MINIMUM_MAJORITY), (0, MINIMUM_ALL))
"""The minima that the members of a world state."""

SERVICES: Final = (Service.RELIABLE, Service.FIFO, Service.CAUSAL, Service.AGREED, Service.AGREED, Service.SAFE)
LEAVES: Final = 0.05
IMPATIENT: Final = 0.3
WAITS_US: Final = 1_000_000
"""A message that waits for so long at the quiet end is reported, if its group goes on."""


def code_of(minimum: int | Quorum) -> int:
    """A minimum as the history has it."""
    if isinstance(minimum, Quorum):
        return ALL if minimum is Quorum.ALL else MAJORITY
    return minimum if minimum > 1 else 0


class MinimumAgent(BlockAgent):
    """One client process that is a member, or has just left."""

    def __init__(self, agents: "MinimumAgents", number: int, dice: Random) -> None:
        super().__init__(agents.cluster, f"least{number}", dice)
        self._agents = agents
        self._minimum = dice.choice(agents.flavour)
        self.impatient = dice.random() < IMPATIENT
        self._stays = 0
        self._stay = ""  # Empty while it is no member.
        self._members: frozenset[Member] = frozenset()  # Of its last view.
        self._closing = False  # There was a signal, and no view of the network since.
        self._sent = 0
        self._pending: dict[str, int] = {}  # By message: when it was sent.

    # The application.

    def act(self) -> None:
        """Sends a message, or leaves."""
        if self._stay and self.can_send and self.dice.random() < LEAVES:
            self._stay = ""
            self.leave(GROUP)
            return
        self._sent += 1
        text, service = f"{self.name}.{self._sent}", self.dice.choice(SERVICES)
        payload = f"{text} {service.name if service.total else ''}".encode()
        self.outbox.append(AgentMessage((GROUP,), payload, service, text))
        self.flush()

    def send(self, message: AgentMessage) -> None:
        """Notes when the daemon has taken the message."""
        self._pending[str(message.receipt)] = self.now_us
        super().send(message)

    # The session.

    def connected(self) -> None:
        """Joins the group with the drawn minimum."""
        self.join(GROUP, self._minimum)

    def lost(self) -> None:
        """What waited is lost with the session."""
        self._stay = ""
        self._pending.clear()

    def left(self, _group: GroupName) -> None:
        """Joins again, perhaps with another minimum."""
        self._minimum = self.dice.choice(self._agents.flavour)
        self.join(GROUP, self._minimum)

    def viewed(self, view: View) -> None:
        """A view of the group arrives; its own join begins a stay."""
        members = frozenset(view.members)
        if view.cause == "join" and view.who == self.me:
            self._stays += 1
            self._stay, self._members = f"{self.name}/{self._stays}", frozenset()
            self._closing = False
        if not self._stay:
            return
        # A view on the way to a merged one knows who has left elsewhere, and that minimum is gone.
        split = view.cause == "network" and members < self._members and not view.id.closing
        self._closing = view.id.closing or (self._closing and view.cause != "network")
        what = len(members), code_of(view.minimum), view.suspended, view.primary, split, self._closing
        self._note(MinimumView(self.now_us, self._stay, str(view.id), *what))
        self._members = members

    def signalled(self, signal: Transition) -> None:
        """A signal; whether the group is suspended with it, arrives behind it."""
        self._closing = True
        if self._stay:
            self._note(MinimumSignal(self.now_us, self._stay, len(signal.members), False))

    def suspended(self, event: Suspended) -> None:
        """The signal before says that the group is suspended."""
        if not self._stay:
            return
        last = self._agents.history[-1]
        assert isinstance(last, MinimumSignal), "it follows its signal at once"
        assert last.member == self._stay, "it follows its signal at once"
        self._agents.history[-1] = MinimumSignal(self.now_us, self._stay, len(event.members), True)

    def heard(self, _sender: GroupName, _groups: tuple[GroupName, ...], payload: bytes, _place: Place) -> None:
        """A message of the group."""
        text, _, service = payload.decode().partition(" ")
        if self._stay and service:
            self._note(OrderedShown(self.now_us, self._stay, text))

    def placed(self, receipt: object, _members: tuple[Member, ...], _view_counter: int) -> None:
        """A message has its place in the order."""
        self._pending.pop(str(receipt), None)

    def dropped(self, receipt: object) -> None:
        """A message was refused or has expired."""
        self._pending.pop(str(receipt), None)

    def _note(self, event: MinimumEvent) -> None:
        self._agents.history.append(event)

    def late(self) -> list[SenderWaits]:
        """Messages that wait for long, though the group goes on."""
        home, now_us = self.home, self.now_us
        if home is None or not self.attached or GROUP in home.groups.suspended:
            return []
        late = [text for text, at_us in self._pending.items() if now_us - at_us > WAITS_US]
        return [SenderWaits(now_us, self._stay, text) for text in late]


class MinimumAgents(BlockAgents):
    """All members of the group."""

    def __init__(self, cluster: SimBlockCluster) -> None:
        super().__init__(cluster)
        self.history: list[MinimumEvent] = []
        self.agents: list[MinimumAgent] = []
        self.flavour: Sequence[int] = ()

    def make(self, count: int, dice: Random) -> list[MinimumAgent]:
        """Makes the agents; what minima they state is drawn for the world."""
        self.flavour = dice.choice(FLAVOURS)
        self.agents = [MinimumAgent(self, number, dice) for number in range(1, count + 1)]
        return self.agents

    def judge(self, quiet_end: bool) -> list[Verdict]:
        """The properties of minimum sizes."""
        return check_minimum(self.record(quiet_end), quiet_end)

    def record(self, quiet_end: bool) -> list[MinimumEvent]:
        """The history, and which messages wait at its end."""
        late = [one for agent in self.agents for one in agent.late()] if quiet_end else []
        return [*self.history, *late]


# Withheld messages are none of a session's history: EVS-C would miss them.
MINIMUM: Final = BlockKind("minimum", 50, MinimumAgents, (GROUP,))
