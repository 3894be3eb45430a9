"""Queries of a client to its daemon: groups, their members, the daemons' view, the daemon itself, its links.

A query is a generator: it yields questions, gets answers, and returns the result. So the asyncio and the
blocking session share it, and long lists come in pages.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

from hopring.client.arguments import got, group_named
from hopring.client.errors import NotAllowed, NotOffered, RequestRefused, WrongType
from hopring.client.events import Member, Quorum, minimum_of
from hopring.groups.names import GroupViewId
from hopring.ids import ViewId
from hopring.session.options import DENIALS, NOT_OFFERED
from hopring.session.protocol import (
    Answer,
    DaemonAnswer,
    DaemonPhase,
    GroupsPage,
    LinkLine,
    LinkProtocolName,
    LinkUse,
    LockLine,
    LocksPage,
    MembersPage,
    NoAnswer,
    PrimaryName,
    ReasonAnswer,
    ViewAnswer,
    WeightLine,
    WeightsName,
    WeightsPage,
)

Question = tuple[str, str, str]
"""The subject, the group, and the last item of the page before."""

Result = TypeVar("Result")
Query = Generator[Question, Answer | None, Result]


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A group that has members."""

    name: str
    members: int
    here: int  # Members at this daemon.
    suspended: bool = False  # Whether it is below its minimum.


@dataclass(frozen=True, slots=True)
class GroupMembers:
    """The members of a group; none, and no id, if there is no such group."""

    group: str
    id: GroupViewId | None
    members: tuple[Member, ...]
    suspended: bool = False  # Whether the group is below its minimum.
    minimum: int | Quorum = 1  # The one in force.


@dataclass(frozen=True, slots=True)
class ReasonFacts:
    """Why a view of the daemons was formed, the same at all its members."""

    kind: str  # link, ring, stall, leave, ...; start or merge if nothing was lost.
    witness: str  # The daemon that noticed.
    peer: str  # The daemon that it missed, or that left; empty if it is not known.
    link: str  # The two sites of the link, as eu-us, or the site of the ring; empty if it is neither.
    silence_seconds: float  # For how long nothing was heard, or the witness did not run.
    noticed_seconds: float  # How long before the view the witness noticed.

    @property
    def last_heard_seconds(self) -> float:
        """How long before the view the peer was heard last."""
        return self.silence_seconds + self.noticed_seconds


@dataclass(frozen=True, slots=True)
class DaemonView:
    """A view of the daemons."""

    id: ViewId
    members: tuple[str, ...]
    cause: str
    age_seconds: float
    primary_by: PrimaryName = ""  # Why the view is primary; empty if it is not.
    suspended: tuple[str, ...] = ()  # Groups below their minimum, of the present view: some of them, if many.
    reason: ReasonFacts | None = None  # The cause as facts; None if the daemon does not know it, or is older.

    @property
    def primary(self) -> bool:
        """Whether the view is primary: of several sides of a split at most one is."""
        return bool(self.primary_by)

    @property
    def text(self) -> str:
        """The id in the form of the logs."""
        return f"{self.id.counter}.{self.id.representative}.{self.id.nonce:016x}"


@dataclass(frozen=True, slots=True)
class LinkFacts:
    """A link of the daemon to another site, as seen from its end; packets are counted since the view began."""

    daemon: str  # At the other end.
    protocol: LinkProtocolName
    sent: int
    received: int
    lost: int
    nacks: int
    retransmissions: int
    round_trip_seconds: float  # 0 until it is measured.
    backlog_bytes: int


@dataclass(frozen=True, slots=True)
class LockInfo:
    """A lock that somebody claims, as the daemon knows it now."""

    name: str
    holder: Member | None  # None: it is not granted, for want of a primary view or while a lease runs out.
    fence: int | None  # The holder's.
    waiting: int  # Claims behind the holder's.


@dataclass(frozen=True, slots=True)
class ConfiguredDaemon:
    """A daemon of the configuration, in a view or not."""

    name: str
    site: str
    votes: int  # In the decision which view is primary.


@dataclass(frozen=True, slots=True)
class DaemonFacts:
    """A daemon's description of itself."""

    daemon: str
    cluster: str
    config_digest: str  # Of the part of the configuration that all daemons share.
    version: str
    phase: DaemonPhase
    uptime_seconds: float
    sessions: int
    groups: int
    ring: tuple[str, ...]  # The daemons on the ring of its site, itself included.
    links: tuple[LinkFacts, ...]
    dropped: Mapping[str, int]  # Packets refused, by reason.
    unsent: Mapping[str, int]
    cut: tuple[str, ...]  # Daemons that the admin channel has cut off here.
    shaped: tuple[str, ...]  # Daemons whose packets from here the admin channel delays or loses.
    problems: tuple[str, ...] = ()  # Missing listeners, and a spooler that does not stay up.
    configured: tuple[ConfiguredDaemon, ...] = ()  # All daemons of the configuration, by name.
    tie_site: str | None = None  # Of two halves with equal votes, that with most of this site's is primary.


@dataclass(frozen=True, slots=True)
class WeighedLink:
    """A link between two sites: its weights, and the daemon's measurements of it.

    Only the representative of a site measures, and only the links of its site; elsewhere `measured`,
    `round_trip_seconds` and `loss` are None.
    """

    sites: tuple[str, str]
    protocol: LinkProtocolName
    configured: int
    agreed: int | None  # In the daemon's present network; None if a site is not in it, or there is none.
    measured: int | None  # The expected time to deliver a packet, in microseconds, as weights are.
    round_trip_seconds: float | None
    loss: float | None  # The share of packets that were lost.
    use: LinkUse


