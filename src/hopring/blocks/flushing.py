"""The member's half of view synchrony: the members of a view end it together before the next one.

Implements  thesis 3.4, with the rules of docs/view_synchrony.md: Sending View Delivery above extended virtual
            synchrony, as flush libraries do.
Below       a binding (flush_exchange.py), the Spread form (compat/fl.py), or the simulator: it delivers the
            views and signals of a group, and messages of its members, in their order.
Above       an application, which is asked to flush, agrees, and gets each message in the view in which it was
            sent.
Invariants  a message is delivered in the view in which it was sent, or not at all; nothing is sent between an
            agreement and the next view; a view is installed when all its members have agreed, at one place in
            the order; each base view becomes at most one view.
Limits      HELD_MAX Unreliable messages of the next view wait for it; others are lost.
Deviation   Reliable and FIFO messages are sent as Causal ones (`service_in_view`). A member may be left behind
            before it has agreed: what it sent then needs a place in the order, by which all members tell
            whether it precedes the next view.

A *base view* is a view of the group as the daemons deliver it. Each one is an *attempt* to install a view of
the same members: they agree by messages in the agreed order, which name the attempt. If another base view comes
first, the attempt is over and the next one begins. A member that has agreed has nothing left to send, so its
agreement is sent again for the new attempt; one for an earlier attempt does not count.

Members that have come along with this one through all base views since the last view are its *kin*: they have
delivered the same messages. Others of the last view have been elsewhere in between.
"""

from dataclasses import dataclass, field
from enum import Enum
from typing import Final, assert_never

from hopring.ids import NEVER
from hopring.links.events import Tick
from hopring.services import Service

HELD_MAX: Final = 16_384
"""Messages of the next view that may arrive before its last agreement: they are Unreliable."""


def service_in_view(service: Service) -> Service:
    """The service with which a message is sent: one that gives it a place in the order, or Unreliable."""
    return service if service.total or service.loose else Service.CAUSAL


@dataclass(frozen=True, slots=True)
class BaseView:
    """The group has a view. Members are named by their private groups."""

    id: str
    members: tuple[str, ...]
    together: frozenset[str]  # The members from the same base view as this one.
    primary: bool = False
    joined_as: str = ""  # This member, if it is in the group since this view.


@dataclass(frozen=True, slots=True)
class BaseClosing:
    """The transitional signal of the base view."""

    members: frozenset[str]


@dataclass(frozen=True, slots=True)
class AgreementArrived:
    """A member has sent all that belongs to its old view."""

    sender: str
    attempt: str
    leader: str  # The least of its kin: those with the same leader have delivered the same messages.


@dataclass(frozen=True, slots=True)
class ExclusionArrived:
    """A member waits no longer for those that have not agreed at this place in the order."""

    sender: str
    attempt: str


@dataclass(frozen=True, slots=True)
class ViewMessage:
    """A message of a member, with the view in which it was sent."""

    sender: str
    view: str
    content: object


@dataclass(frozen=True, slots=True)
class AgreeToFlush:
    """The application has sent all that belongs to the view; it was asked."""


@dataclass(frozen=True, slots=True)
class MemberDisconnected:
    """The connection is lost, and the membership with it."""


Input = (
    BaseView
    | BaseClosing
    | AgreementArrived
    | ExclusionArrived
    | ViewMessage
    | AgreeToFlush
    | MemberDisconnected
    | Tick
)


@dataclass(frozen=True, slots=True)
class AskToFlush:
    """Ask the application to flush this view; these members of it get what is sent now."""

    view: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SendAgreement:
    """Send the agreement of this member to the group."""

    attempt: str
    leader: str


@dataclass(frozen=True, slots=True)
class SendExclusion:
    """Tell the group, in the order, that those who have not agreed are not waited for."""

    attempt: str


@dataclass(frozen=True, slots=True)
class InstallView:
    """Show the application its next view."""

    id: str
    members: tuple[str, ...]
    together: tuple[str, ...]  # The members that come from the same view, with the same messages.
    sets: tuple[tuple[str, ...], ...]  # All members, by those that come together.
    whole: bool  # It is the base view that followed the last view, with all its members.


