"""Agents whose group has a state: the core of state transfer on simulated sessions.

The state of an agent is the list of operations that it has applied. Agents die and come back without state,
leave and join again, and in some worlds merge states; now and then a snapshot fails.
"""

import json
from collections.abc import Iterator, Sequence
from random import Random
from typing import Final

from hopring.blocks.snapshot import TransferSizes
from hopring.blocks.state_events import (
    BeginAnew,
    BeginsHere,
    GiveEvent,
    GroupMarkShown,
    Input,
    MemberMarkArrived,
    NobodySpeaks,
    OperationShown,
    SendMark,
    SessionLost,
    SnapshotRefused,
    SnapshotTaken,
    Standing,
    TakeSnapshot,
    TakeState,
    ViewShown,
)
from hopring.blocks.state_header import (
    ChunkMark,
    ClaimMark,
    EndMark,
    TakenMark,
    decode_claim,
    decode_state,
    encode_state,
)
from hopring.blocks.state_transfer import StateTransfer, place_key
from hopring.check.properties.property import Verdict
from hopring.check.state import (
    BecameReady,
    OperationApplied,
    RoundBegan,
    Spoke,
    State,
    StateAtEnd,
    StateEvent,
    check_state,
)
from hopring.client.events import Transition, View
from hopring.ids import GroupName, Place
from hopring.services import Service
from hopring.sim.block_cluster import AgentMessage, BlockAgent, BlockAgents, BlockKind, SimBlockCluster

GROUP: Final = GroupName("state")
SIZES: Final = TransferSizes(chunk_bytes=200, window_chunks=4, receipt_chunks=2)
SERVICES: Final = (Service.AGREED, Service.AGREED, Service.CAUSAL, Service.SAFE)
DEATHS, LEAVES, FAILURES = 0.02, 0.02, 0.02
"""Shares of the actions; the others are operations."""

STUCK_US: Final = 200_000
"""After this time in which nobody has a state, an agent begins anew."""


def merged(states: Sequence[State]) -> State:
    """The longest state, and what the others have besides."""
    first, *others = sorted(states, key=lambda state: (-len(state), state))
    return first + tuple(sorted({one for state in others for one in state} - set(first)))


