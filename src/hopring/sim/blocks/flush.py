"""Agents that are members of one group with view synchrony: its core on simulated sessions.

An agent sends messages of all services but Unreliable. When it is asked to flush it sends up to two more and
agrees after a while; some agents do not wait for late ones. Now and then an agent leaves, and joins again.
Nobody is late in the last moments before the quiet end.
"""

from random import Random
from typing import Final

from hopring.blocks import flushing
from hopring.blocks.flush_header import (
    AgreementMark,
    ExclusionMark,
    FlushMark,
    ViewMark,
    decode_flush,
    encode_flush,
    view_key,
)
from hopring.blocks.flushing import (
    AgreementArrived,
    AgreeToFlush,
    AskToFlush,
    BaseClosing,
    BaseView,
    DeliverContent,
    ExclusionArrived,
    FlushMember,
    FlushPhase,
    GiveUp,
    Input,
    InstallView,
    MemberDisconnected,
    Output,
    SendAgreement,
    SendExclusion,
    ViewMessage,
)
from hopring.check.properties.property import Verdict
from hopring.check.view_synchrony import (
    AgreementSent,
    FlushAgreed,
    FlushAsked,
    FlushEvent,
    MembersAtEnd,
    SentInView,
    ShownInView,
    StayBegan,
    StayEnded,
    SynchronousView,
    check_view_synchrony,
)
from hopring.client.events import Transition, View
from hopring.groups.names import VIEW_SUFFIX
from hopring.ids import NEVER, GroupName, Place
from hopring.links.events import Tick
from hopring.services import Service
from hopring.sim.block_cluster import AgentMessage, BlockAgent, BlockAgents, BlockKind, SimBlockCluster

GROUP: Final = GroupName("synchronous")
BASE: Final = GroupName(GROUP + VIEW_SUFFIX)
FLUSH_US: Final = (0, 40_000)
LATE_US: Final = (100_000, 300_000)
LATE: Final = 0.15
"""The share of flushes to which an agent agrees late."""

PATIENCE_US: Final = (NEVER, NEVER, 150_000)
SERVICES: Final = (Service.RELIABLE, Service.FIFO, Service.CAUSAL, Service.AGREED, Service.SAFE)
LEAVES: Final = 0.02
"""The share of actions that are leaves."""