@dataclass(frozen=True, slots=True)
class LinkWeights:
    """The weights of the links between sites, sorted by sites."""

    daemon: str
    weights: WeightsName  # As configured.
    representative: str  # Of the daemon's site, which has the links. Empty if there is no network.
    links: tuple[WeighedLink, ...]


def groups() -> Query[tuple[GroupInfo, ...]]:
    """All groups that have members, sorted by name."""
    out: list[GroupInfo] = []
    more, after = True, ""
    while more:
        page = _expect(GroupsPage, (yield "groups", "", after))
        out += [GroupInfo(one.name, one.members, one.here, one.suspended) for one in page.groups]
        more, after = page.more and bool(page.groups), out[-1].name if out else ""
    return tuple(out)


def members(group: str) -> Query[GroupMembers]:
    """The members of a group, sorted by daemon and name. If it changes meanwhile, it is read again."""
    group_named(group)
    out: list[Member] = []
    view: GroupViewId | None = None
    more = True
    while more:
        page = _expect(MembersPage, (yield "members", group, out[-1].private_group if out else ""))
        if out and page.id != view:
            out.clear()
            view = None
            continue
        view = page.id
        out += [Member(one.daemon, one.name, one.incarnation, one.session) for one in page.members]
        more = page.more and bool(page.members)
    return GroupMembers(group, view, tuple(out), page.suspended, minimum_of(page.minimum))


def locks(group: str) -> Query[tuple[LockInfo, ...]]:
    """The locks of a group that somebody claims, sorted by name."""
    group_named(group)
    out: list[LockInfo] = []
    more = True
    while more:
        page = _expect(LocksPage, (yield "locks", group, out[-1].name if out else ""))
        out += [LockInfo(one.lock, _holder(one), one.fence, one.waiting) for one in page.locks]
        more = page.more and bool(page.locks)
    return tuple(out)


def _holder(one: LockLine) -> Member | None:
    held = one.holder
    return None if held is None else Member(held.daemon, held.name, held.incarnation, held.session)


def view(after: DaemonView | None) -> Query[DaemonView]:
    """The present view; or the view that followed another, once there is one."""
    if after is not None and not isinstance(after, DaemonView):
        raise WrongType("after", got(after), "give a DaemonView that `view` has returned, or None")
    answer = _expect(ViewAnswer, (yield "view", "", "" if after is None else after.text))
    parts = answer.id, answer.members, answer.cause, answer.age_us / 1e6, answer.primary, answer.suspended
    found = DaemonView(*parts)
    return replace(found, reason=_reason((yield "reason", found.text, "")))


def _reason(answer: Answer | None) -> ReasonFacts | None:
    """The facts of an answer; a daemon that does not know the question has none."""
    if not isinstance(answer, ReasonAnswer):
        return None
    times = answer.silence_us / 1e6, answer.noticed_us / 1e6
    return ReasonFacts(answer.kind, answer.witness, answer.peer, answer.link, *times)


def daemon() -> Query[DaemonFacts]:
    """The daemon's description of itself and its links."""
    answer = _expect(DaemonAnswer, (yield "daemon", "", ""))
    return DaemonFacts(
        answer.daemon,
        answer.cluster,
        answer.config_digest,
        answer.version,
        answer.phase,
        answer.uptime_us / 1_000_000,
        answer.sessions,
        answer.groups,
        answer.ring,
        tuple([_link(one) for one in answer.links]),
        answer.dropped,
        answer.unsent,
        answer.cut,
        answer.shaped,
        answer.problems,
        tuple([ConfiguredDaemon(one.name, one.site, one.votes) for one in answer.configured]),
        answer.tie_site or None,
    )


def _link(one: LinkLine) -> LinkFacts:
    return LinkFacts(
        one.daemon,
        one.protocol,
        one.sent,
        one.received,
        one.lost,
        one.nacks,
        one.retransmissions,
        one.round_trip_us / 1_000_000,
        one.backlog_bytes,
    )


def weights() -> Query[LinkWeights]:
    """The weights of all links between sites."""
    out: list[WeighedLink] = []
    while True:
        after = ",".join(out[-1].sites) if out else ""
        page = _expect(WeightsPage, (yield "weights", "", after))
        out += [_weight(one) for one in page.links]
        if not page.more or not page.links:
            return LinkWeights(page.daemon, page.weights, page.representative, tuple(out))


def _weight(one: WeightLine) -> WeighedLink:
    return WeighedLink(
        one.sites,
        one.protocol,
        one.configured,
        one.agreed,
        one.measured,
        None if one.round_trip_us is None else one.round_trip_us / 1_000_000,
        None if one.loss_ppm is None else one.loss_ppm / 1_000_000,
        one.use,
    )


Kind = TypeVar("Kind", bound=Answer)


def _expect(kind: type[Kind], answer: Answer | None) -> Kind:
    if isinstance(answer, NoAnswer) and answer.reason in DENIALS:
        raise NotAllowed("", answer.reason, answer.remedy, "query", kind.__name__)
    if isinstance(answer, NoAnswer) and answer.reason.startswith(NOT_OFFERED):
        raise NotOffered(answer.reason, answer.remedy)
    if isinstance(answer, NoAnswer):
        raise RequestRefused("", answer.reason, answer.remedy)
    if not isinstance(answer, kind):
        raise RequestRefused(
            "", "an answer to another question", "use a client library of the daemon's version"
        )
    return answer
