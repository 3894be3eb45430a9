"""A cluster with agents: client processes that run the pure cores of blocks (blocks/) on simulated sessions.

An agent is a client process. It has a session at a daemon, and connects again elsewhere when that daemon has
crashed or when it moves. Messages, views, signals and receipts take LATENCY_US from its daemon to it, in order.
Each kind of agents is a module of sim/blocks/ and a row of the table there, with its own history and checks.
"""

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import ClassVar, Final

from hopring.check.properties.property import Verdict
from hopring.client.events import Member, Suspended, Transition, View, minimum_of
from hopring.engine import Delivered
from hopring.groups.events import (
    DeliverBundle,
    GroupView,
    LeftGroup,
    Send,
    ShowRetained,
    ShowSignal,
    ShowView,
)
from hopring.groups.names import GroupMember
from hopring.groups.payloads import is_group_message
from hopring.groups.private_groups import private_group
from hopring.ids import NEVER, GroupName, Place
from hopring.services import Service
from hopring.session.lock_frames import LockOutput
from hopring.sim.client_cluster import NAME, SimClientCluster, SimClientDaemon, first_name
from hopring.sim.network import HostState
from hopring.wire.bundle import BundleKey, decode_bundle

LATENCY_US: Final = 200
TICK_US: Final = 10_000
CONNECT_US: Final = (5_000, 80_000)


@dataclass(frozen=True, slots=True)
class AgentMessage:
    """A message that an agent sends."""

    groups: tuple[GroupName, ...]
    payload: bytes
    service: Service = Service.AGREED
    receipt: object = None  # Handed to `placed` when the message has its place in the order; None: not wanted.
    self_discard: bool = False
    retain: bool = False
    ttl_us: int = NEVER


