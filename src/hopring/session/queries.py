"""Answers queries of clients about the daemon; no join is needed, and answers are not ordered.

Invariants  one answer at a time, round robin over the sessions, with a pause after each that grows with its
            cost; a session that does not take its answers waits. So a flood of queries slows down only its
            sender. A query is charged to its session's window until it is answered.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from hopring.engine import Installed
from hopring.groups.interface import GroupsInterface
from hopring.groups.locks import LockState
from hopring.groups.names import GroupMember
from hopring.groups.private_groups import split_private
from hopring.ids import NEVER, DaemonId, GroupName, ViewId
from hopring.reason import reason_names
from hopring.session.grants import ClientRights
from hopring.session.options import NOT_OFFERED, REQUEST_COST_BYTES
from hopring.session.protocol import (
    Answer,
    DaemonAnswer,
    GroupLine,
    GroupsPage,
    LockLine,
    LocksPage,
    MembersPage,
    NoAnswer,
    QueryReply,
    QueryRequest,
    ReasonAnswer,
    ViewAnswer,
    WeightsPage,
    encode_answer,
)
from hopring.session.render import member_entry
from hopring.session.session import ConnectedSession

PAGE_ITEMS: Final = 512
PAUSE_US: Final = 1_000
PAUSE_US_PER_ITEM: Final = 1
"""A page is found by sorting, so its cost grows with the number of groups or members."""

UNTAKEN_MAX: Final = 4
"""A session with this many untaken control frames gets no further answer; one or two are just in transit."""

UNTAKEN_US: Final = 50_000
"""The delay until a session with UNTAKEN_MAX frames is checked again."""

SUSPENDED_SHOWN: Final = 64
"""Suspended groups that a view names."""

VIEWS_KEPT: Final = 64
"""Past views that clients can still ask for one by one."""


_OF_DAEMONS: Final = frozenset({"view", "reason", "daemon", "weights"})


@dataclass(slots=True)
class Queries:
    """The pending queries of all sessions of a daemon."""

    groups: GroupsInterface
    rights: Callable[[ConnectedSession], ClientRights | None] = lambda _: None  # None: no grants.
    describe: Callable[[], DaemonAnswer] | None = None  # Set by the driver: this package knows neither the
    weigh: Callable[[], WeightsPage] | None = None  # daemon's description nor its links.
    page_items: int = PAGE_ITEMS
    _asked: dict[int, deque[QueryRequest]] = field(default_factory=dict)
    _watching: dict[int, QueryRequest] = field(default_factory=dict)  # Waiting for another view, uncharged.
    _waiting: deque[int] = field(default_factory=deque)
    _next_us: int = 0
    _views: deque[tuple[Installed, int]] = field(default_factory=lambda: deque(maxlen=VIEWS_KEPT))

    @property
    def wake_at_us(self) -> int:
        """The time of the next answer."""
        return self._next_us if self._waiting else NEVER

    def queued_bytes(self, number: int) -> int:
        """The bytes of a session's window that its queries take."""
        return len(self._asked.get(number, ())) * REQUEST_COST_BYTES

    def ask(self, number: int, question: QueryRequest) -> None:
        """Adds a query of a session."""
        awaits = question.what == "view" and question.after and self.groups.has_daemons
        if awaits and not self._later(question.after):
            # One for each session: an earlier one is not answered.
            self._watching[number] = question
            return
        asked = self._asked.setdefault(number, deque())
        if not asked:
            self._waiting.append(number)
        asked.append(question)

    def installed(self, event: Installed, now_us: int) -> None:
        """Records a new view, and queues the queries that waited for it."""
        self._views.append((event, now_us))
        watching, self._watching = self._watching, {}
        for number, question in watching.items():
            self.ask(number, question)

    def forget_views(self) -> None:
        """Drops past views, because the daemons have been renumbered."""
        self._views.clear()

    def tick(self, sessions: Mapping[int, ConnectedSession], now_us: int) -> ConnectedSession | None:
        """Answers one query if it is time; returns the session that has an answer to take."""
        if now_us < self._next_us or not self._waiting:
            return None
        for _ in range(len(self._waiting)):
            number = self._waiting.popleft()
            session = sessions.get(number)
            if session is None:
                self.forget(number)
            elif len(session.control_queue) >= UNTAKEN_MAX:
                self._waiting.append(number)
            else:
                self._answer(session, now_us)
                return session
        self._next_us = now_us + UNTAKEN_US
        return None

    def forget(self, number: int) -> None:
        """Drops the queries of a session that has ended."""
        self._asked.pop(number, None)
        self._watching.pop(number, None)

    def _answer(self, session: ConnectedSession, now_us: int) -> None:
        asked = self._asked[session.number]
        if asked[0].what in ("members", "locks") and not self.groups.finds(GroupName(asked[0].name), now_us):
            self._waiting.append(session.number)
            self._next_us = now_us + UNTAKEN_US
            return
        question = asked.popleft()
        if asked:
            self._waiting.append(session.number)
        else:
            del self._asked[session.number]
        answer, cost = self._compose(session, question, now_us)
        self._next_us = now_us + PAUSE_US + cost * PAUSE_US_PER_ITEM
        session.send_control(QueryReply(question.serial, encode_answer(answer)))

    def _compose(self, session: ConnectedSession, question: QueryRequest, now_us: int) -> tuple[Answer, int]:
        """The answer, and its cost in items."""
        if question.what in _OF_DAEMONS and not self.groups.has_daemons:
            return NoAnswer(f"{NOT_OFFERED}: views and links of daemons", "ask for members of groups"), 0
        match question.what:
            case "groups":
                return self._groups(question.after, self.rights(session)), len(self.groups.table.groups)
            case "members":
                return self._members(GroupName(question.name), question.after)
            case "locks":
                return self._locks(GroupName(question.name), question.after)
            case "view":
                return self._view(question.after, self.rights(session), now_us), len(self.groups.suspended)
            case "reason":
                return self._reason(question.name), 0
            case "daemon" if self.describe is not None:
                return self.describe(), 0
            case "weights" if self.weigh is not None:
                whole = self.weigh()
                return self._weights(whole, question.after), len(whole.links)
            case _:
                return NoAnswer(f"unknown question {question.what}", "use a daemon of the client's version"), 0

    def _groups(self, after: str, rights: ClientRights | None) -> GroupsPage:
        table = self.groups.table.groups
        names = sorted([name for name in table if name > after and (rights is None or rights.may_see(name))])
        lines = [
            GroupLine(one, len(table[one].members), len(table[one].local), table[one].suspended)
            for one in names[: self.page_items]
        ]
        return GroupsPage(tuple(lines), len(names) > self.page_items)

    def _members(self, name: GroupName, after: str) -> tuple[Answer, int]:
        group = self.groups.table.groups.get(name)
        if group is None:
            return MembersPage(name, None, (), False), 0
        members = group.listed()
        rest = [one for one in members if _place(one) > self._last(after)] if after else list(members)
        page = tuple([member_entry(one, self.groups.names) for one in rest[: self.page_items]])
        minimum = group.suspended, group.minimum_in_force
        return MembersPage(name, group.id, page, len(rest) > self.page_items, *minimum), len(members)

    def _locks(self, name: GroupName, after: str) -> tuple[Answer, int]:
        locks = self.groups.lock_states(name)
        if locks is None:
            return NoAnswer("locks are not listed here", "ask a daemon"), 0
        rest = [one for one in locks if one.name > after]
        page = tuple([self._lock_line(one) for one in rest[: self.page_items]])
        return LocksPage(name, page, len(rest) > self.page_items), len(locks)

    def _lock_line(self, one: LockState) -> LockLine:
        holder = None if one.holder is None else member_entry(one.holder, self.groups.names)
        return LockLine(one.name, holder, None if one.fence is None else one.fence.number, one.waiting)

    def _weights(self, whole: WeightsPage, after: str) -> WeightsPage:
        rest = [one for one in whole.links if list(one.sites) > after.split(",")]
        page, more = tuple(rest[: self.page_items]), len(rest) > self.page_items
        return WeightsPage(whole.daemon, whole.weights, whole.representative, page, more)

    def _last(self, private: str) -> tuple[int, str]:
        session, daemon = split_private(GroupName(private))
        number = self.groups.names.index(daemon) if daemon in self.groups.names else len(self.groups.names)
        return number, session

    def _later(self, after: str) -> int:
        """The number of views after this one; all known views if it is not among them."""
        for count, (event, _) in enumerate(reversed(self._views)):
            if view_text(event.view) == after:
                return count
        return len(self._views)

    def _view(self, after: str, rights: ClientRights | None, now_us: int) -> Answer:
        if not self._views:
            return NoAnswer("no view yet", "ask again")
        later = self._later(after) if after else 1
        event, at_us = self._views[-later]
        members = tuple([self.groups.names[one.daemon] for one in event.members])
        parts = event.cause[:1024], now_us - at_us, later == 1
        groups = sorted([one for one in self.groups.suspended if rights is None or rights.may_see(one)])
        suspended = tuple(groups[:SUSPENDED_SHOWN]) if later == 1 else ()
        return ViewAnswer(event.view, members, *parts, event.primary.value, suspended)

    def _reason(self, view: str) -> Answer:
        """Why a view was formed, with names; sites are those of the daemon's description."""
        event = next((one for one, _ in self._views if view_text(one.view) == view), None)
        if event is None or event.reason is None:
            return NoAnswer(f"the reason of view {view[:64]} is not known here", "read the daemon's log")
        described = () if self.describe is None else self.describe().configured
        sites = {line.name: line.site for line in described}
        names = dict(enumerate(self.groups.names))
        facts = reason_names(event.reason, names, {one: sites.get(name, "") for one, name in names.items()})
        return ReasonAnswer(event.reason.kind, *facts, event.reason.silence_us, event.reason.noticed_us)


def view_text(view: ViewId) -> str:
    """A view's id as text, for people and for `after` in queries."""
    return f"{view.counter}.{view.representative}.{view.nonce:016x}"


def _place(member: GroupMember) -> tuple[DaemonId, str]:
    return member.daemon, member.name
