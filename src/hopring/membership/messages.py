"""Messages of the membership protocol.

ALIVE, JOIN, REFER, DECLINE, LEAVE and NEWMEMB travel as datagrams, outside of all links. STATETRANS, RESEND and
DONE travel over the network of an attempt. They are msgpack arrays with a tag, decoded by strict types: a
message that does not fit its type raises `PeerError`.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise
from typing import Annotated

import msgspec

from hopring.config.model import WEIGHT_MAX
from hopring.errors import Drop, PeerError
from hopring.ids import DAEMONS_MAX, EPOCH_MAX, NOBODY, NUMBER_MAX, SITES_MAX, DaemonId, Process, SiteId, ViewId
from hopring.ordering.order import Order
from hopring.reason import ViewReason
from hopring.routing.trees import Topology

Count = Annotated[int, msgspec.Meta(ge=0)]
Daemon = Annotated[int, msgspec.Meta(ge=0, lt=DAEMONS_MAX)]
Site = Annotated[int, msgspec.Meta(ge=0, lt=SITES_MAX)]
PositionFields = tuple[Count, Annotated[int, msgspec.Meta(ge=-1, lt=SITES_MAX)]]
Epoch = Annotated[int, msgspec.Meta(ge=0, le=EPOCH_MAX)]
Voter = Annotated[int, msgspec.Meta(ge=0, le=NOBODY)]
"""A daemon that voted, or NOBODY for one that is not configured any more."""

SitePair = tuple[Site, Site]
LinkWeight = tuple[Site, Site, Annotated[int, msgspec.Meta(ge=1, le=WEIGHT_MAX)]]
"""A link (lower site, higher site) and its weight."""


def pairs(cut: Iterable[SitePair]) -> tuple[tuple[SiteId, SiteId], ...]:
    """The cut links of a message, as pairs of sites."""
    return tuple([(SiteId(one), SiteId(other)) for one, other in cut])


class DaemonAlive(msgspec.Struct, frozen=True, array_like=True, tag="A"):
    """ALIVE: the sender looks for the daemons of its site."""

    sender: Process
    counter: Count  # The highest view counter that the sender has seen.
    suspects: tuple[Process, ...] = ()
    hears: tuple[Daemon, ...] = ()  # The daemons of the site that the sender hears.
    rep: Daemon | None = None  # The representative of the sender.
    active: bool = False  # The sender is in a whole view and only reports which daemons it hears.


class GatherRecord(msgspec.Struct, frozen=True, array_like=True):
    """A representative's statement: the daemons that it represents, and the representatives that it hears."""

    rep: Process
    seq: Count  # Rises with every JOIN; a record with a lower one is outdated.
    members: tuple[Process, ...]
    hears: tuple[Daemon, ...]
    counter: Count
    cut: tuple[SitePair, ...] = ()
    left_out: tuple[Process, ...] = ()  # Processes unheard by others of its site, or breaking the protocol.
    weights: tuple[LinkWeight, ...] = ()  # Measured by this representative, of links of its own site.


class DaemonJoin(msgspec.Struct, frozen=True, array_like=True, tag="J"):
    """JOIN: a representative looks for others, and passes on the records that it knows, its own first."""

    records: tuple[GatherRecord, ...]
    active: bool = False  # The sender represents a whole view.

    @property
    def sender(self) -> Process:
        """The representative that sent it."""
        return self.records[0].rep


JOIN_BYTES = 48_000
"""Approximate limit of one JOIN, well below that of a datagram."""


def joins(own: GatherRecord, others: Iterable[GatherRecord], active: bool) -> list[DaemonJoin]:
    """The JOINs that carry these records: one, or several above `JOIN_BYTES`; each begins with `own`."""
    out: list[list[GatherRecord]] = [[own]]
    left = JOIN_BYTES - _record_bytes(own)
    for record in others:
        size = _record_bytes(record)
        if size > left and len(out[-1]) > 1:
            out.append([own])
            left = JOIN_BYTES - _record_bytes(own)
        out[-1].append(record)
        left -= size
    return [DaemonJoin(tuple(records), active) for records in out]


