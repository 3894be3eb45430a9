"""The state of a ring at one member, and what its parts share: who it is, its epoch, its lists, its effects.

Above       the parts of a ring: token, asking, requests, joining, recovery; each has its own state beside.
Invariants  `epoch_state` is there if and only if this process is in a list, or serves after its leave.
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from hopring.ids import NEVER
from hopring.rmp.events import JoinRing, MulticastPacket, RingOutput, UnicastPacket
from hopring.rmp.lists.changes import follower
from hopring.rmp.options import PeerRingOptions
from hopring.rmp.order.data_list import DataList
from hopring.rmp.order.holders import TokenHolders
from hopring.rmp.order.list_history import ListHistory
from hopring.rmp.order.slots import OrderingQueue
from hopring.wire.rmp.ids import Ballot, DataId, ListMembership, PeerProcess
from hopring.wire.rmp.lists import STRANGERS_MAX, ListMember, ListStranger, PeerList
from hopring.wire.rmp.packets import NewListPacket, RmpPacket, SyncPoint

GONE_MAX = 64
"""How many processes that are members no more are remembered, with their last requests."""

LEFT_MAX = 16
"""How many epochs are remembered in which this process was a member."""


class RandomNumbers(Protocol):
    """A seeded generator of random numbers."""

    def randrange(self, stop: int, /) -> int:
        """A number from 0 up to, and without, this one."""
        ...


class RingPhase(StrEnum):
    """The stay of a process in a ring."""

    OUT = "out"
    ASKING = "asking"  # Who is there?
    JOINING = "joining"
    IN = "in"  # In the list; it may be named, the token site, or in a recovery.
    SERVING = "serving"  # Its leave is in the order; it answers others until they have everything.


@dataclass(slots=True)
class EpochState:
    """What ends with an epoch: its slots, lists and holders."""

    epoch: Ballot
    generation: int
    queue: OrderingQueue
    lists: ListHistory
    delivered: int  # The timestamp up to which everything was delivered in order.
    holders: TokenHolders = field(default_factory=TokenHolders)
    last_pass_at_us: int = 0  # When the last ordering of anybody came; later if this process did not run.
    ordered_at_us: int = 0  # When it came by the clock.

    @property
    def present_line(self) -> int:
        """The timestamp up to which all of the present list are known to have everything."""
        return self.holders.stable_line(self.lists.present, self.lists.lost)


@dataclass(slots=True)
class PeerRingState:
    """The state that the parts of a ring share."""

    me: PeerProcess
    group: str
    options: PeerRingOptions
    random: RandomNumbers
    data: DataList
    phase: RingPhase = RingPhase.OUT
    wish: JoinRing = field(default_factory=JoinRing)
    epoch_state: EpochState | None = None
    installed: PeerList | None = None  # The list that was shown last.
    version: int = 0  # The highest version of a ballot that was seen.
    requests: int = 0  # The number of the last own request.
    strangers: dict[PeerProcess, int] = field(default_factory=dict)  # How far each is, as of the order.
    silent: frozenset[PeerProcess] = frozenset()  # Those that this member has not heard for long.
    fence_heard: int = 0  # The highest fence of all lists that were seen.
    left: dict[int, None] = field(default_factory=dict)  # Generations of epochs in which a stay ended.
    gone: dict[PeerProcess, int] = field(default_factory=dict)  # The last requests of members that were lost.
    was_member: bool = False  # A ring that this process was in may go on without it.
    frozen: bool = False  # A recovery is under way: nothing is ordered, nothing delivered.
    outputs: list[RingOutput] = field(default_factory=list)

    @property
    def in_epoch(self) -> bool:
        """Whether this member is in an epoch; calls of others may end it."""
        return self.epoch_state is not None

    @property
    def epoch(self) -> EpochState:
        """The epoch that this member is in."""
        assert self.epoch_state is not None, "outside of a list there is no epoch"
        return self.epoch_state

    @property
    def present(self) -> PeerList:
        """The last list in the order."""
        return self.epoch.lists.present

    @property
    def my_membership(self) -> ListMembership | None:
        """The own membership, or the last one after a leave."""
        return None if self.epoch_state is None else self.epoch_state.lists.membership(self.me)

    @property
    def my_member(self) -> ListMember | None:
        """This member in the present list."""
        return None if self.epoch_state is None else self.present.member(self.me)

    def stranger_entries(self, flush: bool = False) -> tuple[ListStranger, ...]:
        """The strangers of the next list; a flush leaves out those that are silent.

        Sites that order one after the other may make more of them than a list may have: the oldest ones go.
        """
        out = self.silent if flush else frozenset()
        entries = [ListStranger(one, seq) for one, seq in self.strangers.items() if one not in out]
        return tuple(entries[-STRANGERS_MAX:])

    def next_request(self) -> int:
        """The number of a new request."""
        self.requests += 1
        return self.requests

    def emit(self, output: RingOutput) -> None:
        """Adds one output of this step."""
        self.outputs.append(output)

    def multicast(self, packet: RmpPacket, also: tuple[PeerProcess, ...] = ()) -> None:
        """Sends a packet to the group in the own epoch, and by unicast to those that hear no multicast."""
        deaf = also
        generation = 0
        if self.epoch_state is not None:
            generation = self.epoch_state.generation
            members = self.present.members
            deaf += tuple([one.process for one in members if not one.capable and one.process != self.me])
        self.emit(MulticastPacket(packet, generation, tuple(dict.fromkeys(deaf))))

    def unicast(self, packet: RmpPacket, to: PeerProcess, generation: int | None = None) -> None:
        """Sends a packet to one process, in the own epoch."""
        if generation is None:
            generation = 0 if self.epoch_state is None else self.epoch_state.generation
        self.emit(UnicastPacket(packet, generation, to))

    def follower(self) -> PeerProcess:
        """Who is named by an ACK of this member: the next one in the present list."""
        lists = self.epoch.lists
        with_me = next((one for one in reversed(lists.lists) if self.me in one), None)
        return follower(lists.present, self.me, with_me)

    def adopt(self, packet: NewListPacket, now_us: int) -> None:
        """Begins an epoch, or a stay in one, with a list at whose timestamp the queue starts."""
        members = packet.list
        self.epoch_state = EpochState(
            members.id.epoch,
            members.id.epoch.generation,
            OrderingQueue(packet),
            ListHistory([members]),
            packet.timestamp - 1,
            last_pass_at_us=now_us,
            ordered_at_us=now_us,
        )
        self.was_member = True
        self.epoch_state.queue.advance()
        self.strangers = {one.process: one.seq for one in members.strangers}
        self.data.set_lines(self.strangers | {one.process: one.seq for one in members.members})
        self.version = max(self.version, members.id.epoch.version)

    def note_gone(self, old: PeerList, new: PeerList) -> None:
        """Remembers the requests of those that a list leaves out: a late copy is not carried out."""
        for one in old.members:
            if one.process not in new:
                self.gone.pop(one.process, None)
                self.gone[one.process] = one.request
        while len(self.gone) > GONE_MAX:
            del self.gone[next(iter(self.gone))]

    def gone_lines(self) -> SyncPoint:
        """What a joiner has to know of those that have left, in the New List that takes it in."""
        return SyncPoint(0, tuple([DataId(one, number) for one, number in self.gone.items()]))

    def learn_gone(self, told: SyncPoint) -> None:
        """The token site that took this process in has told of those that have left."""
        for process, number in told.seqs:
            self.gone[process] = max(number, self.gone.get(process, 0))

    def renounce(self) -> None:
        """Ends the stay: nothing of the epoch is kept."""
        self.phase = RingPhase.OUT
        if self.epoch_state is not None:
            self.left[self.epoch_state.generation] = None
            if len(self.left) > LEFT_MAX:
                del self.left[next(iter(self.left))]
        self.epoch_state = None
        self.installed = None
        self.frozen = False
        self.strangers = {}
        self.data.set_lines({})


def earliest(*times_us: int) -> int:
    """The earliest of some times."""
    return min(times_us, default=NEVER)
