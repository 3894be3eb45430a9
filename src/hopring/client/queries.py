"""What a client can ask of its daemon: its groups, their members, the daemons' view, the daemon itself.

A query is a generator: it yields what is to be asked, gets what was told, and returns the result. So both
shells ask in the same way, and long lists come in pages.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeVar

from hopring.client.arguments import got, group_named
from hopring.client.errors import RequestRefused, WrongType
from hopring.client.events import Member
from hopring.groups.names import GroupViewId
from hopring.ids import ViewId
from hopring.session.answers import (
    DaemonFacts,
    GroupsPage,
    MembersPage,
    NoAnswer,
    Told,
    ViewFacts,
)

Question = tuple[str, str, str]
"""What, which group, and after what."""

Result = TypeVar("Result")
Query = Generator[Question, Told | None, Result]


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A group that has members."""

    name: str
    members: int
    here: int  # Of them at this daemon.


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """Who is in a group; nobody, and no id, if there is no such group."""

    group: str
    id: GroupViewId | None
    members: tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class DaemonView:
    """The view of the daemons."""

    id: ViewId
    members: tuple[str, ...]
    cause: str
    age_seconds: float

    @property
    def text(self) -> str:
        """The id as logs have it."""
        return f"{self.id.counter}.{self.id.representative}.{self.id.nonce:016x}"


def groups() -> Query[tuple[GroupInfo, ...]]:
    """All groups that have members, by name."""
    out: list[GroupInfo] = []
    more, after = True, ""
    while more:
        page = _told(GroupsPage, (yield "groups", "", after))
        out += [GroupInfo(one.name, one.members, one.here) for one in page.groups]
        more, after = page.more and bool(page.groups), out[-1].name if out else ""
    return tuple(out)


def members(group: str) -> Query[GroupMembers]:
    """The members of a group, by daemon and name. If it changes meanwhile, it is read again from the start."""
    group_named(group)
    out: list[Member] = []
    view: GroupViewId | None = None
    more = True
    while more:
        page = _told(MembersPage, (yield "members", group, out[-1].private_group if out else ""))
        if out and page.id != view:
            out.clear()
            view = None
            continue
        view = page.id
        out += [Member(one.daemon, one.name, one.incarnation, one.session) for one in page.members]
        more = page.more and bool(page.members)
    return GroupMembers(group, view, tuple(out))


def view(after: DaemonView | None) -> Query[DaemonView]:
    """The present view; or, once there is one, the view that followed another."""
    if after is not None and not isinstance(after, DaemonView):
        raise WrongType("after", got(after), "give a DaemonView that `view` has returned, or None")
    told = _told(ViewFacts, (yield "view", "", "" if after is None else after.text))
    return DaemonView(told.id, tuple([one.name for one in told.members]), told.cause, told.age_us / 1e6)


def daemon() -> Query[DaemonFacts]:
    """What the daemon knows of itself and of its links."""
    return _told(DaemonFacts, (yield "daemon", "", ""))


Kind = TypeVar("Kind", bound=Told)


def _told(kind: type[Kind], told: Told | None) -> Kind:
    if isinstance(told, NoAnswer):
        raise RequestRefused("", told.reason, told.remedy)
    if not isinstance(told, kind):
        raise RequestRefused(
            "", "an answer to another question", "use a client library of the daemon's version"
        )
    return told
