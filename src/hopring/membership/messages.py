"""The words of membership: ALIVE, JOIN, REFER, DECLINE, LEAVE and NEWMEMB as datagrams, others over a network.

Encoded with msgspec, strictly typed; what does not fit its type is a peer's mistake.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Annotated

import msgspec

from hopring.config.model import WEIGHT_MAX
from hopring.errors import Drop, PeerError
from hopring.ids import DAEMONS_MAX, NUMBER_MAX, SITES_MAX, DaemonId, Process, SiteId, ViewId
from hopring.routing.topology import Topology

Count = Annotated[int, msgspec.Meta(ge=0)]
Daemon = Annotated[int, msgspec.Meta(ge=0, lt=DAEMONS_MAX)]
Site = Annotated[int, msgspec.Meta(ge=0, lt=SITES_MAX)]
Place = tuple[Count, Annotated[int, msgspec.Meta(ge=-1, lt=SITES_MAX)]]
SitePair = tuple[Site, Site]
LinkWeight = tuple[Site, Site, Annotated[int, msgspec.Meta(ge=1, le=WEIGHT_MAX)]]
"""A link, by its lower and its higher site, and its weight."""


class DaemonAlive(msgspec.Struct, frozen=True, array_like=True, tag="A"):
    """I look for the daemons of my site. `counter` is the highest view counter the sender has seen."""

    sender: Process
    counter: Count
    suspects: tuple[Process, ...] = ()
    hears: tuple[Daemon, ...] = ()  # The daemons of the site that the sender hears.
    rep: Daemon | None = None  # Who represents the sender.
    active: bool = False  # The sender is in a view that is whole, and only says whom it hears.


class GatherRecord(msgspec.Struct, frozen=True, array_like=True):
    """What a representative says of itself: whom it stands for, and which representatives it hears."""

    rep: Process
    seq: Count  # Grows with every saying; a lower one is old news.
    members: tuple[Process, ...]
    hears: tuple[Daemon, ...]
    counter: Count
    cut: tuple[SitePair, ...] = ()
    left_out: tuple[Process, ...] = ()  # Whom others of its site do not hear, and who breaks the protocol.
    weights: tuple[LinkWeight, ...] = ()  # As it measured them, of links of its own site.


class DaemonJoin(msgspec.Struct, frozen=True, array_like=True, tag="J"):
    """Representatives look for each other; everybody passes on what it knows, its own record first."""

    records: tuple[GatherRecord, ...]
    active: bool = False  # The sender stands for a view that is whole.

    @property
    def sender(self) -> Process:
        """Who says it."""
        return self.records[0].rep


JOIN_BYTES = 48_000
"""About so much goes into one JOIN, well below what a datagram takes."""


def joins(own: GatherRecord, others: Iterable[GatherRecord], active: bool) -> list[DaemonJoin]:
    """All that a representative has to say: in one JOIN, unless there is so much that it takes more of them."""
    out: list[list[GatherRecord]] = [[own]]
    room = JOIN_BYTES - _record_bytes(own)
    for record in others:
        size = _record_bytes(record)
        if size > room and len(out[-1]) > 1:
            out.append([own])
            room = JOIN_BYTES - _record_bytes(own)
        out[-1].append(record)
        room -= size
    return [DaemonJoin(tuple(records), active) for records in out]


def _record_bytes(record: GatherRecord) -> int:
    """At most so much, as msgpack has it."""
    processes = 1 + len(record.members) + len(record.left_out)
    pairs = 2 * len(record.cut) + 3 * len(record.weights)
    return 32 + 16 * processes + 3 * (len(record.hears) + pairs)


class DaemonRefer(msgspec.Struct, frozen=True, array_like=True, tag="R"):
    """Not me: that one speaks for us."""

    sender: Process
    rep: Daemon


class DaemonDecline(msgspec.Struct, frozen=True, array_like=True, tag="X"):
    """I do not represent you: some of those whom I represent do not hear you, or you do not hear them."""

    sender: Process


class DaemonLeave(msgspec.Struct, frozen=True, array_like=True, tag="L"):
    """I go: nobody needs to wait until my silence is noticed."""

    sender: Process


class NewMemb(msgspec.Struct, frozen=True, array_like=True, tag="N"):
    """The attempt: these processes shall form this view, over a network without the cut links.

    Of links that are not among the weights, the configured one holds.
    """

    view: ViewId
    members: tuple[Process, ...]
    cut: tuple[SitePair, ...] = ()
    weights: tuple[LinkWeight, ...] = ()


class HeldRun(msgspec.Struct, frozen=True, array_like=True):
    """Bundles in a row that a daemon has and that may not be stable yet, alike but for their stamps."""

    first: Count  # Their sequences go on from here.
    lts: Count  # Of the first;
    steps: tuple[Count, ...]  # and of each further one, how much higher than the one before.
    mask: Annotated[int, msgspec.Meta(ge=0)]
    body: bool
    safe: bool = False  # Safe, and not for all sites: those whom it is not for do not know that.

    def stamps(self) -> list[tuple[int, int]]:
        """The sequence and the stamp of each."""
        out = [(self.first, self.lts)]
        for step in self.steps:
            seq, lts = out[-1]
            out.append((seq + 1, lts + step))
        return out


class SiteState(msgspec.Struct, frozen=True, array_like=True):
    """What a daemon knows of one site's bundles in its installed view."""

    site: Site
    cseq: Count
    next_lts: Count
    highest: Count
    line: Count  # Up to this sequence the sender has given its word in some attempt.
    held: tuple[HeldRun, ...]  # In the order of sequences.


