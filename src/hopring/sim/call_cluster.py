"""A cluster whose clients call each other: the pure cores of request and reply (blocks/) on simulated sessions.

An agent is a client process: a caller, and perhaps a server. It has a session at a daemon, and connects again
elsewhere when that daemon has crashed or when it moves. Everything between an agent and its daemon takes
LATENCY_US, in order. The content of each call goes with the request and comes back with the reply, so that a
reply to another call is seen.
"""

from collections import Counter, deque
from collections.abc import Callable
from random import Random
from typing import Final

from hopring.blocks import caller as calling
from hopring.blocks.call_header import (
    CallMark,
    FenceMark,
    ReplyResult,
    RequestMark,
    decode_call,
    encode_call,
)
from hopring.blocks.caller import Caller, CallOutcome
from hopring.blocks.serving import CallerKey, HandlerEnded, RequestArrived, RunHandler, SendReply, Server
from hopring.check.calls import (
    CallEvent,
    CallMade,
    CallOver,
    ReplySent,
    ReplyTaken,
    RequestDelivered,
    RequestDone,
)
from hopring.client.events import ALL, MAJORITY, Member, Quorum, Reply
from hopring.engine import Delivered
from hopring.groups.events import DeliverBundle
from hopring.groups.payloads import is_group_message
from hopring.groups.private_groups import private_group, split_private
from hopring.ids import NEVER, GroupName, Place
from hopring.links.events import Tick
from hopring.services import Service
from hopring.sim.client_cluster import NAME, SimClientCluster, SimClientDaemon, first_name
from hopring.sim.network import HostState
from hopring.wire.bundle import BundleKey

SERVERS: Final = GroupName("calls?servers")
LATENCY_US: Final = 200
TICK_US: Final = 10_000
CONNECT_US: Final = (5_000, 80_000)
HANDLER_US: Final = (0, 60_000)
DEADLINE_US: Final = 400_000
WAITS: Final[tuple[int | Quorum, ...]] = (1, 1, 2, MAJORITY, ALL)
DEADLINES: Final = 0.2
"""The share of calls with a deadline; the others have to end by themselves."""