class StateAgent(BlockAgent):
    """One client process with a state."""

    def __init__(self, agents: "StateAgents", number: int, dice: Random) -> None:
        super().__init__(agents.cluster, f"state{number}", dice)
        self._agents = agents
        self._operations = 0
        self._dying = False
        self._fails = False
        self._gives_up = False
        self.view = ""  # The last of the group.
        self._stuck_us: int | None = None
        self._begin_life()

    def _begin_life(self) -> None:
        self.core = StateTransfer(self._agents.merges, SIZES)
        self.state: State | None = None

    # The application.

    def act(self) -> None:
        """Sends an operation, dies, leaves, or lets its next snapshot fail."""
        chance = self.dice.random()
        if chance < DEATHS:
            self._dying = True
            self.move()
            self._dying = False
        elif chance < DEATHS + LEAVES:
            if self.can_send and GROUP in self._joined():
                self.leave(GROUP)
        elif chance < DEATHS + LEAVES + FAILURES:
            self._fails = True
        else:
            self._operations += 1
            text = f"{self.name}.{self._operations}"
            self.outbox.append(AgentMessage((GROUP,), f"op {text}".encode(), self.dice.choice(SERVICES)))
            self.flush()

    def _joined(self) -> set[GroupName]:
        return set() if self.home is None else self.home.sessions.get(self.session, set())

    def _snapshot(self) -> Iterator[bytes]:
        fails, self._fails = self._fails, False
        data = json.dumps(self.state).encode()

        def parts() -> Iterator[bytes]:
            yield data[: len(data) // 2]
            if fails:
                raise ValueError("no memory")
            yield data[len(data) // 2 :]

        return parts()

    # The session.

    def connected(self) -> None:
        """Joins the group with the state."""
        self.join(GROUP)

    def lost(self) -> None:
        """A process that lives keeps its state."""
        self._step(SessionLost())
        if self._dying:
            self._begin_life()

    def left(self, _group: GroupName) -> None:
        """Forgets the state, and joins again."""
        self._begin_life()
        self.join(GROUP)

    def ticked(self) -> None:
        """Begins anew if nobody has a state."""
        if self._gives_up and self.can_send and GROUP in self._joined():
            # As a program does that gets the error.
            self._gives_up = False
            self.leave(GROUP)
        if not self.core.stuck:
            self._stuck_us = None
        elif self._stuck_us is None:
            self._stuck_us = self.now_us
        elif self.now_us - self._stuck_us > STUCK_US:
            self._stuck_us = None
            self._step(BeginAnew())

    def viewed(self, view: View) -> None:
        """A view of the group arrives."""
        self.view = str(view.id)
        self._step(ViewShown(view, self.private_group))

    def signalled(self, signal: Transition) -> None:
        """A signal of the group arrives."""
        self._step(OperationShown(signal))

    def heard(self, sender: GroupName, _groups: tuple[GroupName, ...], payload: bytes, place: Place) -> None:
        """An operation, or a message of the transfer."""
        head, _, data = payload.partition(b" ")
        if head == b"op":
            self._step(OperationShown((data.decode(), place_key(place)), place))
            return
        mark = decode_state(head.decode())
        if isinstance(mark, ChunkMark | EndMark | TakenMark):
            self._step(MemberMarkArrived(sender, mark, data))
        elif mark is not None:
            self._step(GroupMarkShown(sender, mark, data))

    # Outputs.

    def _step(self, event: Input) -> None:
        before = self.core.round
        for output in self.core.step(event):
            if isinstance(output, GiveEvent):
                self._released(output)
            elif isinstance(output, TakeSnapshot):
                self._take_snapshot()
            elif isinstance(output, SendMark):
                self._send_mark(output)
            elif isinstance(output, TakeState):
                states = [tuple(json.loads(one)) for one in output.states]
                self.state = merged(states) if output.merged else states[0]
                self._became_ready(output.sources)
            elif isinstance(output, BeginsHere):
                self.state = ()
                self._became_ready(())
            elif isinstance(output, NobodySpeaks):
                self._gives_up = True
        at = self.core.round
        if at is not None and at is not before and self.state is not None:
            self._note(RoundBegan(self.now_us, self.private_group, at.name, self.state))
        self.flush()

    def _take_snapshot(self) -> None:
        if self.state is None:
            # Only a planted bug lets a member without a state speak.
            self._step(SnapshotTaken(iter([b"[]"])))
        elif self._fails and self.dice.random() < 0.5:
            self._fails = False
            self._step(SnapshotRefused("no memory"))
        else:
            self._step(SnapshotTaken(self._snapshot()))

    def _released(self, output: GiveEvent) -> None:
        if isinstance(output.item, tuple) and self.state is not None and not isinstance(output.item, View):
            operation, place = output.item
            self.state = (*self.state, operation)
            parts = self.now_us, self.name, operation, place, output.settled, self.state
            self._note(OperationApplied(*parts))

    def _became_ready(self, sources: tuple[tuple[str, str], ...]) -> None:
        assert self.state is not None, "it took one"
        self._note(BecameReady(self.now_us, self.private_group, sources, self.state))
        self._agents.transfers += bool(sources)

    def _send_mark(self, output: SendMark) -> None:
        if isinstance(output.mark, ClaimMark):
            claim = decode_claim(output.data)
            if claim is not None and claim.standing >= Standing.FORMER:
                self._note(Spoke(self.now_us, self.private_group, output.mark.round, claim.of))
        group = GroupName(output.to) if output.to else GROUP
        service = Service.FIFO if output.to else Service.AGREED
        payload = encode_state(output.mark).encode() + b" " + output.data
        self.outbox.append(AgentMessage((group,), payload, service))

    def _note(self, event: StateEvent) -> None:
        self._agents.history.append(event)


class StateAgents(BlockAgents):
    """All agents of the group with a state."""

    def __init__(self, cluster: SimBlockCluster) -> None:
        super().__init__(cluster)
        self.history: list[StateEvent] = []
        self.transfers = 0  # States that members took.
        self.merges = False
        self.agents: list[StateAgent] = []

    def make(self, count: int, dice: Random) -> list[StateAgent]:
        """Makes the agents; all of them merge states, or none."""
        self.merges = dice.random() < 0.4
        self.agents = [StateAgent(self, number, dice) for number in range(1, count + 1)]
        return self.agents

    def judge(self, quiet_end: bool) -> list[Verdict]:
        """The properties of state transfer."""
        return check_state(self.record(quiet_end), quiet_end, merged)

    def record(self, _quiet_end: bool) -> list[StateEvent]:
        """The history, and the state of each agent at its end."""
        now_us = self.cluster.engine.now_us
        ends = [
            StateAtEnd(now_us, one.name, one.view, one.state if one.core.ready else None) for one in self.agents
        ]
        return [*self.history, *ends]


STATE: Final = BlockKind("state", 40, StateAgents)
