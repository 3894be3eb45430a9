"""All groups of one process of RMP, where the session server of a daemon has the groups of the cluster.

Below       a ring for each group, made when it is first used; packets for the driver are in `box`.
Above       the session server, with one session: that of the program.
Invariants  nothing is in the order of two groups: a message goes to one, or through the ring of one group to
            the private group of a process that is in it. What a ring cannot offer is refused with the remedy.
Deviations  daemons have configured numbers, processes get theirs when they are met (numbers.py).
"""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Final

from hopring.engine import SubmitMessage
from hopring.groups.events import (
    ClaimLock,
    Connect,
    Disconnect,
    GroupRequestRefused,
    Input,
    JoinGroup,
    LeaveGroup,
    LockEnded,
    Output,
    RefusalReason,
    ReleaseLock,
    RequestDenied,
    Send,
    SessionConnected,
    SessionGone,
)
from hopring.groups.interface import GroupsInterface
from hopring.groups.locks import LockEnd, LockState
from hopring.groups.names import GroupMember, is_legal_group, is_legal_session
from hopring.groups.private_groups import is_private, private_group
from hopring.ids import NEVER, GroupName, Incarnation, Process
from hopring.links.events import Tick
from hopring.rmp.events import RingStalled
from hopring.rmp.process.bundles import by_group, refusal_of, tickets_of
from hopring.rmp.process.events import GroupPacket, PeerOutputs, ProcessStalled, RingLayer
from hopring.rmp.process.group import PeerGroup, PeerTerms
from hopring.rmp.process.numbers import SESSION, ProcessNumbers
from hopring.wire.bundle import decode_bundle
from hopring.wire.rmp.ids import PeerProcess
from hopring.wire.rmp.lists import MEMBERS_MAX, MINIMUM_ALL, MINIMUM_MAJORITY

QUEUE_BYTES_MAX: Final = 4 * 1024 * 1024
"""The most bytes of requests that wait here."""

GROUPS_MAX: Final = 256
"""The most groups of one process: each has a socket, and a token of its own."""

END_US: Final = 2_000_000
"""How long an ending session waits for its last messages and leaves."""

NOT_OFFERED: Final = "not offered by rings of peers"
"""The start of reasons for what needs daemons; the same as in session/options.py."""

MakeRing = Callable[[GroupName], tuple[RingLayer, bool]]
"""Makes the ring of a group, and says whether this process hears its multicasts."""