class CallAgent:
    """One client process that calls, and perhaps serves."""

    def __init__(self, cluster: "SimCallCluster", number: int, serves: bool, dice: Random) -> None:
        self.name = f"call{number}"
        self.caller_id = f"{number:016x}"
        self._cluster = cluster
        self._dice = dice
        self._home: SimClientDaemon | None = None
        self._session = 0
        self._caller = Caller()
        self._caller.step(calling.CallsInterrupted(), 0)
        self._server = Server() if serves else None
        self._serial = 0
        self._contents: dict[tuple[CallerKey, int], str] = {}  # Of requests that are being handled.
        self._requests: dict[int, str] = {}  # The contents of open calls.
        self._unsent: deque[calling.SendCall | calling.SendFence | SendReply] = deque()
        self._placing: dict[bytes, int] = {}  # Requests without a receipt, by the name of the message.

    # The application.

    def call(self) -> None:
        """Makes a call with a content of its own."""
        dice, now_us = self._dice, self._cluster.engine.now_us
        self._serial += 1
        content = f"{self.name}.{dice.getrandbits(30)}"
        self._requests[self._serial] = content
        self._note(CallMade(now_us, self.caller_id, self._serial, content))
        deadline_us = now_us + DEADLINE_US if dice.random() < DEADLINES else NEVER
        wait = dice.choice(WAITS)
        patient = dice.random() < 0.2
        self._step(calling.StartCall(self._serial, "calls", wait, deadline_us, patient))

    # Connections.

    def connect(self) -> None:
        """Connects to any running daemon, or tries again later."""
        names = sorted([name for name in self._cluster.hosts if self._runs(self._cluster.client_host(name))])
        host = self._cluster.client_host(self._dice.choice(names)) if names else None
        session = None if host is None else host.connect(self.name)
        if host is None or session is None:
            self._later(self.connect)
            return
        self._home, self._session = host, session
        self._cluster.agents[host.process, session] = self
        if self._server is not None:
            host.join(session, SERVERS)
        self._step(calling.CallsResumed())

    def move(self) -> None:
        """Ends the session and connects elsewhere."""
        if self._home is not None and self._runs(self._home):
            self._home.disconnect(self._session)
            self._lose()

    def tick(self) -> None:
        """Looks at the clock and at the connection, and does so again."""
        if self._home is not None and self._cluster.hosts.get(self._home.name) is not self._home:
            self._lose()
        if self._cluster.engine.now_us >= self._caller.wake_at_us:
            self._step(Tick())
        self._flush()
        self._cluster.engine.after(TICK_US, self.tick)

    def _lose(self) -> None:
        assert self._home is not None, "it was connected"
        self._cluster.agents.pop((self._home.process, self._session), None)
        self._home = None
        self._placing.clear()
        self._unsent = deque([one for one in self._unsent if isinstance(one, SendReply)])
        self._step(calling.CallsInterrupted())
        self._later(self.connect)

    def _later(self, what: Callable[[], None]) -> None:
        self._cluster.engine.after(self._dice.randint(*CONNECT_US), what)

    def _runs(self, host: SimClientDaemon) -> bool:
        return self._cluster.network.host(host.name).state is HostState.RUNNING

    # Events of the session; each takes a while to get here.

    def expects(self, name: bytes) -> bool:
        """Whether a receipt for this message is awaited."""
        return name in self._placing

    def placed(self, session: int, name: bytes, servers: tuple[Member, ...], view_counter: int) -> None:
        """The receipt of a request arrives."""
        serial = self._placing.pop(name, None)
        if session == self._session and self._home is not None and serial is not None:
            self._step(calling.CallPlaced((serial,), servers, len(servers), view_counter))

    def heard(self, session: int, sender: GroupName, payload: bytes, place: Place) -> None:
        """A message for this session."""
        text, _, content = payload.decode().partition(" ")
        mark = decode_call(text)
        if session != self._session or self._home is None or mark is None:
            return
        if isinstance(mark, FenceMark):
            self._step(calling.FenceReturned(mark.number))
        elif isinstance(mark, RequestMark):
            self._request(sender, mark, content)
        elif mark.caller == self.caller_id:
            error = "" if mark.result is ReplyResult.DONE else mark.result.name
            self._step(
                calling.ReplyArrived(mark.serial, Reply(sender, content.encode(), place, mark.again, error))
            )

    def _request(self, sender: GroupName, mark: RequestMark, content: str) -> None:
        if self._server is None:
            return
        now_us = self._cluster.engine.now_us
        self._note(RequestDelivered(now_us, self.name, mark.caller, mark.serial))
        key = (split_private(sender)[0], mark.caller)
        for output in self._server.step(RequestArrived(key, mark, sender)):
            if isinstance(output, RunHandler):
                self._note(RequestDone(now_us, self.name, mark.caller, mark.serial))
                self._contents[key, mark.serial] = content
                delay_us = self._dice.randint(*HANDLER_US)
                self._cluster.engine.after(delay_us, self._handled, key, mark.serial)
            else:
                self._unsent.append(output)
        self._flush()

    def _handled(self, key: CallerKey, serial: int) -> None:
        assert self._server is not None, "it serves"
        content = self._contents.pop((key, serial)).encode()
        for output in self._server.step(HandlerEnded(key, serial, ReplyResult.DONE, content)):
            assert isinstance(output, SendReply), "a handler that is done has nothing else to do"
            self._unsent.append(output)
        self._flush()

    # Outputs.

    def _step(self, event: calling.Input) -> None:
        now_us = self._cluster.engine.now_us
        for output in self._caller.step(event, now_us):
            if isinstance(output, calling.AcceptReply):
                content, server = output.reply.data.decode(), split_private(GroupName(output.reply.server))[0]
                if not output.reply.failed:
                    self._note(ReplyTaken(now_us, self.caller_id, output.serial, server, content))
            elif isinstance(output, calling.CallEnded):
                del self._requests[output.serial]
                self._note(CallOver(now_us, self.caller_id, output.serial))
                self._cluster.outcomes[output.outcome] += 1
            elif isinstance(output, calling.AskServers):
                self._cluster.engine.after(LATENCY_US, self._ask, self._session)
            else:
                self._unsent.append(output)
        self._flush()

    def _ask(self, session: int) -> None:
        home = self._home
        if home is None or session != self._session or self._cluster.hosts.get(home.name) is not home:
            return
        group = home.groups.table.groups.get(SERVERS)
        servers = self._cluster.servers_at(home)
        counter = 0 if group is None else group.id.view.counter
        self._cluster.engine.after(LATENCY_US, self._known, session, frozenset(servers), counter)

    def _known(self, session: int, servers: frozenset[Member], counter: int) -> None:
        if self._home is not None and session == self._session:
            self._step(calling.ServersKnown("calls", servers, counter))

    def _flush(self) -> None:
        home = self._home
        while self._unsent and home is not None and self._cluster.hosts.get(home.name) is home:
            if not self._runs(home) or not home.groups.accepts(self._session):
                return  # The next tick tries again.
            self._send(home, self._unsent.popleft())

    def _send(self, home: SimClientDaemon, output: calling.SendCall | calling.SendFence | SendReply) -> None:
        now_us = self._cluster.engine.now_us
        mark: CallMark
        if isinstance(output, SendReply):
            again = output.mark.again or output.mark.result is not ReplyResult.DONE
            self._note(ReplySent(now_us, self.name, output.mark.caller, output.mark.serial, again))
            mark, content, group = output.mark, output.data.decode(), GroupName(output.to)
        elif isinstance(output, calling.SendFence):
            mark, content = FenceMark(self.caller_id, output.number), ""
            group = private_group(self.name, home.name)
        elif output.serial in self._requests:
            low = min(self._caller.low, output.serial)
            mark = RequestMark(self.caller_id, output.serial, low, output.sending)
            content, group = self._requests[output.serial], SERVERS
        else:
            return  # It ended meanwhile.
        # Like the library's, bundles of requests are not merged with others, and have a receipt each.
        listed = isinstance(output, calling.SendCall)
        key = BundleKey(home.me.daemon, self._session, Service.AGREED, (group,), listed=listed)
        payload = f"{encode_call(mark)} {content}".encode()
        if isinstance(output, calling.SendCall):
            # Before it is sent: alone in its view, a daemon delivers it at once.
            self._placing[home.next_name(self._session)] = output.serial
        home.send(key, (len(payload),), (), (payload,))

    def _note(self, event: CallEvent) -> None:
        self._cluster.call_history.append(event)


