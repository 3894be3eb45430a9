"""Agents that call each other: the cores of request and reply on simulated sessions.

An agent is a caller, and perhaps a server. The content of each call goes with the request and comes back with
the reply, so that a reply to another call is seen.
"""

from collections import Counter, deque
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
    check_calls,
)
from hopring.check.properties.property import Verdict
from hopring.client.events import ALL, MAJORITY, Member, Quorum, Reply
from hopring.groups.private_groups import split_private
from hopring.ids import NEVER, GroupName, Place
from hopring.links.events import Tick
from hopring.sim.block_cluster import (
    LATENCY_US,
    AgentMessage,
    BlockAgent,
    BlockAgents,
    BlockKind,
    SimBlockCluster,
)

HANDLER_US: Final = (0, 60_000)
DEADLINE_US: Final = 400_000
WAITS: Final[tuple[int | Quorum, ...]] = (1, 1, 2, MAJORITY, ALL)
DEADLINES: Final = 0.2
"""The share of calls with a deadline; the others have to end by themselves."""


class CallAgent(BlockAgent):
    """One client process that calls, and perhaps serves."""

    WANTS_VIEWS = False
    NAME = "call"
    SERVERS = GroupName("calls?servers")

    def __init__(self, agents: "CallAgents", number: int, serves: bool, dice: Random) -> None:
        super().__init__(agents.cluster, f"{self.NAME}{number}", dice)
        self.caller_id = f"{number:016x}"
        self._agents = agents
        self._caller = Caller()
        self._caller.step(calling.CallsInterrupted(), 0)
        self._server = Server() if serves else None
        self._serial = 0
        self._contents: dict[tuple[CallerKey, int], str] = {}  # Of requests that are being handled.
        self._requests: dict[int, str] = {}  # The contents of open calls.
        # A call's mark is made when it is sent, and replies outlive a session: so they are not in the outbox.
        self._unsent: deque[calling.SendCall | calling.SendFence | SendReply] = deque()

    # The application.

    def act(self) -> None:
        """Makes a call with a content of its own."""
        dice, now_us = self.dice, self.now_us
        self._serial += 1
        content = f"{self.name}.{dice.getrandbits(30)}"
        self._requests[self._serial] = content
        self._note(CallMade(now_us, self.caller_id, self._serial, content))
        self._step(self.drawn_call(self._serial))

    def drawn_call(self, serial: int) -> calling.StartCall:
        """Draws what the application waits for."""
        dice = self.dice
        deadline_us = self.now_us + DEADLINE_US if dice.random() < DEADLINES else NEVER
        wait = dice.choice(WAITS)
        patient = dice.random() < 0.2
        return calling.StartCall(serial, self.SERVERS, wait, deadline_us, patient)

    def fence_at(self, place: Place) -> int | None:
        """With which fence this server may do what stands at this place; 0 if all servers do it."""
        del place
        return 0

    # The session.

    def connected(self) -> None:
        """Serves, and repeats open calls."""
        if self._server is not None:
            self.join(self.SERVERS)
        self._step(calling.CallsResumed())

    def lost(self) -> None:
        """Calls wait for the next session; replies do, too."""
        self._unsent = deque([one for one in self._unsent if isinstance(one, SendReply)])
        self._step(calling.CallsInterrupted())

    def ticked(self) -> None:
        """Deadlines, and questions for the servers."""
        if self.now_us >= self._caller.wake_at_us:
            self._step(Tick())

    def placed(self, receipt: object, members: tuple[Member, ...], view_counter: int) -> None:
        """The receipt of a request arrives."""
        assert isinstance(receipt, int), "the serial of the call"
        self._step(calling.CallPlaced((receipt,), members, len(members), view_counter))

    def heard(self, sender: GroupName, _groups: tuple[GroupName, ...], payload: bytes, place: Place) -> None:
        """A request, a reply, or a fence of this agent."""
        text, _, content = payload.decode().partition(" ")
        mark = decode_call(text)
        if mark is None:
            return
        if isinstance(mark, FenceMark):
            self._step(calling.FenceReturned(mark.number))
        elif isinstance(mark, RequestMark):
            self._request(sender, mark, content, self.fence_at(place))
        elif mark.caller == self.caller_id:
            error = "" if mark.result is ReplyResult.DONE else mark.result.name
            self._step(
                calling.ReplyArrived(mark.serial, Reply(sender, content.encode(), place, mark.again, error))
            )

    def _request(self, sender: GroupName, mark: RequestMark, content: str, fence: int | None) -> None:
        if self._server is None:
            return
        now_us = self.now_us
        self._note(RequestDelivered(now_us, self.name, mark.caller, mark.serial))
        key = (split_private(sender)[0], mark.caller)
        for output in self._server.step(RequestArrived(key, mark, sender, fence is not None)):
            if isinstance(output, RunHandler):
                handler = self.SERVERS if fence else ""
                call = mark.caller, mark.serial, mark.sending
                self._note(RequestDone(now_us, self.name, *call, handler, fence or 0))
                self._contents[key, mark.serial] = content
                delay_us = self.dice.randint(*HANDLER_US)
                self.cluster.engine.after(delay_us, self._handled, key, mark.serial)
            else:
                self._unsent.append(output)
        self.flush()

    def _handled(self, key: CallerKey, serial: int) -> None:
        assert self._server is not None, "it serves"
        content = self._contents.pop((key, serial)).encode()
        for output in self._server.step(HandlerEnded(key, serial, ReplyResult.DONE, content)):
            assert isinstance(output, SendReply), "a handler that is done has nothing else to do"
            self._unsent.append(output)
        self.flush()

    # Outputs.

    def _step(self, event: calling.Input) -> None:
        now_us = self.now_us
        for output in self._caller.step(event, now_us):
            if isinstance(output, calling.AcceptReply):
                content, server = output.reply.data.decode(), split_private(GroupName(output.reply.server))[0]
                if not output.reply.failed:
                    self._note(ReplyTaken(now_us, self.caller_id, output.serial, server, content))
            elif isinstance(output, calling.CallEnded):
                del self._requests[output.serial]
                self._note(CallOver(now_us, self.caller_id, output.serial))
                self._agents.outcomes[output.outcome] += 1
            elif isinstance(output, calling.AskServers):
                self.cluster.engine.after(LATENCY_US, self._ask, self.session)
            else:
                self._unsent.append(output)
        self.flush()

    def _ask(self, session: int) -> None:
        home = self.home
        if home is None or session != self.session or not self.attached:
            return
        group = home.groups.table.groups.get(self.SERVERS)
        servers = self.cluster.members_at(home, self.SERVERS)
        counter = 0 if group is None else group.id.view.counter
        self.cluster.engine.after(LATENCY_US, self._known, session, frozenset(servers), counter)

    def _known(self, session: int, servers: frozenset[Member], counter: int) -> None:
        if self.home is not None and session == self.session:
            self._step(calling.ServersKnown(self.SERVERS, servers, counter))

    def flush(self) -> None:
        """Sends calls, fences and replies."""
        while self._unsent and self.can_send:
            message = self._message(self._unsent.popleft())
            if message is not None:
                self.send(message)

    def _message(self, output: calling.SendCall | calling.SendFence | SendReply) -> AgentMessage | None:
        """The message of an output; None if its call has ended meanwhile."""
        mark: CallMark
        serial: int | None = None
        if isinstance(output, SendReply):
            again = output.mark.again or output.mark.result is not ReplyResult.DONE
            self._note(ReplySent(self.now_us, self.name, output.mark.caller, output.mark.serial, again))
            mark, content, group = output.mark, output.data.decode(), GroupName(output.to)
        elif isinstance(output, calling.SendFence):
            mark, content, group = FenceMark(self.caller_id, output.number), "", self.private_group
        elif output.serial in self._requests:
            serial = output.serial
            low = min(self._caller.low, serial)
            mark = RequestMark(self.caller_id, serial, low, output.sending)
            content, group = self._requests[serial], self.SERVERS
        else:
            return None
        return AgentMessage((group,), f"{encode_call(mark)} {content}".encode(), receipt=serial)

    def _note(self, event: CallEvent) -> None:
        self._agents.history.append(event)


class CallAgents(BlockAgents):
    """All agents that call each other."""

    KIND: type[CallAgent] = CallAgent

    def __init__(self, cluster: SimBlockCluster) -> None:
        super().__init__(cluster)
        self.history: list[CallEvent] = []
        self.outcomes: Counter[CallOutcome] = Counter()

    def make(self, count: int, dice: Random) -> list[CallAgent]:
        """Makes the agents, of which at least one serves."""
        return [self.KIND(self, number, number % 3 != 0, dice) for number in range(1, count + 1)]

    def judge(self, quiet_end: bool) -> list[Verdict]:
        """The properties of requests and replies."""
        return check_calls(self.history, quiet_end)

    def record(self, _quiet_end: bool) -> list[CallEvent]:
        """The history of all agents, as it is."""
        return self.history


CALLS: Final = BlockKind("calls", 60, CallAgents)
