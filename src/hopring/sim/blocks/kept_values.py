"""Agents that send messages with a time to live, and messages that are retained; they leave, join and move."""

from random import Random
from typing import Final

from hopring.check.kept_values import (
    KeptValueEvent,
    TimedShown,
    TimeEnded,
    ValueAtEnd,
    ValueAtJoin,
    ValueAtView,
    ValueSeen,
    check_kept_values,
)
from hopring.check.properties.property import Verdict
from hopring.client.events import Transition, View
from hopring.ids import GroupName, Place
from hopring.services import Service
from hopring.sim.block_cluster import AgentMessage, BlockAgent, BlockAgents, BlockKind, SimBlockCluster

GROUP: Final = GroupName("values")
TTLS_US: Final = (0, 1_000, 20_000, 200_000)
ORDERED: Final = (Service.CAUSAL, Service.AGREED, Service.SAFE)
ALL: Final = (Service.UNRELIABLE, Service.RELIABLE, Service.FIFO, *ORDERED)
LEAVES, TIMED = 0.1, 0.5
"""Shares of the actions; the others are retained messages."""


class ValueAgent(BlockAgent):
    """One client process that is a member, or has just left."""

    def __init__(self, agents: "ValueAgents", number: int, dice: Random) -> None:
        super().__init__(agents.cluster, f"value{number}", dice)
        self._agents = agents
        self._stays = 0
        self._stay = ""  # Empty while it is no member.
        self._joined = ""  # The view of its join, until something follows it.
        self.view = ""
        self.last = ""  # The value that it has seen last.
        self._sent = 0

    # The application.

    def act(self) -> None:
        """Sends a message with a time to live or a retained one, or leaves."""
        chance = self.dice.random()
        if chance < LEAVES:
            if self._stay and self.can_send:
                self._end_stay()
                self.leave(GROUP)
            return
        self._sent += 1
        text = f"{self.name}.{self._sent}"
        if chance < LEAVES + TIMED:
            ttl_us = self.dice.choice(TTLS_US)
            receipt = text, self.now_us + ttl_us
            service = self.dice.choice(ALL)
            self.outbox.append(AgentMessage((GROUP,), f"t {text}".encode(), service, receipt, ttl_us=ttl_us))
        else:
            payload, service = f"v {text}".encode(), self.dice.choice(ORDERED)
            self.outbox.append(AgentMessage((GROUP,), payload, service, retain=True))
        self.flush()

    # The session.

    def connected(self) -> None:
        """Joins the group at this daemon."""
        self.join(GROUP)

    def lost(self) -> None:
        """The membership is lost with the session."""
        self._end_stay()

    def left(self, _group: GroupName) -> None:
        """Joins again, as another membership."""
        self.join(GROUP)

    def viewed(self, view: View) -> None:
        """A view of the group arrives; its own join begins a stay."""
        self.settle()
        if view.cause == "join" and view.who == self.me:
            self._stays += 1
            self._stay, self._joined, self.last = f"{self.name}/{self._stays}", str(view.id), ""
        if not self._stay:
            return
        self.view = str(view.id)
        self._note(ValueAtView(self.now_us, self._stay, self.view, self.last))

    def signalled(self, _signal: Transition) -> None:
        """Nothing comes behind the view of a join any more."""
        self.settle()

    def kept(self, payload: bytes, place: Place) -> None:
        """A retained value arrives: behind a join, or because another one counts after a merge."""
        if self._stay:
            self._see(payload.decode().split(" ")[1], place)
        self.settle()

    def heard(self, _sender: GroupName, _groups: tuple[GroupName, ...], payload: bytes, place: Place) -> None:
        """A message of the group."""
        self.settle()
        kind, text = payload.decode().split(" ")
        if self._stay and kind == "t":
            self._note(TimedShown(self.now_us, self._stay, text))
        elif self._stay:
            self._see(text, place)

    def _see(self, value: str, place: Place) -> None:
        self.last = value
        self._note(ValueSeen(self.now_us, self._stay, value, (*place.view, place.lts, place.site)))

    def dropped(self, receipt: object) -> None:
        """A message was dropped: it has expired."""
        assert isinstance(receipt, tuple), "the message, and its deadline"
        self._note(TimeEnded(self.now_us, *receipt))

    def settle(self) -> None:
        """Something follows the view of the join: a value would have preceded it."""
        if self._joined:
            self._note(ValueAtJoin(self.now_us, self._stay, self._joined, self.last))
            self._joined = ""

    def _end_stay(self) -> None:
        self._joined = self._stay = self.view = ""

    def _note(self, event: KeptValueEvent) -> None:
        self._agents.history.append(event)

    def at_end(self) -> list[ValueAtEnd]:
        """What it has seen last, if it is a member."""
        here = self._stay and self.home is not None and self.attached
        return [ValueAtEnd(self.now_us, self._stay, self.view, self.last)] if here else []


class ValueAgents(BlockAgents):
    """All members of the group."""

    def __init__(self, cluster: SimBlockCluster) -> None:
        super().__init__(cluster)
        self.history: list[KeptValueEvent] = []
        self.agents: list[ValueAgent] = []

    def make(self, count: int, dice: Random) -> list[ValueAgent]:
        """Makes the agents, all alike."""
        self.agents = [ValueAgent(self, number, dice) for number in range(1, count + 1)]
        return self.agents

    def judge(self, quiet_end: bool) -> list[Verdict]:
        """The properties of times to live and retained values."""
        return check_kept_values(self.record(quiet_end), quiet_end)

    def record(self, _quiet_end: bool) -> list[KeptValueEvent]:
        """The history, and what each member has seen last."""
        for agent in self.agents:
            agent.settle()
        return [*self.history, *[one for agent in self.agents for one in agent.at_end()]]


VALUES: Final = BlockKind("values", 60, ValueAgents)