def _record_bytes(record: GatherRecord) -> int:
    """An upper bound of the encoded size."""
    processes = 1 + len(record.members) + len(record.left_out)
    pairs = 2 * len(record.cut) + 3 * len(record.weights)
    return 32 + 16 * processes + 3 * (len(record.hears) + pairs)


class DaemonRefer(msgspec.Struct, frozen=True, array_like=True, tag="R"):
    """REFER: another daemon represents the sender."""

    sender: Process
    rep: Daemon


class DaemonDecline(msgspec.Struct, frozen=True, array_like=True, tag="X"):
    """DECLINE: the sender does not represent the receiver, because not all of them hear each other."""

    sender: Process


class DaemonLeave(msgspec.Struct, frozen=True, array_like=True, tag="L"):
    """LEAVE: the sender stops, so that the others need not detect its silence."""

    sender: Process


class NewMemb(msgspec.Struct, frozen=True, array_like=True, tag="N"):
    """NEWMEMB: begins an attempt to form this view of these processes, over a network without the cut links.

    Links that are not among the weights have their configured weight.
    """

    view: ViewId
    members: tuple[Process, ...]
    cut: tuple[SitePair, ...] = ()
    weights: tuple[LinkWeight, ...] = ()


class HeldRun(msgspec.Struct, frozen=True, array_like=True):
    """Consecutive bundles that a daemon holds and that may be unstable; they differ in their stamps only."""

    first: Count  # The sequence of the first bundle.
    lts: Count  # The stamp of the first bundle.
    steps: tuple[Count, ...]  # For each further bundle, its stamp minus the one before.
    mask: Annotated[int, msgspec.Meta(ge=0)]
    body: bool
    safe: bool = False  # Safe and not for all sites; the other sites do not know its service.

    def stamps(self) -> list[tuple[int, int]]:
        """Sequence and stamp of each bundle."""
        out = [(self.first, self.lts)]
        for step in self.steps:
            seq, lts = out[-1]
            out.append((seq + 1, lts + step))
        return out


class SiteState(msgspec.Struct, frozen=True, array_like=True):
    """A daemon's knowledge of one site's bundles in its installed view."""

    site: Site
    cseq: Count
    next_lts: Count
    highest: Count
    bound: Count  # The sender is bound up to this sequence by some attempt.
    held: tuple[HeldRun, ...]  # Sorted by sequence.


class VotedView(msgspec.Struct, frozen=True, array_like=True):
    """A primary view, or an attempt to form one, with the processes that voted in it."""

    view: ViewId
    voters: tuple[Process, ...]
    epoch: Epoch = 0  # Its place in the chain of primary views.
    sure: bool = False  # Whether that is known to be above all earlier ones.


class EpochMark(msgspec.Struct, frozen=True, array_like=True):
    """What a daemon has on disk: the latest attempt that it voted for, and which daemons did."""

    epoch: Epoch
    voters: tuple[Voter, ...]


class PrimaryVote(msgspec.Struct, frozen=True, array_like=True):
    """A daemon's knowledge of primary views: its part in the decision whether the next view is one."""

    last: VotedView | None = None  # The latest primary that it knows to be installed.
    attempts: tuple[VotedView, ...] = ()  # Later attempts, noted by it or by others, that may have succeeded.
    marked: bool = True  # An earlier process of this daemon may have voted.
    abstains: bool = False  # It cannot write its mark, and so has no vote.
    forced: bool = False  # An operator wants the next view to be primary.
    mark: EpochMark | None = None  # On disk; None if there is none, or it is damaged.


class StateTrans(msgspec.Struct, frozen=True, array_like=True, tag="S"):
    """STATETRANS: a daemon's state at the end of its installed view."""

    view: ViewId  # The attempt.
    sender: Process
    installed: ViewId
    clock: Count
    counter: Count
    commit: tuple[Process, ...]
    aru: Count
    delivered: PositionFields  # The position of the last bundle that was delivered in order.
    sites: tuple[SiteState, ...]
    vote: PrimaryVote = PrimaryVote()
    reason: ViewReason | None = None  # Why the sender lost its view; daemons of older versions send none.


