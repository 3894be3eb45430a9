"""The interface between the session server and the groups below it.

Below       `Groups` over an engine of daemons; or the groups of one peer, each a ring of its own (rmp/).
Above       the session server and its parts: handshakes, queries, receipts, slow receivers, dialects.
Invariants  nothing above accesses other parts of the groups; requests go in by `step`, and what comes out is in
            one ordered stream.

An abstract class and no protocol: calls of compiled code find the methods of a class by their place.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Sequence

from hopring.compiled import mypyc_attr
from hopring.engine import SubmitMessage
from hopring.errors import Drop
from hopring.groups.events import Input, Output, Send
from hopring.groups.group_table import GroupTable
from hopring.groups.locks import LockState, LockTable
from hopring.groups.names import GroupMember
from hopring.ids import GroupName, Process


@mypyc_attr(allow_interpreted_subclasses=True)
class GroupsInterface(ABC):
    """What the session server uses of the groups."""

    def __init__(self, me: Process, names: Sequence[str], session_queue_bytes_max: int) -> None:
        """`names` are those of processes, by number."""
        self.me = me
        self.names: Sequence[str] = tuple(names)
        self.session_queue_bytes_max = session_queue_bytes_max
        self.table = GroupTable(me)
        self.drops: Counter[Drop] = Counter()
        self.suspended: set[GroupName] = set()  # Groups below their minimum.
        self.lock_table: LockTable | None = None  # None: locks are not listed.
        self.has_daemons = True  # There are daemons with views and links of which clients may ask.

    def lock_states(self, group: GroupName) -> list[LockState] | None:
        """The locks of a group that anybody claims, sorted by name; None if they are not listed."""
        return None if self.lock_table is None else self.lock_table.states(group)

    # Events.

    @property
    @abstractmethod
    def wake_at_us(self) -> int:
        """When the next tick is due."""

    @abstractmethod
    def step(self, event: Input, now_us: int) -> list[Output]:
        """Handles one event; a peer's mistake is dropped and counted."""

    @abstractmethod
    def next_submission(
        self, queue_open: bool, bulk_open: bool = True, now_us: int = 0
    ) -> SubmitMessage | None:
        """Takes the next message for the engine, if there is one."""

    @property
    @abstractmethod
    def has_dropped(self) -> bool:
        """Whether `take_expired` or `take_refused` has any message to return."""

    @abstractmethod
    def take_expired(self) -> list[Send]:
        """The messages that were dropped because their time to live had ended."""

    def take_refused(self) -> list[Send]:
        """The messages that were dropped because their groups are suspended, and their sessions do not wait."""
        return []

    # Sessions.

    @abstractmethod
    def has_session(self, name: str) -> bool:
        """Whether a session here has this name."""

    @abstractmethod
    def queued_bytes(self, session: int) -> int:
        """The size of a session's requests that are not submitted; 0 for an unknown session."""

    @abstractmethod
    def groups_wanted(self, session: int) -> Collection[GroupName]:
        """The groups that this session is in or asked to join."""

    @property
    @abstractmethod
    def joins(self) -> int:
        """How many groups the sessions here are in or want to join, each counted by session."""

    @property
    @abstractmethod
    def idle(self) -> bool:
        """Whether no request of a session is queued."""

    @abstractmethod
    def block(self, groups: Collection[GroupName]) -> None:
        """Holds back messages to these groups at all senders, until as many calls of `unblock`."""

    @abstractmethod
    def unblock(self, groups: Collection[GroupName]) -> None:
        """Ends one `block` of these groups."""

    # State.

    @property
    @abstractmethod
    def settled(self) -> bool:
        """Whether requests are carried out: no view is closing, and none is being agreed on."""

    @property
    @abstractmethod
    def phase(self) -> str:
        """What they are doing, for people."""

    @abstractmethod
    def is_closing(self, group: GroupName) -> bool:
        """Whether the signal of this group's view has come: its guarantees hold among fewer members."""

    @abstractmethod
    def is_primary(self, group: GroupName | None) -> bool:
        """Whether only this side of any split can have a primary view of this group, or None: of all groups."""

    @property
    @abstractmethod
    def holders_max(self) -> int:
        """How many processes can hold a message at most."""

    @abstractmethod
    def private_holder(self, group: GroupName) -> GroupMember | Process | None:
        """Who a private group stands for: the member, or the process that is going to report it."""

    def finds(self, _group: GroupName, _now_us: int) -> bool:
        """Whether the members of a group are in the table, if it has any; if not, they are being asked for."""
        return True