class FlushAgent(BlockAgent):
    """One member of the group, with its application."""

    def __init__(self, agents: "FlushAgents", number: int, dice: Random) -> None:
        super().__init__(agents.cluster, f"sync{number}", dice)
        self._agents = agents
        self._member = FlushMember(dice.choice(PATIENCE_US))
        self._stay = ""  # Empty while it is no member.
        self._stays = 0
        self._sent = 0

    # The application.

    def act(self) -> None:
        """Sends a message, or leaves."""
        if self._stay and self.can_send and self.dice.random() < LEAVES:
            self._leave()
        else:
            self._multicast()

    def _multicast(self) -> None:
        # What waits in the outbox goes first.
        if not self._member.may_send or self.outbox or not self.can_send:
            return
        self._sent += 1
        content = f"{self.name}:{self._sent}"
        self._note(SentInView(self.now_us, self._stay, content))
        mark = encode_flush(ViewMark(self._member.sending_view))
        service = flushing.service_in_view(self.dice.choice(SERVICES))
        self.send(AgentMessage((GROUP,), f"{mark} {content}".encode(), service))

    def _asked(self) -> None:
        self._note(FlushAsked(self.now_us, self._stay))
        for _ in range(self.dice.randint(0, 2)):
            self._multicast()
        # Nobody is late towards the end: who is left out comes back, and may make others late again.
        late = self.dice.random() < LATE and self.now_us < self.cluster.quiet_us
        delay_us = self.dice.randint(*(LATE_US if late else FLUSH_US))
        self.cluster.engine.after(delay_us, self._agree, self._stay, self._member.view)

    def _agree(self, stay: str, view: str) -> None:
        member = self._member
        if stay == self._stay and member.view == view and member.phase is FlushPhase.ASKED:
            self._note(FlushAgreed(self.now_us, self._stay))
            self._step(AgreeToFlush())

    def _leave(self) -> None:
        self._end()
        self._member.step(MemberDisconnected(), self.now_us)
        self.outbox.clear()
        self.leave(BASE)

    # The session.

    def connected(self) -> None:
        """Joins the group, and then its members with view synchrony."""
        self.join(GROUP)
        self.join(BASE)

    def lost(self) -> None:
        """The membership is lost with the session."""
        self._member.step(MemberDisconnected(), self.now_us)
        self._end()

    def left(self, group: GroupName) -> None:
        """Joins again after a leave."""
        if group == BASE and self.attached:
            self.join(BASE)

    def ticked(self) -> None:
        """Goes on without late members."""
        if self.now_us >= self._member.wake_at_us:
            self._step(Tick())

    def viewed(self, view: View) -> None:
        """A base view of the group; the first one begins a stay."""
        if view.group != BASE:
            return
        own = view.cause == "join" and view.who == self.me
        if own:
            self._stays += 1
            self._stay = f"{self.name}/{self._stays}"
            self._note(StayBegan(self.now_us, self._stay, self.private_group))
        names = tuple([one.private_group for one in view.members])
        together = frozenset([one.private_group for one in view.together])
        joined_as = self.private_group if own else ""
        self._step(BaseView(view_key(view.id), names, together, view.primary, joined_as))

    def signalled(self, signal: Transition) -> None:
        """The signal of a base view."""
        if signal.group == BASE:
            self._step(BaseClosing(frozenset([one.private_group for one in signal.members])))

    def heard(self, sender: GroupName, _groups: tuple[GroupName, ...], payload: bytes, _place: Place) -> None:
        """A message, an agreement or an exclusion."""
        text, _, content = payload.decode().partition(" ")
        mark = decode_flush(text)
        if isinstance(mark, ViewMark):
            self._step(ViewMessage(sender, mark.view, content))
        elif isinstance(mark, AgreementMark):
            self._step(AgreementArrived(sender, mark.attempt, mark.leader))
        elif isinstance(mark, ExclusionMark):
            self._step(ExclusionArrived(sender, mark.attempt))

    # Outputs.

    def _step(self, event: Input) -> None:
        for output in self._member.step(event, self.now_us):
            self._carry_out(output)
        self.flush()

    def _carry_out(self, output: Output) -> None:
        now_us = self.now_us
        match output:
            case DeliverContent(_, content):
                assert isinstance(content, str), "payloads are text"
                self._note(ShownInView(now_us, self._stay, content))
            case InstallView():
                self._note(SynchronousView(now_us, self._stay, output.id, output.members, output.together))
                self._agents.cascades += not output.whole
            case AskToFlush():
                self._asked()
            case SendAgreement(attempt, leader):
                self._note(AgreementSent(now_us, self._stay, attempt))
                self._queue(AgreementMark(attempt, leader))
            case SendExclusion(attempt):
                self._queue(ExclusionMark(attempt))
            case GiveUp():
                self._agents.given_up += 1
                self._end()
                self.outbox.clear()
                self.leave(BASE)

    def _queue(self, mark: FlushMark) -> None:
        self.outbox.append(AgentMessage((BASE,), f"{encode_flush(mark)} ".encode()))

    def _end(self) -> None:
        if self._stay:
            self._note(StayEnded(self.now_us, self._stay))
            self._stay = ""

    def _note(self, event: FlushEvent) -> None:
        self._agents.history.append(event)


class FlushAgents(BlockAgents):
    """All members of the group."""

    def __init__(self, cluster: SimBlockCluster) -> None:
        super().__init__(cluster)
        self.history: list[FlushEvent] = []
        self.cascades = 0  # Views that follow several base views, or leave members behind.
        self.given_up = 0
        self._made: list[FlushAgent] = []

    def make(self, count: int, dice: Random) -> list[FlushAgent]:
        """Makes the agents of the group."""
        self._made = [FlushAgent(self, number, dice) for number in range(1, count + 1)]
        return self._made

    def judge(self, quiet_end: bool) -> list[Verdict]:
        """The properties of view synchrony."""
        return check_view_synchrony(self.history, self._components() if quiet_end else None)

    def record(self, quiet_end: bool) -> list[FlushEvent]:
        """The history, and who can reach each other at its end."""
        now_us = self.cluster.engine.now_us
        known = self._components() if quiet_end else []
        return [*self.history, *[MembersAtEnd(now_us, names) for names in known]]

    def _components(self) -> list[tuple[str, ...]]:
        """The members by component, as the daemons of the agents know them."""
        homes = [one.home for one in self._made if one.home is not None and one.attached]
        return sorted(
            {tuple([member.private_group for member in self.cluster.members_at(home, BASE)]) for home in homes}
        )


FLUSH: Final = BlockKind("flush", 60, FlushAgents)