class RecoveryResend(msgspec.Struct, frozen=True, array_like=True, tag="D"):
    """RESEND: a bundle of an old view for members that lack it; without a body where only meta-data is owed."""

    view: ViewId
    installed: ViewId
    source: Site
    seq: Count
    lts: Count
    mask: Annotated[int, msgspec.Meta(ge=0)]
    prev: Count
    body: bytes | None


class RecoveryDone(msgspec.Struct, frozen=True, array_like=True, tag="E"):
    """DONE: the sender has every bundle that can be recovered, and is bound to the attempt's decision."""

    view: ViewId


VOTED_VIEWS_MAX = 32
"""Limit of the primary views of one vote: more than any daemon has."""

NEWMEMB_BYTES_MAX = 59_000
"""Limit of a NEWMEMB with weights, below that of a datagram."""

CLOCK_AHEAD_MAX = 1 << 48
"""The clock of a daemon that comes from another view is at most this far ahead.

A daemon that starts begins at 0, and the others may have run for long: this is 89 years at 100,000 bundles/s.
"""

DaemonMessage = DaemonAlive | DaemonJoin | DaemonRefer | DaemonDecline | DaemonLeave | NewMemb
RecoveryMessage = StateTrans | RecoveryResend | RecoveryDone

_encoder = msgspec.msgpack.Encoder()
_daemon_decoder: msgspec.msgpack.Decoder[DaemonMessage] = msgspec.msgpack.Decoder(DaemonMessage)
_recovery_decoder: msgspec.msgpack.Decoder[RecoveryMessage] = msgspec.msgpack.Decoder(RecoveryMessage)


def encode_membership_message(message: DaemonMessage | RecoveryMessage) -> bytes:
    """Encodes a message for datagrams or for the network of an attempt."""
    return _encoder.encode(message)


def decode_daemon_message(payload: bytes) -> DaemonMessage:
    """Decodes a message that came as a datagram."""
    try:
        message = _daemon_decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PeerError(Drop.INCONSISTENT, f"membership message: {error}") from None
    if isinstance(message, DaemonJoin) and not message.records:
        raise PeerError(Drop.INCONSISTENT, "JOIN without a record")
    return message


def has_heard(message: DaemonAlive | DaemonJoin, me: Process) -> bool:
    """Whether the sender says that it has heard this daemon, so that it takes part in the same search."""
    if isinstance(message, DaemonAlive):
        return me.daemon in message.hears
    own = message.records[0]
    return me.daemon in own.hears or me in own.members


def check_received(
    sender: Process, message: DaemonMessage, me: Process, topology: Topology, site_of: Mapping[DaemonId, SiteId]
) -> None:
    """Refuses a message that this sender does not send, or that no daemon of this cluster sends."""
    if sender.daemon == me.daemon:
        raise PeerError(Drop.FOREIGN_SENDER, "a sender with the number of this daemon")
    if isinstance(message, NewMemb):
        if sender not in message.members:
            raise PeerError(Drop.FOREIGN_SENDER, f"NEWMEMB from daemon {sender.daemon}, which is no member")
    elif message.sender != sender:
        text = f"daemon {sender.daemon} sends as daemon {message.sender.daemon}"
        raise PeerError(Drop.FOREIGN_SENDER, text)
    check_daemon_message(message, site_of)
    if isinstance(message, NewMemb | DaemonJoin):
        check_weights(message, topology)