class PeerGroups(GroupsInterface):
    """The groups of one process."""

    def __init__(self, me: PeerProcess, terms: PeerTerms, make_ring: MakeRing) -> None:
        self._numbers = ProcessNumbers(me)
        process = Process(self._numbers.number(me), Incarnation(me.nonce))
        super().__init__(process, (), QUEUE_BYTES_MAX)
        self.names = self._numbers.names
        self.has_daemons = False
        self.by_name: dict[GroupName, PeerGroup] = {}
        self.box = PeerOutputs()
        """Its packets are for the driver, which takes them after each step."""
        self._process, self._terms, self._make_ring = me, terms, make_ring
        self._name = ""
        self._impatient = False
        self._wants: set[GroupName] = set()
        self._connected = False
        self._gone_by_us = NEVER  # While the session ends.

    # Events.

    @property
    def wake_at_us(self) -> int:
        """When the next tick is due."""
        return min([self._gone_by_us, *[group.wake_at_us for group in self.by_name.values()]])

    def step(self, event: Input, now_us: int) -> list[Output]:
        """Handles one event of the session, of the network or of the clock."""
        if isinstance(event, GroupPacket):
            group = self.by_name.get(event.group)
            if group is not None:
                group.step(event.packet, now_us)
        elif isinstance(event, Send):
            self._send(event, now_us)
        elif isinstance(event, (JoinGroup, LeaveGroup)):
            self._ask(event, now_us)
        elif isinstance(event, (ClaimLock, ReleaseLock)):
            self._lock(event, now_us)
        elif isinstance(event, Tick):
            for group in list(self.by_name.values()):
                if group.wake_at_us <= now_us:
                    group.tick(now_us)
        elif isinstance(event, ProcessStalled):
            for group in self.by_name.values():
                group.step(RingStalled(event.for_us), now_us)
        elif isinstance(event, Connect):
            self._connect(event)
        elif isinstance(event, Disconnect):
            self._disconnect(now_us)
        self._end(now_us)
        return self._taken()

    def _taken(self) -> list[Output]:
        for group in self.by_name.values():
            for error in group.drops:
                self.drops[error.reason] += 1
            group.drops.clear()
        self.suspended = {name for name, group in self.by_name.items() if group.suspended}
        outputs = self.box.take_outputs()
        for output in outputs:
            if isinstance(output, RequestDenied) and output.request == "join":
                self._wants.discard(GroupName(output.name))
        return outputs

    def next_submission(
        self, _queue_open: bool, _bulk_open: bool = True, now_us: int = 0
    ) -> SubmitMessage | None:
        """Gives rings what they have room for; there is no engine of messages below."""
        for group in self.by_name.values():
            group.advance(now_us)
        return None

    @property
    def has_dropped(self) -> bool:
        """Whether a message was dropped in a queue."""
        return any(group.expired or group.refused for group in self.by_name.values())

    def take_expired(self) -> list[Send]:
        """The messages that were dropped because their time to live had ended."""
        return [send for group in self.by_name.values() for send in group.take_expired()]

    def take_refused(self) -> list[Send]:
        """The messages that were dropped because their groups are suspended, and the session does not wait."""
        return [send for group in self.by_name.values() for send in group.take_refused()]

    # The session.

    def _connect(self, event: Connect) -> None:
        if self._connected or event.session != SESSION:
            refused = GroupRequestRefused(event.session, RefusalReason.NAME_IN_USE, event.name)
            self.box.outputs.append(refused)
        elif not is_legal_session(event.name, self.names[0]):
            refused = GroupRequestRefused(event.session, RefusalReason.ILLEGAL_NAME, event.name)
            self.box.outputs.append(refused)
        else:
            self._connected, self._name, self._impatient = True, event.name, event.impatient
            own = private_group(event.name, self.names[0])
            self.box.outputs.append(SessionConnected(event.session, own))

    def _disconnect(self, now_us: int) -> None:
        if not self._connected or self._gone_by_us != NEVER:
            return
        self._gone_by_us = now_us + END_US
        self._wants.clear()
        for group in self.by_name.values():
            group.end(now_us)

    def _end(self, now_us: int) -> None:
        """The session is gone when all its requests are done, or when that takes too long."""
        if self._gone_by_us == NEVER or not self._connected:
            return
        if all(group.is_out for group in self.by_name.values()) or now_us >= self._gone_by_us:
            self._connected, self._gone_by_us = False, NEVER
            self.box.outputs.append(SessionGone(SESSION, self._name))

    def _group(self, name: GroupName) -> PeerGroup:
        group = self.by_name.get(name)
        if group is None:
            self._forget_idle()
            ring, capable = self._make_ring(name)
            terms = replace(self._terms, capable=capable)
            group = PeerGroup(name, self._process, ring, terms, self._numbers, self.table, self.box)
            group.session_name, group.impatient = self._name, self._impatient
            self.by_name[name] = group
        return group

    def _forget_idle(self) -> None:
        """Drops groups that are used no more, and the numbers of processes that were in them."""
        for name, group in list(self.by_name.items()):
            if group.is_over:
                del self.by_name[name]
        lists = [group.list for group in self.by_name.values() if group.list is not None]
        self._numbers.keep([process for members in lists for process in members.processes])

    # Requests.

    def _ask(self, event: JoinGroup | LeaveGroup, now_us: int) -> None:
        refusal, member = None, event.group in self._wants
        joins = isinstance(event, JoinGroup)
        if not is_legal_group(event.group):
            refusal = RefusalReason.ILLEGAL_GROUP
        elif joins is member:
            refusal = RefusalReason.ALREADY_MEMBER if member else RefusalReason.NOT_A_MEMBER
        if refusal is not None:
            self.box.outputs.append(GroupRequestRefused(event.session, refusal, event.group))
            return
        if joins and self._is_full(event.group):
            reason, remedy = f"{GROUPS_MAX} groups, which is the limit", "leave some first"
            self.box.outputs.append(RequestDenied(SESSION, "join", event.group, reason, remedy))
            return
        if joins:
            self._wants.add(event.group)
        else:
            self._wants.discard(event.group)
        self._group(event.group).request(event, now_us)

    def _is_full(self, name: GroupName) -> bool:
        if name in self.by_name or len(self.by_name) < GROUPS_MAX:
            return False
        self._forget_idle()
        return len(self.by_name) >= GROUPS_MAX

    def _lock(self, event: ClaimLock | ReleaseLock, now_us: int) -> None:
        if isinstance(event, ClaimLock):
            if event.group in self._wants:
                self._group(event.group).request(event, now_us)
            else:
                ended = LockEnded(SESSION, event.serial, event.group, event.lock, LockEnd.NOT_A_MEMBER)
                self.box.outputs.append(ended)
            return
        for group in self.by_name.values():
            if event.serial in group.claims:
                group.request(event, now_us)

    def _send(self, send: Send, now_us: int) -> None:
        refusal = refusal_of(send)
        if refusal is not None:
            self._deny(send, f"{NOT_OFFERED}: {refusal[0]}", refusal[1])
            return
        for part in by_group(send):
            target = part.key.groups[0]
            through = self._shared_with(target) if is_private(target) else target
            if through is None:
                remedy = "join a group that it is in, or use daemons (hop://)"
                self._deny(part, f"{NOT_OFFERED}: private groups of sessions without a common group", remedy)
            elif self._is_full(through):
                self._deny(part, f"{GROUPS_MAX} groups, which is the limit", "leave some first")
            else:
                self._group(through).request(part, now_us)

    def _shared_with(self, private: GroupName) -> GroupName | None:
        """The first group that this process has in common with the one of a private group."""
        shared = [name for name, group in self.by_name.items() if group.holder(private) is not None]
        return min(shared, default=None)

    def _deny(self, send: Send, reason: str, remedy: str) -> None:
        tickets = tickets_of(decode_bundle(send.bundle))
        denied = RequestDenied(SESSION, "send", send.key.groups[0], reason, remedy, tickets)
        self.box.outputs.append(denied)

    # What the session server asks.

    @property
    def session_name(self) -> str:
        """The name of the session; empty without one."""
        return self._name if self._connected else ""

    def lock_states(self, group: GroupName) -> list[LockState] | None:
        """The locks of a group, as its list has them; None if this process is not in its ring."""
        found = self.by_name.get(group)
        return None if found is None else found.lock_states()

    def has_session(self, name: str) -> bool:
        """Whether the session has this name."""
        return self._connected and self._name == name

    def queued_bytes(self, session: int) -> int:
        """The size of the session's requests that no ring has."""
        if session != SESSION:
            return 0
        return sum([group.queued_bytes for group in self.by_name.values()])

    def groups_wanted(self, _session: int) -> Collection[GroupName]:
        """The groups that the session is in or asked to join."""
        return self._wants

    @property
    def joins(self) -> int:
        """How many groups the session is in or asked to join."""
        return len(self._wants)

    @property
    def idle(self) -> bool:
        """Whether no request of the session is left to do."""
        return all(group.idle for group in self.by_name.values())

    @property
    def over(self) -> bool:
        """Whether no other process needs this one: nothing is left to serve."""
        return not self._connected and all(group.is_over for group in self.by_name.values())

    def block(self, groups: Collection[GroupName]) -> None:
        """Nobody may have `slow="block"` here: the session server does not allow it."""
        assert not groups, "senders do not wait for receivers of a ring"

    def unblock(self, groups: Collection[GroupName]) -> None:
        """There is nothing to end: nobody blocks."""
        assert not groups, "senders do not wait for receivers of a ring"

    @property
    def settled(self) -> bool:
        """Whether no list is closing, and no ring is suspended."""
        return not any(group.closing or group.suspended for group in self.by_name.values())

    @property
    def phase(self) -> str:
        """The phases of all groups, for people."""
        return ", ".join(sorted({group.phase.value for group in self.by_name.values()})) or "out"

    def is_closing(self, group: GroupName) -> bool:
        """Whether the signal of this group's list has come."""
        found = self.by_name.get(group)
        return found is not None and found.closing

    def is_primary(self, group: GroupName | None) -> bool:
        """Whether the list is primary; a group that is not known yet is asked again when a message goes out."""
        found = None if group is None else self.by_name.get(group)
        if found is None or found.list is None:
            return group is not None or self._terms.minimum in (MINIMUM_MAJORITY, MINIMUM_ALL)
        return found.primary

    @property
    def holders_max(self) -> int:
        """The members of the longest list; with fewer of them, all hold a message."""
        return MEMBERS_MAX

    def private_holder(self, group: GroupName) -> GroupMember | Process | None:
        """The member that a private group stands for, as a common list names it."""
        through = self._shared_with(group)
        return None if through is None else self.by_name[through].holder(group)

    def finds(self, group: GroupName, now_us: int) -> bool:
        """Whether the members of a group are known; if not, this process joins its ring without a name."""
        if not is_legal_group(group) or self._is_full(group):
            return True
        return self._group(group).look(now_us)