class BlockAgent:
    """One client process. Subclasses run cores in the hooks, and append to `outbox` what these send."""

    WANTS_VIEWS: ClassVar[bool] = True  # Whether `viewed`, `signalled` and `left` are called.
    impatient: bool = False  # Its messages to suspended groups are refused.

    def __init__(self, cluster: "SimBlockCluster", name: str, dice: Random) -> None:
        self.name = name
        self.cluster = cluster
        self.dice = dice
        self.home: SimClientDaemon | None = None
        self.session = 0
        self.outbox: deque[AgentMessage] = deque()
        self._awaited: dict[
            bytes, tuple[object, GroupName]
        ] = {}  # By name of the message: receipt, first group.

    # Hooks.

    def act(self) -> None:
        """The application does something. The workload calls this again and again, and sometimes `move`."""
        raise NotImplementedError

    def connected(self) -> None:
        """A session has begun: join groups."""
        raise NotImplementedError

    def lost(self) -> None:
        """The session is gone; what was in the outbox is lost with it. Another session follows."""

    def ticked(self) -> None:
        """Called every TICK_US: look at `wake_at_us` of the cores."""

    def heard(self, sender: GroupName, groups: tuple[GroupName, ...], payload: bytes, place: Place) -> None:
        """A message to this session or to one of its groups arrived."""

    def viewed(self, view: View) -> None:
        """A view of a group arrived."""

    def signalled(self, signal: Transition) -> None:
        """A transitional signal of a group arrived."""

    def suspended(self, event: Suspended) -> None:
        """The signal before said that the group is suspended."""

    def kept(self, payload: bytes, place: Place) -> None:
        """The retained value of a group that was joined, or came by a merge, arrived."""

    def dropped(self, receipt: object) -> None:
        """A message was not sent: its time to live has ended, or its group is suspended."""

    def left(self, group: GroupName) -> None:
        """The session's own leave is done."""

    def told(self, output: LockOutput) -> None:
        """The daemon's word on a lock arrived."""

    def placed(self, receipt: object, members: tuple[Member, ...], view_counter: int) -> None:
        """A receipt arrived: the members of the message's first group at its place in the order."""

    # Connections.

    @property
    def now_us(self) -> int:
        """The present moment of virtual time."""
        return self.cluster.engine.now_us

    @property
    def me(self) -> Member | None:
        """This session as a member, while it has one."""
        home = self.home
        return None if home is None else Member(home.name, self.name, home.me.incarnation, self.session)

    @property
    def private_group(self) -> GroupName:
        """The private group of the present session."""
        assert self.home is not None, "it is connected"
        return private_group(self.name, self.home.name)

    @property
    def attached(self) -> bool:
        """Whether the session's daemon still lives; the agent notices at its next tick if not."""
        return self.home is not None and self.cluster.hosts.get(self.home.name) is self.home

    @property
    def can_send(self) -> bool:
        """Whether the daemon takes a message now."""
        home = self.home
        return (
            home is not None
            and self.attached
            and self._runs(home)
            and home.groups.requests.accepts(self.session)
        )

    def connect(self) -> None:
        """Connects to any running daemon, or tries again later."""
        cluster = self.cluster
        names = sorted([name for name in cluster.hosts if self._runs(cluster.client_host(name))])
        host = cluster.client_host(self.dice.choice(names)) if names else None
        session = None if host is None else host.connect(self.name, self.impatient)
        if host is None or session is None:
            self._later(self.connect)
            return
        self.home, self.session = host, session
        cluster.agents[host.process, session] = self
        self.connected()
        self.flush()

    def move(self) -> None:
        """Ends the session and connects elsewhere."""
        if self.home is not None and self._runs(self.home):
            self.home.disconnect(self.session)
            self._lose()

    def tick(self) -> None:
        """Looks at the clock and at the connection, and does so again."""
        if self.home is not None and not self.attached:
            self._lose()
        self.ticked()
        self.flush()
        self.cluster.engine.after(TICK_US, self.tick)

    def _lose(self) -> None:
        assert self.home is not None, "it was connected"
        self.cluster.agents.pop((self.home.process, self.session), None)
        self.home = None
        self._awaited.clear()
        self.outbox.clear()
        self.lost()
        self._later(self.connect)

    def _later(self, what: Callable[[], None]) -> None:
        self.cluster.engine.after(self.dice.randint(*CONNECT_US), what)

    def _runs(self, host: SimClientDaemon) -> bool:
        return self.cluster.network.host(host.name).state is HostState.RUNNING

    # Output.

    def join(self, group: GroupName, minimum: int = 0) -> None:
        """Asks the daemon for a join."""
        assert self.home is not None, "it is connected"
        self.home.join(self.session, group, minimum)

    def leave(self, group: GroupName) -> None:
        """Asks the daemon for a leave."""
        assert self.home is not None, "it is connected"
        self.home.leave(self.session, group)

    def flush(self) -> None:
        """Sends what the daemon takes now; the next tick tries again."""
        while self.outbox and self.can_send:
            self.send(self.outbox.popleft())

    def send(self, message: AgentMessage) -> None:
        """Sends a message; the daemon takes it."""
        home = self.home
        assert home is not None, "look at can_send first"
        listed = message.receipt is not None
        parts = home.me.daemon, self.session, message.service, message.groups
        key = BundleKey(*parts, message.self_discard, listed=listed, retained=message.retain)
        if listed:
            # Before it is sent: alone in its view, a daemon delivers it at once.
            self._awaited[home.next_name(self.session)] = message.receipt, message.groups[0]
        deadline_us = NEVER if message.ttl_us == NEVER else self.now_us + message.ttl_us
        home.send(key, (len(message.payload),), (), (message.payload,), deadline_us)

    # Events of the session; each takes a while to get here.

    def awaited(self, name: bytes) -> tuple[object, GroupName] | None:
        """The receipt that is awaited for this message, and the message's first group."""
        return self._awaited.pop(name, None)

    def arrive(self, session: int, hook: Callable[..., None], *what: object) -> None:
        """Calls a hook if this session is still the present one."""
        if session == self.session and self.home is not None:
            hook(*what)
            self.flush()


class BlockAgents(ABC):
    """All agents of one kind in a world: their history, and its judgement."""

    def __init__(self, cluster: "SimBlockCluster") -> None:
        self.cluster = cluster

    @abstractmethod
    def make(self, count: int, dice: Random) -> Sequence[BlockAgent]:
        """Makes the agents; called once."""

    @abstractmethod
    def judge(self, quiet_end: bool) -> list[Verdict]:
        """A verdict for each property of the kind."""

    def record(self, _quiet_end: bool) -> Sequence[object]:
        """The events of the kind for the trace, in real order, with those that are known at the end only."""
        return ()


@dataclass(frozen=True, slots=True)
class BlockKind:
    """A row of the table of kinds."""

    name: str
    per_second: int  # Actions of all agents together.
    agents: Callable[["SimBlockCluster"], BlockAgents]
    unjudged: tuple[GroupName, ...] = ()  # Groups whose messages only this kind judges.