def check_daemon_message(message: DaemonMessage, site_of: Mapping[DaemonId, SiteId]) -> None:
    """Refuses a message with unconfigured daemons, reversed links or a number beyond the last one."""
    counter, pairs = 0, list[SitePair]()
    match message:
        case DaemonAlive():
            processes, counter = [message.sender, *message.suspects], message.counter
            named = [*message.hears, *([] if message.rep is None else [message.rep])]
            if any(one not in site_of for one in named):
                raise PeerError(Drop.FOREIGN_SENDER, "ALIVE with daemons that are not configured")
        case DaemonJoin():
            records = message.records
            processes = [one for record in records for one in (record.rep, *record.members, *record.left_out)]
            counter = max(max(record.counter, record.seq) for record in records)
            if any(one not in site_of for record in records for one in record.hears):
                raise PeerError(Drop.FOREIGN_SENDER, "JOIN with daemons that are not configured")
            pairs = [ends for record in records for ends in record.cut]
        case DaemonRefer():
            processes = [message.sender, Process(DaemonId(message.rep), message.sender.incarnation)]
        case DaemonLeave() | DaemonDecline():
            processes = [message.sender]
        case NewMemb():
            processes, counter, pairs = list(message.members), message.view.counter, list(message.cut)
    if any(one.daemon not in site_of or not is_incarnation(one) for one in processes):
        raise PeerError(Drop.FOREIGN_SENDER, "a message that names daemons that are not configured")
    if isinstance(message, NewMemb):
        _check_newmemb(message, site_of)
    if any(one >= other for one, other in pairs):
        raise PeerError(Drop.INCONSISTENT, "a cut link with its ends in the wrong order")
    if counter > NUMBER_MAX:
        raise PeerError(Drop.OUT_OF_WINDOW, f"view counter or record {counter}")


def _check_newmemb(message: NewMemb, site_of: Mapping[DaemonId, SiteId]) -> None:
    """Refuses a view that no representative forms; its daemons are configured."""
    members = message.members
    if len({one.daemon for one in members}) != len(members) or list(members) != sorted(members):
        raise PeerError(Drop.INCONSISTENT, "NEWMEMB with members that are not in order, or with one twice")
    if Process(message.view.representative, message.view.nonce) not in members:
        representative = message.view.representative
        raise PeerError(
            Drop.INCONSISTENT, f"NEWMEMB of daemon {representative}, which is no member of the view"
        )
    sites = {site_of[one.daemon] for one in members}
    links = [*message.cut, *[(one, other) for one, other, _ in message.weights]]
    if not sites.issuperset([SiteId(site) for ends in links for site in ends]):
        raise PeerError(Drop.INCONSISTENT, "NEWMEMB with links of sites that are not in the view")
    if len(set(message.cut)) != len(message.cut):
        raise PeerError(Drop.INCONSISTENT, "NEWMEMB with a cut link twice")


def newmemb(
    view: ViewId, members: tuple[Process, ...], cut: tuple[SitePair, ...], weights: tuple[LinkWeight, ...]
) -> NewMemb:
    """A NEWMEMB; without weights if they do not fit beside thousands of members."""
    message = NewMemb(view, members, cut, weights)
    return (
        message if len(encode_membership_message(message)) <= NEWMEMB_BYTES_MAX else NewMemb(view, members, cut)
    )


def check_weights(message: DaemonJoin | NewMemb, topology: Topology) -> None:
    """Refuses weights of unconfigured links and, in a record, weights of another site's links."""
    if isinstance(message, NewMemb):
        _check_links(message.weights, topology)
        return
    for record in message.records:
        _check_links(record.weights, topology)
        site = topology.site_of[record.rep.daemon]
        if any(site not in (one, other) for one, other, _ in record.weights):
            raise PeerError(
                Drop.INCONSISTENT, f"daemon {record.rep.daemon} reports a link that is not of its site"
            )


def _check_links(weights: tuple[LinkWeight, ...], topology: Topology) -> None:
    if weights and not topology.measured:
        raise PeerError(Drop.INCONSISTENT, "measured weights in a cluster with configured weights")
    links = [(SiteId(one), SiteId(other)) for one, other, _ in weights]
    if len(set(links)) != len(links):
        raise PeerError(Drop.INCONSISTENT, "two weights of one link")
    for ends in links:
        if ends not in topology.links:
            raise PeerError(Drop.INCONSISTENT, f"a weight of a link that is not configured, {ends}")