@dataclass(frozen=True, slots=True)
class ShowClosing:
    """Show the application the transitional signal of its view."""

    view: str
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DeliverContent:
    """Deliver a message to the application."""

    sender: str
    content: object


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Others went on without this member: leave the group, tell the application, and join again."""

    view: str  # The one that has ended for it; empty if it had none.


Output = AskToFlush | SendAgreement | SendExclusion | InstallView | ShowClosing | DeliverContent | GiveUp


class FlushPhase(Enum):
    """What a member of the group may do."""

    OUTSIDE = "outside"  # It is no member, or its membership is given up.
    JOINING = "joining"  # It has no view yet, and so nothing to flush.
    OPEN = "open"
    ASKED = "asked"
    AGREED = "agreed"


@dataclass(slots=True)
class Attempt:
    """A base view on its way to become a view."""

    id: str
    members: tuple[str, ...]
    primary: bool
    first: bool  # There was none before it since the last view.
    deadline_us: int
    agreements: dict[str, str] = field(default_factory=dict)  # Leaders, by those who have agreed.
    closing: bool = False
    excluding: bool = False  # This member has asked the others to go on.
    held: list[ViewMessage] = field(default_factory=list)


@dataclass(slots=True)
class FlushMember:
    """One member of one group."""

    patience_us: int = NEVER  # How long it waits for others to agree.
    phase: FlushPhase = FlushPhase.OUTSIDE
    me: str = ""
    view: str = ""  # Empty before the first.
    members: tuple[str, ...] = ()
    primary: bool = False
    kin: frozenset[str] = frozenset()
    attempt: Attempt | None = None
    signalled: bool = False  # The application has had the transitional signal of the view.

    @property
    def may_send(self) -> bool:
        """Whether the application may send to the group now."""
        return self.phase in (FlushPhase.OPEN, FlushPhase.ASKED)

    @property
    def sending_view(self) -> str:
        """The view to which a message belongs that is sent now."""
        assert self.may_send, "it was checked"
        return self.view

    @property
    def wake_at_us(self) -> int:
        """When this member stops waiting for others."""
        attempt = self.attempt
        waits = attempt is not None and self.me in attempt.agreements and not attempt.excluding
        return attempt.deadline_us if attempt is not None and waits else NEVER

    def step(self, event: Input, now_us: int) -> list[Output]:
        """Handles one event; returns the actions for the driver."""
        match event:
            case ViewMessage():
                return self._message(event)
            case BaseView():
                return self._base_view(event, now_us)
            case BaseClosing(members):
                return self._closing(members)
            case AgreementArrived(sender, attempt, leader):
                return self._agreement(sender, attempt, leader)
            case ExclusionArrived(sender, attempt):
                return self._exclusion(sender, attempt)
            case AgreeToFlush():
                assert self.phase is FlushPhase.ASKED, "look at the phase before"
                self.phase = FlushPhase.AGREED
                return self._agree()
            case Tick():
                return self._expire(now_us)
            case MemberDisconnected():
                self._forget()
                return []
        assert_never(event)

    # Base views.

    def _base_view(self, event: BaseView, now_us: int) -> list[Output]:
        if event.joined_as:
            self._forget()
            self.me, self.phase, self.kin = event.joined_as, FlushPhase.JOINING, frozenset((event.joined_as,))
        if self.phase is FlushPhase.OUTSIDE:
            return []
        self.kin &= event.together | {self.me}
        if self._unchanged(event):
            return []
        deadline_us = NEVER if self.patience_us == NEVER else now_us + self.patience_us
        first = self.attempt is None
        self.attempt = Attempt(event.id, event.members, event.primary, first, deadline_us)
        if self.phase is FlushPhase.OPEN:
            self.phase = FlushPhase.ASKED
            return [AskToFlush(self.view, tuple([one for one in self.members if one in self.kin]))]
        return [] if self.phase is FlushPhase.ASKED else self._agree()

    def _unchanged(self, event: BaseView) -> bool:
        """Whether the members are those of the view, and all know it: an excluded one has left."""
        same = self.phase is FlushPhase.OPEN and set(event.members) == set(self.members) == self.kin
        return same and event.primary == self.primary

    def _closing(self, members: frozenset[str]) -> list[Output]:
        if self.attempt is not None:
            # Another base view follows; the members that are gone would be in this one.
            self.attempt.closing = True
        if not self.view or self.signalled:
            return []
        self.signalled = True
        left = self.kin & members | {self.me}
        return [ShowClosing(self.view, tuple([one for one in self.members if one in left]))]

    # Agreements.

    def _agree(self) -> list[Output]:
        assert self.attempt is not None, "there is something to agree to"
        return [SendAgreement(self.attempt.id, min(self.kin & set(self.attempt.members)))]

    def _agreement(self, sender: str, attempt_id: str, leader: str) -> list[Output]:
        attempt = self._current(attempt_id)
        if attempt is None or sender not in attempt.members:
            return []
        attempt.agreements[sender] = leader
        return self._install(attempt) if len(attempt.agreements) == len(attempt.members) else []

    def _exclusion(self, sender: str, attempt_id: str) -> list[Output]:
        attempt = self._current(attempt_id)
        if attempt is None or sender not in attempt.agreements:
            return []
        return self._install(attempt) if self.me in attempt.agreements else self._give_up()

    def _current(self, attempt_id: str) -> Attempt | None:
        """The attempt of this name if it may still become a view."""
        attempt = self.attempt
        if attempt is None or attempt.id != attempt_id or attempt.closing:
            return None
        return attempt

    def _expire(self, now_us: int) -> list[Output]:
        attempt = self.attempt
        if attempt is None or now_us < self.wake_at_us:
            return []
        attempt.excluding = True
        return [SendExclusion(attempt.id)]

    # Views.

    def _install(self, attempt: Attempt) -> list[Output]:
        members = tuple([one for one in attempt.members if one in attempt.agreements])
        together = tuple([one for one in members if one in self.kin])
        sets: dict[str, list[str]] = {}
        for one in members:
            sets.setdefault(attempt.agreements[one], []).append(one)
        whole = attempt.first and len(members) == len(attempt.members)
        self.view, self.members, self.primary = attempt.id, members, attempt.primary
        self.phase, self.kin, self.signalled, self.attempt = FlushPhase.OPEN, frozenset(members), False, None
        parts = tuple([tuple(one) for one in sets.values()])
        out: list[Output] = [InstallView(attempt.id, members, together, parts, whole)]
        for message in attempt.held:
            out += self._message(message)
        return out

    def _message(self, message: ViewMessage) -> list[Output]:
        attempt = self.attempt
        if self.view and message.view == self.view:
            # The rest of the view, elsewhere in between, goes on without this member.
            return [DeliverContent(message.sender, message.content)] if message.sender in self.kin else []
        if attempt is not None and message.view == attempt.id and len(attempt.held) < HELD_MAX:
            attempt.held.append(message)  # Unreliable: its sender has had the last agreement already.
        return []

    def _give_up(self) -> list[Output]:
        view = self.view
        self._forget()
        return [GiveUp(view)]

    def _forget(self) -> None:
        self.phase, self.view, self.members, self.kin = FlushPhase.OUTSIDE, "", (), frozenset()
        self.attempt, self.signalled = None, False
