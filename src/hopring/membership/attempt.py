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
from hopring.ids import DaemonId, Process, SiteId
from hopring.membership.recovery import Decision, decide
from hopring.membership.view import View
from hopring.membership.words import Done, NewMemb, Resend, StateTrans, Told
from hopring.ordering.order import STAMP_AHEAD_MAX


@dataclass(slots=True)
class Attempt:
    """One NEWMEMB on its way to become a view."""

    new: NewMemb
    old: View
    site_of: Mapping[DaemonId, SiteId]
    counter: int
    states: dict[Process, StateTrans] = field(default_factory=dict)
    done: set[Process] = field(default_factory=set)
    decision: Decision | None = None

    def start(self) -> list[Told]:
        """What to tell first."""
        state = self.old.state(self.new.view, self.counter)
        self.states[self.old.me] = state
        return [state, *self._advance()]

    def told(self, daemon: DaemonId, word: Told) -> list[Told]:
        """A word of another member; returns what to tell because of it."""
        sender = next((one for one in self.new.members if one.daemon == daemon), None)
        if sender is None or word.view != self.new.view:
            return []
        match word:
            case StateTrans() if word.sender == sender:
                if word.clock > self.old.order.clock + STAMP_AHEAD_MAX:
                    raise PeerError(Drop.OUT_OF_WINDOW, f"daemon {daemon} says its clock is at {word.clock}")
                self.states.setdefault(sender, word)
            case Resend() if word.installed == self.old.id:
                self.old.recover(word)
            case Done():
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

    def _advance(self) -> list[Told]:
        out: list[Told] = []
        if self.decision is None and not self.silent:
            self.decision = decide(self.states.values(), self.old.id, self.site_of)
            for key, with_body in self.decision.resends(self.old.me, self.site_of):
                out.append(self.old.resend(key, with_body, self.new.view))
        if self.decision is not None and not self.bound:
            owed = self.decision.owed(self.site_of[self.old.me.daemon])
            if not self.old.lacks(owed):
                self.old.bind(self.decision)
                self.done.add(self.old.me)
                out.append(Done(self.new.view))
        return out