class StateTrans(msgspec.Struct, frozen=True, array_like=True, tag="S"):
    """A daemon's state at the end of its installed view."""

    view: ViewId  # The attempt.
    sender: Process
    installed: ViewId
    clock: Count
    counter: Count
    commit: tuple[Process, ...]
    aru: Count
    delivered: Place
    sites: tuple[SiteState, ...]


class RecoveryResend(msgspec.Struct, frozen=True, array_like=True, tag="D"):
    """A bundle of an old view that some of its members lack; without a body where only meta-data is owed."""

    view: ViewId
    installed: ViewId
    source: Site
    seq: Count
    lts: Count
    mask: Annotated[int, msgspec.Meta(ge=0)]
    prev: Count
    body: bytes | None


class RecoveryDone(msgspec.Struct, frozen=True, array_like=True, tag="E"):
    """The sender has all that can be had, and is bound to this attempt's decisions."""

    view: ViewId


NEWMEMB_BYTES_MAX = 59_000
"""Most that a NEWMEMB with weights may take, below what a datagram does."""

UNSEEN_MAX = 1 << 20
"""More bundles than all windows together can hold."""

DaemonMessage = DaemonAlive | DaemonJoin | DaemonRefer | DaemonDecline | DaemonLeave | NewMemb
RecoveryMessage = StateTrans | RecoveryResend | RecoveryDone

_encoder = msgspec.msgpack.Encoder()
_datagrams: msgspec.msgpack.Decoder[DaemonMessage] = msgspec.msgpack.Decoder(DaemonMessage)
_told: msgspec.msgpack.Decoder[RecoveryMessage] = msgspec.msgpack.Decoder(RecoveryMessage)


def encode_control(word: DaemonMessage | RecoveryMessage) -> bytes:
    """A word as bytes."""
    return _encoder.encode(word)


def decode_daemon_message(payload: bytes) -> DaemonMessage:
    """A word that came as a datagram."""
    try:
        word = _datagrams.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PeerError(Drop.INCONSISTENT, f"membership word: {error}") from None
    if isinstance(word, DaemonJoin) and not word.records:
        raise PeerError(Drop.INCONSISTENT, "JOIN without a record")
    return word