class SimBlockCluster(SimClientCluster):
    """A simulated cluster with agents."""

    quiet_us: int = NEVER  # From then on agents end what would go on for ever, such as leases of locks.

    def start_agents(
        self, kinds: Sequence[BlockKind], count: int, dice: Random
    ) -> dict[str, Sequence[BlockAgent]]:
        """Makes this many agents of each kind, and returns them by the name of the kind."""
        self.agents: dict[object, BlockAgent] = {}  # By process and session.
        self.unjudged = frozenset([group for kind in kinds for group in kind.unjudged])
        self.blocks = {kind.name: kind.agents(self) for kind in kinds}
        made = {name: block.make(count, dice) for name, block in self.blocks.items()}
        for agents in made.values():
            for agent in agents:
                self.engine.after(dice.randint(*CONNECT_US), agent.connect)
                self.engine.after(TICK_US, agent.tick)
        return made

    def members_at(self, host: SimClientDaemon, group: GroupName) -> tuple[Member, ...]:
        """The members of a group, as this daemon knows them."""
        known = host.groups.table.groups.get(group)
        return () if known is None else self.members(tuple(known.listed()))

    def members(self, some: Sequence[GroupMember]) -> tuple[Member, ...]:
        """Members as clients see them."""
        names = self.names
        return tuple([Member(names[one.daemon], one.name, one.incarnation, one.session) for one in some])

    def heard(self, host: SimClientDaemon, session: int, output: DeliverBundle, at: int) -> None:
        """Gives a message to the agent whose session it is for."""
        agent = self.agents.get((host.process, session))
        if agent is None:
            return
        bundle = output.bundle
        payload = bytes(bundle.message(at)[NAME.size :])
        what = output.sender, bundle.groups_of(at), payload, Place(output.view, *output.position)
        self.engine.after(LATENCY_US, agent.arrive, session, agent.heard, *what)

    def ordered(self, host: SimClientDaemon, output: Delivered) -> None:
        """Gives the receipt of an agent's message to it, with the members at this place in the order."""
        session = output.message.session
        agent = self.agents.get((host.process, session)) if output.sender == host.me else None
        if agent is None or is_group_message(output.message.payload):
            return
        awaited = agent.awaited(first_name(output.message.payload))
        if awaited is not None:
            receipt, group = awaited
            what = receipt, self.members_at(host, group), output.view.counter
            self.engine.after(LATENCY_US, agent.arrive, session, agent.placed, *what)

    def shown(self, host: SimClientDaemon, output: ShowView | ShowSignal | LeftGroup) -> None:
        """Gives a view, a signal or the end of a leave to the agents that it is for."""
        sessions = (output.session,) if isinstance(output, LeftGroup) else output.sessions
        for session in sessions:
            agent = self.agents.get((host.process, session))
            if agent is None or not agent.WANTS_VIEWS:
                continue
            if isinstance(output, ShowView):
                what: tuple[Callable[..., None], object] = (agent.viewed, self._view(output.view))
            elif isinstance(output, ShowSignal):
                signal = Transition(output.group, output.id, self.members(output.together))
                what = (agent.signalled, signal)
            else:
                what = (agent.left, output.group)
            self.engine.after(LATENCY_US, agent.arrive, session, *what)
            if isinstance(output, ShowSignal) and output.suspended:
                parts = output.group, output.id, self.members(output.together), minimum_of(output.minimum)
                self.engine.after(LATENCY_US, agent.arrive, session, agent.suspended, Suspended(*parts))

    def retained(self, host: SimClientDaemon, output: ShowRetained) -> None:
        """Gives a retained value to the agents that it is for."""
        bundle = decode_bundle(output.value.bundle)
        payload = bytes(bundle.message(0)[NAME.size :])
        for session in output.sessions:
            agent = self.agents.get((host.process, session))
            if agent is not None:
                what = payload, output.value.place
                self.engine.after(LATENCY_US, agent.arrive, session, agent.kept, *what)

    def expired(self, host: SimClientDaemon, send: Send) -> None:
        """Tells an agent that its message has expired."""
        self._dropped(host, send)

    def refused(self, host: SimClientDaemon, send: Send) -> None:
        """Tells an agent that its message was refused."""
        self._dropped(host, send)

    def _dropped(self, host: SimClientDaemon, send: Send) -> None:
        agent = self.agents.get((host.process, send.session))
        name = bytes(decode_bundle(send.bundle).message(0)[: NAME.size])
        awaited = None if agent is None else agent.awaited(name)
        if agent is not None and awaited is not None:
            self.engine.after(LATENCY_US, agent.arrive, send.session, agent.dropped, awaited[0])

    def locked(self, host: SimClientDaemon, output: LockOutput) -> None:
        """Gives the word about a lock to the agent that it is for."""
        agent = self.agents.get((host.process, output.session))
        if agent is not None:
            self.engine.after(LATENCY_US, agent.arrive, output.session, agent.told, output)

    def _view(self, view: GroupView) -> View:
        return View(
            view.group,
            view.id,
            self.members(view.members),
            self.members(view.together),
            view.cause.value,
            None if view.who is None else self.members((view.who,))[0],
            tuple([self.members(some) for some in view.sets]),
            view.primary,
            view.suspended,
            minimum_of(view.minimum),
        )
