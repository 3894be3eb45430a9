"""An attempt to form a view: members exchange their states (STATETRANS), then missing bundles (EVS).

Implements  thesis 6.1.9 and 6.1.10. An explicit DONE of every member replaces WaitLTS.
Below       the attempt's own network, whose control messages reach all its members.
Above       the membership, which installs the view or gives the attempt up.
Invariants  an attempt changes the broken view only by adding recovered bundles, and by binding it when all
            bundles that can be recovered are there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hopring.errors import Drop, PeerError
from hopring.ids import NUMBER_MAX, DaemonId, Process, SiteId
from hopring.membership.connectivity import lowest_of_sites
from hopring.membership.messages import (
    NewMemb,
    RecoveryDone,
    RecoveryMessage,
    RecoveryResend,
    StateTrans,
    check_state,
)
from hopring.membership.recovery import Decision, Key, decide
from hopring.membership.view import InstalledView
from hopring.ordering.order import STAMP_AHEAD_MAX


@dataclass(slots=True)
class ViewAttempt:
    """One attempt, from its NEWMEMB until the view can be installed."""

    new: NewMemb
    old: InstalledView
    site_of: Mapping[DaemonId, SiteId]
    counter: int  # The highest view counter that any member has seen.
    counter_max: int = NUMBER_MAX  # A member that claims a higher counter breaks the protocol.
    states: dict[Process, StateTrans] = field(default_factory=dict)
    done: set[Process] = field(default_factory=set)
    decision: Decision | None = None
    missing: dict[Key, bool] = field(default_factory=dict)  # Bundles owed to this daemon; whether with a body.

    def start(self) -> list[RecoveryMessage]:
        """Begins the attempt; returns the messages for the other members."""
        state = self.old.state(self.new.view, self.counter)
        self.states[self.old.me] = state
        return [state, *self._advance()]

    def take(self, daemon: DaemonId, message: RecoveryMessage) -> list[RecoveryMessage]:
        """Takes a message of another member; returns the messages to send in response."""
        sender = next((one for one in self.new.members if one.daemon == daemon), None)
        if sender is None or message.view != self.new.view:
            return []
        if isinstance(message, StateTrans) and message.sender == sender:
            check_state(message, self.old.order.sites if message.installed == self.old.id else None)
            if message.clock > min(self.old.order.clock + STAMP_AHEAD_MAX, NUMBER_MAX):
                raise PeerError(Drop.OUT_OF_WINDOW, f"daemon {daemon} says its clock is at {message.clock}")
            if message.counter > self.counter_max:
                raise PeerError(Drop.OUT_OF_WINDOW, f"daemon {daemon} has seen view counter {message.counter}")
            self.states.setdefault(sender, message)
            self.counter = max(self.counter, message.counter)
        elif isinstance(message, RecoveryResend) and message.installed == self.old.id:
            self.old.recover(message)
            self._recovered((SiteId(message.source), message.seq))
        elif isinstance(message, RecoveryDone):
            self.done.add(sender)
        return self._advance()

    @property
    def silent(self) -> list[Process]:
        """The members whose state has not arrived."""
        return [one for one in self.new.members if one not in self.states]

    @property
    def newmemb_targets(self) -> list[DaemonId]:
        """The silent members that this daemon sends NEWMEMB to.

        The representative sends to all of them. The lowest of each site passes NEWMEMB on to its own site and
        to the lowest of the other sites, in case the direct path is cut.
        """
        me = self.old.me.daemon
        lowest = lowest_of_sites([one.daemon for one in self.new.members], self.site_of)
        silent = [one.daemon for one in self.silent if one.daemon != me]
        if self.new.view.representative == me:
            return silent
        if me not in lowest:
            return []
        return [one for one in silent if self.site_of[one] == self.site_of[me] or one in lowest]

    @property
    def complete(self) -> bool:
        """Whether all members are bound: the view may be installed."""
        return self.decision is not None and self.done.issuperset(self.new.members)

    @property
    def bound(self) -> bool:
        """Whether this daemon is bound to the decision."""
        return self.old.me in self.done

    @property
    def clock(self) -> int:
        """The highest clock of any member."""
        return max(state.clock for state in self.states.values())

    def _recovered(self, key: Key) -> None:
        if key in self.missing and not self.old.lacks(key, self.missing[key]):
            del self.missing[key]

    def _advance(self) -> list[RecoveryMessage]:
        out: list[RecoveryMessage] = []
        if self.decision is None and not self.silent:
            out = self._decide()
        if self.decision is not None and not self.bound and not self.missing:
            self.old.bind(self.decision)
            self.done.add(self.old.me)
            out.append(RecoveryDone(self.new.view))
        return out

    def _decide(self) -> list[RecoveryMessage]:
        """All states have arrived: decides, and returns the bundles that this daemon resends."""
        self.decision = decide(self.states.values(), self.old.id, self.site_of)
        owed = self.decision.owed(self.site_of[self.old.me.daemon])
        self.missing = {key: body for key, body in owed.items() if self.old.lacks(key, body)}
        resends = self.decision.resends(self.old.me, self.site_of)
        return [self.old.resend(key, with_body, self.new.view) for key, with_body in resends]