class SimCallCluster(SimClientCluster):
    """A simulated cluster with agents that call each other."""

    def start_agents(self, count: int, dice: Random) -> list[CallAgent]:
        """Makes the agents, of which at least one serves."""
        self.agents: dict[object, CallAgent] = {}  # By process and session.
        self.call_history: list[CallEvent] = []
        self.outcomes: Counter[CallOutcome] = Counter()
        made = [CallAgent(self, number, number % 3 != 0, dice) for number in range(1, count + 1)]
        for agent in made:
            self.engine.after(dice.randint(*CONNECT_US), agent.connect)
            self.engine.after(TICK_US, agent.tick)
        return made

    def servers_at(self, host: SimClientDaemon) -> tuple[Member, ...]:
        """The servers, as this daemon knows them."""
        group = host.groups.table.groups.get(SERVERS)
        members = () if group is None else group.listed()
        names = self.names
        return tuple([Member(names[one.daemon], one.name, one.incarnation, one.session) for one in members])

    def heard(self, host: SimClientDaemon, session: int, output: DeliverBundle, at: int) -> None:
        """Gives a message to the agent whose session it is for."""
        agent = self.agents.get((host.process, session))
        if agent is None:
            return
        payload = bytes(output.bundle.message(at)[NAME.size :])
        place = Place(output.view, *output.position)
        self.engine.after(LATENCY_US, agent.heard, session, output.sender, payload, place)

    def ordered(self, host: SimClientDaemon, output: Delivered) -> None:
        """Gives the receipt of an agent's request to it, with the servers at this place in the order."""
        session = output.message.session
        agent = self.agents.get((host.process, session)) if output.sender == host.me else None
        if agent is None or is_group_message(output.message.payload):
            return
        name = first_name(output.message.payload)
        if agent.expects(name):
            counter = output.view.counter
            self.engine.after(LATENCY_US, agent.placed, session, name, self.servers_at(host), counter)