def check_state(state: StateTrans, site_of: Mapping[DaemonId, SiteId]) -> None:
    """Refuses a state that contradicts itself, or that names daemons that are not configured."""
    if max(state.aru, state.delivered[0]) > state.clock + 1:
        raise PeerError(Drop.INCONSISTENT, f"STATETRANS with lines beyond its own clock, {state.clock}")
    if max(state.clock, state.counter, *[one.highest for one in state.sites], 0) > NUMBER_MAX:
        raise PeerError(Drop.OUT_OF_WINDOW, "STATETRANS with numbers beyond NUMBER_MAX")
    if len({one.site for one in state.sites}) != len(state.sites):
        raise PeerError(Drop.INCONSISTENT, "STATETRANS with two states of one site")
    if any(one.daemon not in site_of or not is_incarnation(one) for one in state.commit):
        raise PeerError(Drop.FOREIGN_SENDER, "STATETRANS committed to daemons that are not configured")
    for one in state.sites:
        if one.cseq > one.highest:
            raise PeerError(Drop.INCONSISTENT, f"STATETRANS with more than all bundles of site {one.site}")
        if one.bound > one.highest:
            raise PeerError(Drop.INCONSISTENT, f"STATETRANS bound to bundle {one.bound} of site {one.site}")
        _check_runs(one, state.clock)
    _check_vote(state)


def _check_vote(state: StateTrans) -> None:
    """Refuses a vote whose views do not rise, or that names more than a cluster has."""
    vote = state.vote
    views = [*([] if vote.last is None else [vote.last]), *vote.attempts]
    if len(views) > VOTED_VIEWS_MAX or any(len(one.voters) > DAEMONS_MAX for one in views):
        raise PeerError(Drop.LIMIT, f"STATETRANS with {len(views)} primary views")
    ids = [one.view for one in views]
    if any(one >= other for one, other in pairwise(ids)) or any(one >= state.view for one in ids):
        raise PeerError(Drop.INCONSISTENT, "STATETRANS with primary views that do not rise")
    if any(not is_incarnation(one) for voted in views for one in voted.voters):
        raise PeerError(Drop.INCONSISTENT, "STATETRANS with a voter that no header can carry")
    if vote.mark is not None and len(vote.mark.voters) > DAEMONS_MAX:
        raise PeerError(Drop.LIMIT, f"STATETRANS with a mark of {len(vote.mark.voters)} voters")


def check_reach(state: StateTrans, members: Collection[Process], order: Order) -> None:
    """Refuses a state of the same view with more than the members can have sent beyond this daemon's order."""
    if state.clock > order.clock + order.in_flight_max:
        raise PeerError(Drop.OUT_OF_WINDOW, f"STATETRANS with clock {state.clock}, ours is at {order.clock}")
    if state.sender not in members or not set(state.commit).issubset(members):
        raise PeerError(Drop.INCONSISTENT, "STATETRANS of a view with other members")
    for one in state.sites:
        line = order.lines.get(SiteId(one.site))
        if line is None:
            raise PeerError(Drop.INCONSISTENT, f"STATETRANS about site {one.site}, which is not in the view")
        if one.highest > line.cseq + order.in_flight_max:
            problem = (
                f"STATETRANS with bundle {one.highest} of site {one.site}, ours are received to {line.cseq}"
            )
            raise PeerError(Drop.OUT_OF_WINDOW, problem)


def is_incarnation(process: Process) -> bool:
    """Whether the incarnation of a process fits the 64 bits of a header."""
    return 0 <= process.incarnation < 1 << 64


def _check_runs(state: SiteState, clock: int) -> None:
    """Refuses runs whose sequences or stamps do not rise, or exceed the sender's own `highest` or clock."""
    seq = lts = 0
    for run in state.held:
        if run.first <= seq or run.lts <= lts or 0 in run.steps:
            raise PeerError(
                Drop.INCONSISTENT, f"STATETRANS: bundle {run.first} of site {state.site} after {seq}"
            )
        seq = run.first + len(run.steps)
        lts = run.lts + sum(run.steps)
    if seq > state.highest or max(lts, state.next_lts - 1) > clock:
        raise PeerError(Drop.INCONSISTENT, f"STATETRANS: bundle {seq} of site {state.site} is out of reach")


def decode_recovery_message(payload: bytes) -> RecoveryMessage:
    """Decodes a message that came over an attempt's network."""
    try:
        return _recovery_decoder.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PeerError(Drop.INCONSISTENT, f"membership message: {error}") from None