def check_daemon_message(word: DaemonMessage, site_of: Mapping[DaemonId, SiteId], counter_max: int) -> None:
    """Refuses a word that names daemons or sites nobody knows, or a counter that nobody can have reached."""
    match word:
        case DaemonAlive():
            processes, counter = [word.sender, *word.suspects], word.counter
            if any(one not in site_of for one in (*word.hears, *(() if word.rep is None else (word.rep,)))):
                raise PeerError(Drop.FOREIGN_SENDER, "ALIVE with daemons that are not configured")
            pairs: list[SitePair] = []
        case DaemonJoin():
            processes = [
                one for record in word.records for one in (record.rep, *record.members, *record.left_out)
            ]
            counter = max(record.counter for record in word.records)
            pairs = [ends for record in word.records for ends in record.cut]
        case DaemonRefer():
            processes, counter, pairs = (
                [word.sender, Process(DaemonId(word.rep), word.sender.incarnation)],
                0,
                [],
            )
        case DaemonLeave() | DaemonDecline():
            processes, counter, pairs = [word.sender], 0, []
        case NewMemb():
            processes, counter, pairs = list(word.members), word.view.counter, list(word.cut)
            if len({one.daemon for one in processes}) != len(processes):
                raise PeerError(Drop.INCONSISTENT, "NEWMEMB with two lives of one daemon")
    if any(one.daemon not in site_of for one in processes):
        raise PeerError(Drop.FOREIGN_SENDER, "a word of daemons that are not configured")
    if any(one >= other for one, other in pairs):
        raise PeerError(Drop.INCONSISTENT, "a cut link that names its ends the wrong way round")
    if counter > min(counter_max, NUMBER_MAX):
        raise PeerError(Drop.OUT_OF_WINDOW, f"view counter {counter}")


def newmemb(
    view: ViewId, members: tuple[Process, ...], cut: tuple[SitePair, ...], weights: tuple[LinkWeight, ...]
) -> NewMemb:
    """The word that begins an attempt; without weights if they do not fit beside thousands of members."""
    word = NewMemb(view, members, cut, weights)
    return word if len(encode_control(word)) <= NEWMEMB_BYTES_MAX else NewMemb(view, members, cut)


def check_weights(word: DaemonJoin | NewMemb, topology: Topology) -> None:
    """Refuses weights of links that are not configured, or in a record those of another site's links."""
    if isinstance(word, NewMemb):
        _check_links(word.weights, topology)
        return
    for record in word.records:
        _check_links(record.weights, topology)
        site = topology.site_of[record.rep.daemon]
        if any(site not in (one, other) for one, other, _ in record.weights):
            raise PeerError(
                Drop.INCONSISTENT, f"daemon {record.rep.daemon} reports a link that is not of its site"
            )


def _check_links(weights: tuple[LinkWeight, ...], topology: Topology) -> None:
    if weights and not topology.measured:
        raise PeerError(Drop.INCONSISTENT, "measured weights, where the configured ones hold")
    links = [(SiteId(one), SiteId(other)) for one, other, _ in weights]
    if len(set(links)) != len(links):
        raise PeerError(Drop.INCONSISTENT, "two weights of one link")
    for ends in links:
        if ends not in topology.links:
            raise PeerError(Drop.INCONSISTENT, f"a weight of a link that is not configured, {ends}")


def check_state(state: StateTrans, sites: Collection[SiteId] | None) -> None:
    """Refuses a state that cannot be: of sites outside the view, with sequences or stamps beyond any reach."""
    if max(state.aru, state.delivered[0]) > state.clock + 1:
        raise PeerError(Drop.INCONSISTENT, f"STATETRANS with lines beyond its own clock, {state.clock}")
    for one in state.sites:
        if sites is not None and one.site not in sites:
            raise PeerError(Drop.INCONSISTENT, f"STATETRANS about site {one.site}, which is not in the view")
        if one.highest - one.cseq > UNSEEN_MAX:
            raise PeerError(Drop.OUT_OF_WINDOW, f"STATETRANS with {one.highest - one.cseq} bundles missing")
        if one.line > max(one.highest, one.cseq):
            raise PeerError(Drop.INCONSISTENT, f"STATETRANS bound to bundle {one.line} of site {one.site}")
        _check_runs(one, state.clock)


def _check_runs(state: SiteState, clock: int) -> None:
    """Sequences and stamps rise, and stay below what the sender itself says of the site and of its clock."""
    seq = lts = 0
    for run in state.held:
        if run.first <= seq or run.lts <= lts or 0 in run.steps:
            raise PeerError(
                Drop.INCONSISTENT, f"STATETRANS: bundle {run.first} of site {state.site} after {seq}"
            )
        seq = run.first + len(run.steps)
        lts = run.lts + sum(run.steps)
    if seq > max(state.highest, state.cseq) or max(lts, state.next_lts - 1) > clock:
        raise PeerError(Drop.INCONSISTENT, f"STATETRANS: bundle {seq} of site {state.site} is out of reach")


def decode_recovery_message(payload: bytes) -> RecoveryMessage:
    """A word that came over an attempt's network."""
    try:
        return _told.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise PeerError(Drop.INCONSISTENT, f"membership word: {error}") from None
