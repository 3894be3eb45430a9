"""The ideal LAN of one cluster: one group of service members, whose views come and go at once.

As extended virtual synchrony has it: members of a view get its messages in one order; where it ends, each side
gets a beginning of that order before its signal, and what its own members sent, and some more, behind it.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final, Protocol

from hopring.blocks.log.events import LogMessageShown, LogSignalShown, LogViewShown
from hopring.blocks.log.messages import LogMessage
from hopring.client.events import Member, View
from hopring.groups.names import GroupViewId
from hopring.ids import DaemonId, Incarnation, ViewId
from hopring.sim.engine import SimEngine

DELAY_US: Final = (100, 1_500)
"""How long a message takes to a member."""

HEARD_BEHIND: Final = 0.5
"""The probability that a message of another side arrives behind the signal."""

LanEvent = LogViewShown | LogSignalShown | LogMessageShown


class LanMember(Protocol):
    """A process in the group of the service."""

    host: str
    session: Member

    def show(self, event: LanEvent) -> None:
        """Something happens in the group."""
        ...


@dataclass(slots=True)
class LanView:
    """A view of the group, and the order of its messages."""

    members: list[LanMember]
    order: list[tuple[str, LogMessage]] = field(default_factory=list)  # With the sender's host.
    shown: dict[str, int] = field(default_factory=dict)  # By host: how many it was shown.
    last_us: dict[str, int] = field(default_factory=dict)


class SimLan:
    """The network of one cluster, its hosts and its sides."""

    def __init__(self, engine: SimEngine, dice: Random) -> None:
        self.engine = engine
        self.members: dict[str, LanMember] = {}  # By host; those that run.
        self.side: dict[str, int] = {}  # By host; 0 unless it was split off.
        self.when_changed: Callable[[], None] = lambda: None
        self._dice = dice
        self._views: dict[str, LanView] = {}  # By host.
        self._count = 0
        self._changing = False
        self._early: list[tuple[str, LogMessage]] = []  # Sent while views change.

    def together(self, one: str, other: str) -> bool:
        """Whether two hosts are on one side."""
        return self.side.get(one, 0) == self.side.get(other, 0)

    def join(self, member: LanMember) -> None:
        """A process of a member has started."""
        self.members[member.host] = member
        self._regroup()

    def leave(self, host: str) -> None:
        """A process of a member has ended."""
        self.members.pop(host, None)
        self._regroup()

    def leave_all(self, hosts: list[str]) -> None:
        """Several processes end at one moment."""
        for host in hosts:
            self.members.pop(host, None)
        self._regroup()

    def split(self, sides: dict[str, int]) -> None:
        """The network falls apart, or comes together."""
        self.side = dict(sides)
        self._regroup()

    def send(self, host: str, message: LogMessage) -> None:
        """A member, or a client, sends to the group; without a member on its side the message is lost."""
        if self._changing:
            self._early.append((host, message))
            return
        view = self._views.get(host)
        if view is None:
            view = next((self._views[one] for one in self._views if self.together(one, host)), None)
        if view is not None:
            view.order.append((host, message))
            for member in view.members:
                self._plan(view, member)

    def _plan(self, view: LanView, member: LanMember) -> None:
        earliest_us = self.engine.now_us + self._dice.randint(*DELAY_US)
        at_us = max(view.last_us.get(member.host, 0), earliest_us)
        view.last_us[member.host] = at_us
        self.engine.at(at_us, self._show_next, view, member)

    def _show_next(self, view: LanView, member: LanMember) -> None:
        if self._views.get(member.host) is not view or self.members.get(member.host) is not member:
            return
        at = view.shown.get(member.host, 0)
        if at < len(view.order):
            view.shown[member.host] = at + 1
            self._show(view.order[at], member)

    def _show(self, message: tuple[str, LogMessage], member: LanMember) -> None:
        member.show(LogMessageShown(self._sender(message[0]), message[1]))

    def _sender(self, host: str) -> str:
        member = self.members.get(host)
        return f"#{host}" if member is None else member.session.private_group

    def _regroup(self) -> None:
        """Ends all views that do not hold any more, and begins others."""
        sides: dict[int, list[LanMember]] = {}
        for host, member in sorted(self.members.items()):
            sides.setdefault(self.side.get(host, 0), []).append(member)
        changed = [theirs for _, theirs in sorted(sides.items()) if not self._is_a_view(theirs)]
        self._changing = True
        for members in changed:
            self._end_views(members)
        self._views = {host: view for host, view in self._views.items() if host in self.members}
        self._changing = False
        for members in changed:
            self._begin_view(members)
        early, self._early = self._early, []
        for host, message in early:
            self.send(host, message)
        self.when_changed()

    def _is_a_view(self, members: list[LanMember]) -> bool:
        views = [self._views.get(one.host) for one in members]
        first = views[0]
        return first is not None and all(one is first for one in views) and first.members == members

    def _end_views(self, members: list[LanMember]) -> None:
        """Those that come from one view, and stay together, see the same of its end."""
        views = [self._views[one.host] for one in members if one.host in self._views]
        for view in {id(one): one for one in views}.values():
            same = [one for one in members if self._views.get(one.host) is view and one in view.members]
            if not same:
                continue
            most = max([view.shown.get(one.host, 0) for one in same])
            top = self._dice.randint(most, len(view.order))
            hosts = {one.host for one in same}
            behind = [one for one in view.order[top:] if one[0] in hosts or self._dice.random() < HEARD_BEHIND]
            for member in same:
                for message in view.order[view.shown.get(member.host, 0) : top]:
                    self._show(message, member)
                member.show(LogSignalShown())
                for message in behind:
                    self._show(message, member)

    def _begin_view(self, members: list[LanMember]) -> None:
        self._count += 1
        number = ViewId(self._count, DaemonId(0), Incarnation(0))
        everybody = tuple([one.session for one in members])
        view_id = GroupViewId(number, (), 0)
        shown = View("hopring.wide", view_id, everybody, everybody, "network", None, (everybody,))
        view = LanView(list(members))
        for member in members:
            self._views[member.host] = view
        self._changing = True
        for member in members:
            member.show(LogViewShown(shown, member.session.private_group))
        self._changing = False
