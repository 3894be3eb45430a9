"""An attempt to form a view: STATETRANS, in which all tell their state, and EVS, in which they even it out.

Implements  thesis 6.1.9 and 6.1.10. An explicit DONE of every member replaces WaitLTS.
Below       the attempt's own network, on which words reach all its members.
Above       the membership, which installs the view or gives the attempt up.
Invariants  an attempt changes the broken view only by adding recovered bundles, and by binding it when all that
            can be had is there.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hopring.errors import Drop, PeerError
from hopring.ids import NUMBER_MAX, DaemonId, Process, SiteId
from hopring.membership.messages import (
    NewMemb,
    RecoveryDone,
    RecoveryMessage,
    RecoveryResend,
    StateTrans,
    check_state,
)
from hopring.membership.recovery import Decision, Key, decide
from hopring.membership.view import DaemonView
from hopring.ordering.order import STAMP_AHEAD_MAX


@dataclass(slots=True)
class ViewAttempt:
    """One NEWMEMB on its way to become a view."""

    new: NewMemb
    old: DaemonView
    site_of: Mapping[DaemonId, SiteId]
    counter: int  # The highest view counter that any member has seen.
    counter_max: int = NUMBER_MAX  # One that says it has seen a higher one is wrong.
    states: dict[Process, StateTrans] = field(default_factory=dict)
    done: set[Process] = field(default_factory=set)
    decision: Decision | None = None
    missing: dict[Key, bool] = field(default_factory=dict)  # Owed to this daemon, and with a body or not.

    def start(self) -> list[RecoveryMessage]:
        """What to tell first."""
        state = self.old.state(self.new.view, self.counter)
        self.states[self.old.me] = state
        return [state, *self._advance()]

    def told(self, daemon: DaemonId, word: RecoveryMessage) -> list[RecoveryMessage]:
        """A word of another member; returns what to tell because of it."""
        sender = next((one for one in self.new.members if one.daemon == daemon), None)
        if sender is None or word.view != self.new.view:
            return []
        if isinstance(word, StateTrans) and word.sender == sender:
            check_state(word, self.old.order.sites if word.installed == self.old.id else None)
            if word.clock > min(self.old.order.clock + STAMP_AHEAD_MAX, NUMBER_MAX):
                raise PeerError(Drop.OUT_OF_WINDOW, f"daemon {daemon} says its clock is at {word.clock}")
            if word.counter > self.counter_max:
                raise PeerError(Drop.OUT_OF_WINDOW, f"daemon {daemon} has seen view counter {word.counter}")
            self.states.setdefault(sender, word)
            self.counter = max(self.counter, word.counter)
        elif isinstance(word, RecoveryResend) and word.installed == self.old.id:
            self.old.recover(word)
            self._recovered((SiteId(word.source), word.seq))
        elif isinstance(word, RecoveryDone):
            self.done.add(sender)
        return self._advance()

    @property
    def silent(self) -> list[Process]:
        """Those whose state has not come."""
        return [one for one in self.new.members if one not in self.states]

    @property
    def complete(self) -> bool:
        """Whether all members are bound: the view may be installed."""
        return self.decision is not None and self.done.issuperset(self.new.members)

    @property
    def bound(self) -> bool:
        """Whether this daemon is."""
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
        """All states are here: what is to be had, and what of it falls to me to send again."""
        self.decision = decide(self.states.values(), self.old.id, self.site_of)
        owed = self.decision.owed(self.site_of[self.old.me.daemon])
        self.missing = {key: body for key, body in owed.items() if self.old.lacks(key, body)}
        resends = self.decision.resends(self.old.me, self.site_of)
        return [self.old.resend(key, with_body, self.new.view) for key, with_body in resends]
