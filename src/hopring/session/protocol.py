"""Control messages of the client protocol: the bodies of all frames except those that carry bundles.

A control message is a msgpack array with exactly its fields. A view lists its members once; its other lists are
indexes in that one. Answers to queries are at the end; long ones come in pages.

The values here are read by msgspec at run time, so this file is not compiled.
"""

from typing import Annotated, Final, Literal

import msgspec

from hopring.config.model import LinkName
from hopring.errors import Drop, PeerError
from hopring.groups.names import Fence, GroupViewId, ViewCause
from hopring.ids import Place, ViewId
from hopring.session.frames import Frame, FrameKind, encode_frame
from hopring.session.options import SlowPolicy, WhenSuspended
from hopring.wire.rmp.lists import MINIMUM_ALL

COUNT_MAX: Final = 2**62

Count = Annotated[int, msgspec.Meta(ge=0, le=COUNT_MAX)]
Minimum = Annotated[int, msgspec.Meta(ge=0, le=MINIMUM_ALL)]
Name = Annotated[str, msgspec.Meta(max_length=256)]
Text = Annotated[str, msgspec.Meta(max_length=1024)]


class ControlMessage(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The base of all control messages."""


PROOF_PREFIX: Final = b"hopring client proof 1"
NONCE_BYTES: Final = 32
TOKEN_BYTES_MAX: Final = 3 * 1024
Method = Literal["key", "token"]


def proof_text(nonce: bytes, cluster: str, daemon: str, user: str, binding: bytes) -> bytes:
    """The bytes that a user's key signs: each part is preceded by its length, so no two lists are alike.

    `binding` identifies the channel below; it is empty on a connection without encryption.
    """
    parts = (PROOF_PREFIX, nonce, cluster.encode(), daemon.encode(), user.encode(), binding)
    return b"".join([len(part).to_bytes(4, "little") + part for part in parts])


class AuthRequest(ControlMessage, frozen=True):
    """Says who the client is, before HELLO: a user, to be proved by a key, or a token."""

    method: Method
    user: Name  # Empty with a token.
    token: Annotated[str, msgspec.Meta(max_length=TOKEN_BYTES_MAX)] = ""

    def __repr__(self) -> str:
        """A token is a secret, and never shown."""
        return f"AuthRequest({self.method!r}, {self.user!r})"


class ProofRequest(ControlMessage, frozen=True):
    """The signature of `proof_text` by the user's key."""

    signature: Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]


class ChallengeReply(ControlMessage, frozen=True):
    """The answer to AUTH with a key: the nonce to sign, used once, and the names to sign with it."""

    nonce: Annotated[bytes, msgspec.Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
    cluster: Name
    daemon: Name


class DeniedNotice(ControlMessage, frozen=True):
    """Messages that were not sent because the client lacks a right; the session goes on."""

    name: Name  # The group, or the application of a batch.
    reason: Text
    remedy: Text
    tickets: tuple[Count, ...]  # Of the messages that waited for receipts.


class ExpiredNotice(ControlMessage, frozen=True):
    """Messages whose time to live had ended before the daemon gave them to the order: nobody gets them."""

    messages: Count
    tickets: tuple[Count, ...]  # Of those that waited for receipts.


class HelloRequest(ControlMessage, frozen=True):
    """Opens a session: the client's first message."""

    name: Name
    window_bytes: Count  # For events that the client has not taken.
    membership: bool = True  # Whether the client wants views and signals.
    slow: SlowPolicy = "kick"
    priority: bool = False  # Whether its requests and events precede those of others.
    require_primary: bool = False  # Refused unless the daemons' view is primary.
    when_suspended: WhenSuspended = "wait"  # What becomes of its messages to suspended groups.


class JoinRequest(ControlMessage, frozen=True):
    """Asks for membership in a group."""

    group: Name
    minimum: Minimum = 0  # The fewest members that may go on (groups/minimum.py).


class LeaveRequest(ControlMessage, frozen=True):
    """Asks for the end of a membership."""

    group: Name


class LockRequest(ControlMessage, frozen=True):
    """Claims a lock of a group that the client is in."""

    group: Name
    lock: Name
    serial: Count  # Of the claim, chosen by the client and not used twice.
    partial: bool = False  # Also in a view that is not primary.


class UnlockRequest(ControlMessage, frozen=True):
    """Gives up a claim, whether it holds the lock or waits."""

    serial: Count


class Credit(ControlMessage, frozen=True):
    """Permits the other end to send this many bytes more."""

    size_bytes: Count


class QuitRequest(ControlMessage, frozen=True):
    """Asks for the end of the session after all earlier requests."""


class QueryRequest(ControlMessage, frozen=True):
    """Asks the daemon about groups, views, links or itself; the answers are below."""

    serial: Count  # Chosen by the client.
    what: Name  # groups, members, locks, view, reason, daemon or weights.
    name: Name = ""  # The group, or the view whose reason is asked for.
    after: Name = ""  # The last item of the page before, or the view that is known.


class WelcomeReply(ControlMessage, frozen=True):
    """Confirms the session: the daemon's first message."""

    daemon: Name
    daemon_number: Count
    session: Count
    private_group: Name
    message_bytes_max: Count
    window_bytes: Count  # For requests that have not gone out.


class RefusedReply(ControlMessage, frozen=True):
    """Refuses a request; after a refused HELLO the connection ends."""

    request: Name  # hello, join or leave.
    name: Name  # The session or the group.
    reason: Text
    remedy: Text


class MemberEntry(ControlMessage, frozen=True):
    """A member of a group, by names."""

    name: Name
    daemon: Name
    incarnation: Annotated[int, msgspec.Meta(ge=0)]
    session: Count


MemberIndexes = tuple[Count, ...]


class ViewNotice(ControlMessage, frozen=True):
    """The members of a group from here on in the order."""

    group: Name
    id: GroupViewId
    members: tuple[MemberEntry, ...]
    together: MemberIndexes
    cause: ViewCause
    who: MemberEntry | None
    sets: tuple[MemberIndexes, ...]
    primary: bool = False  # Whether the daemons' view is.
    suspended: bool = False  # Whether the group is below its minimum.
    minimum: Minimum = 0  # The one in force.


class SignalNotice(ControlMessage, frozen=True):
    """The group's view is closing; until the next one, guarantees hold among these members only."""

    group: Name
    id: GroupViewId
    together: tuple[MemberEntry, ...]
    suspended: bool = False  # Whether these are fewer than the group's minimum.
    minimum: Minimum = 0  # The one in force.


class LeftNotice(ControlMessage, frozen=True):
    """The client's own leave, at its place in the order."""

    group: Name


class LockedNotice(ControlMessage, frozen=True):
    """A claim holds its lock, from this place in the order on."""

    serial: Count
    fence: Fence
    place: Place
    lease_us: Count  # How long from now, unless a LEASE follows.


class UnlockedNotice(ControlMessage, frozen=True):
    """A claim has ended; if it held the lock, it does not any more."""

    serial: Count
    reason: Text
    remedy: Text


class LeaseNotice(ControlMessage, frozen=True):
    """All locks of the session are held this much longer from now."""

    lease_us: Count


class ReceiptNotice(ControlMessage, frozen=True):
    """Messages with tickets have their place in the order, and are delivered at the sender's daemon."""

    tickets: tuple[Count, ...]
    place: Place
    closing: bool  # Whether the daemons' view was closing: guarantees hold among those who stay together.
    members: tuple[
        Count | None, ...
    ]  # For each ticket, the sessions in the message's groups there; None: unknown.
    listed: tuple[MemberEntry, ...] | None = None  # The members of the group, if the bundle asks for them.
    holders: Count = 0  # Daemons, or peers, that are known to have the messages; 0: they did not wait for any.


class QueryReply(ControlMessage, frozen=True):
    """The answer to a query, encoded by `encode_answer`."""

    serial: Count
    body: bytes


class GapNotice(ControlMessage, frozen=True):
    """Messages of these groups are missing here: the client was slow, and its policy is DROP."""

    messages: Count
    size_bytes: Count
    groups: tuple[Name, ...]
    complete: bool  # Whether all groups are named.


class WarningNotice(ControlMessage, frozen=True):
    """The client's backlog is long; at the limit its policy acts."""

    waiting_bytes: Count
    limit_bytes: Count
    policy: SlowPolicy


class ErrorNotice(ControlMessage, frozen=True):
    """The reason for which the daemon ends the connection."""

    reason: Text
    detail: Text
    remedy: Text


class GoodbyeReply(ControlMessage, frozen=True):
    """The end of the session, at its place in the order; all earlier requests are done."""


_KIND: Final[dict[type[ControlMessage], FrameKind]] = {
    HelloRequest: FrameKind.HELLO,
    AuthRequest: FrameKind.AUTH,
    ProofRequest: FrameKind.PROOF,
    ChallengeReply: FrameKind.CHALLENGE,
    DeniedNotice: FrameKind.DENIED,
    ExpiredNotice: FrameKind.EXPIRED,
    JoinRequest: FrameKind.JOIN,
    LeaveRequest: FrameKind.LEAVE,
    LockRequest: FrameKind.LOCK,
    UnlockRequest: FrameKind.UNLOCK,
    Credit: FrameKind.CREDIT,
    QuitRequest: FrameKind.QUIT,
    QueryRequest: FrameKind.ASK,
    WelcomeReply: FrameKind.WELCOME,
    RefusedReply: FrameKind.REFUSED,
    ViewNotice: FrameKind.VIEW,
    SignalNotice: FrameKind.SIGNAL,
    LeftNotice: FrameKind.LEFT,
    ReceiptNotice: FrameKind.RECEIPT,
    LockedNotice: FrameKind.LOCKED,
    UnlockedNotice: FrameKind.UNLOCKED,
    LeaseNotice: FrameKind.LEASE,
    GapNotice: FrameKind.GAP,
    WarningNotice: FrameKind.WARNING,
    ErrorNotice: FrameKind.ERROR,
    GoodbyeReply: FrameKind.GOODBYE,
    QueryReply: FrameKind.ANSWER,
}
_encoder: Final = msgspec.msgpack.Encoder()
_decoders: Final = {kind: msgspec.msgpack.Decoder(message) for message, kind in _KIND.items()}


def kind_of_control(message: ControlMessage) -> FrameKind:
    """The kind of the frame that carries a control message."""
    return _KIND[type(message)]


def encode_control(message: ControlMessage) -> bytes:
    """Encodes a control message as a frame."""
    return encode_frame(_KIND[type(message)], _encoder.encode(message))


def decode_control(frame: Frame) -> ControlMessage:
    """Decodes the control message in a frame."""
    decoder = _decoders.get(frame.kind)
    if decoder is None:
        raise PeerError(Drop.UNKNOWN_TYPE, f"{frame.kind.name} is no control message")
    try:
        message: ControlMessage = decoder.decode(frame.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PeerError(Drop.INCONSISTENT, f"{frame.kind.name}: {error}") from None
    return message


Number = Annotated[int, msgspec.Meta(ge=0)]


LinkProtocolName = LinkName
DaemonPhase = Literal["op", "search", "statetrans", "evs", "gone"]
"""The membership's phases."""

PrimaryName = Literal["", "first", "majority", "weighted", "all", "operator"]
"""Why a view of daemons is primary; the empty one says that it is not."""

WeightsName = Literal["fixed", "measured"]
LinkUse = Literal["tree", "spare", "unused", "cut", "absent"]
"""The use of a link in the daemon's network: in a tree; only measured; neither; cut; or a site is absent."""


class GroupLine(ControlMessage, frozen=True):
    """A group that has members."""

    name: Name
    members: Count
    here: Count  # Members at this daemon.
    suspended: bool = False


class GroupsPage(ControlMessage, frozen=True, tag="groups"):
    """A page of groups, sorted by name."""

    groups: tuple[GroupLine, ...]
    more: bool  # Whether there are groups after the last of these.


class MembersPage(ControlMessage, frozen=True, tag="members"):
    """A page of a group's members, sorted by daemon and name; empty if there is no such group."""

    group: Name
    id: GroupViewId | None
    members: tuple[MemberEntry, ...]
    more: bool
    suspended: bool = False  # Whether the group is below its minimum.
    minimum: Minimum = 0  # The one in force.


class LockLine(ControlMessage, frozen=True):
    """A lock that somebody claims."""

    lock: Name
    holder: MemberEntry | None
    fence: int | None  # Negative if it counts within one side only.
    waiting: Count


class LocksPage(ControlMessage, frozen=True, tag="locks"):
    """A page of a group's locks, sorted by name."""

    group: Name
    locks: tuple[LockLine, ...]
    more: bool


class ViewAnswer(ControlMessage, frozen=True, tag="view"):
    """A view of the daemons."""

    id: ViewId
    members: tuple[Name, ...]
    cause: Text
    age_us: Count  # Since it was installed.
    present: bool  # Whether it is the latest.
    primary: PrimaryName = ""  # Why it is primary; empty if it is not.
    suspended: tuple[Name, ...] = ()  # Groups below their minimum now, if it is the latest: not all, if many.


class LinkLine(ControlMessage, frozen=True):
    """A link to another site, as seen from this end; packets are counted since the view began."""

    daemon: Name
    protocol: LinkProtocolName
    sent: Count
    received: Count
    lost: Count
    nacks: Count
    retransmissions: Count
    round_trip_us: Count
    backlog_bytes: Count


class ConfiguredLine(ControlMessage, frozen=True):
    """A daemon of the configuration, in a view or not."""

    name: Name
    site: Name
    votes: Count  # In the decision which view is primary.


class DaemonAnswer(ControlMessage, frozen=True, tag="daemon"):
    """The daemon's description of itself."""

    daemon: Name
    cluster: Name
    config_digest: Name  # Of the part of the configuration that all daemons share; not the hash in datagrams.
    version: Name
    phase: DaemonPhase
    uptime_us: Count
    sessions: Count
    groups: Count
    ring: tuple[Name, ...]  # The daemons on the ring of its site, itself included.
    links: tuple[LinkLine, ...]
    dropped: dict[Name, Count]  # Packets refused, by reason.
    unsent: dict[Name, Count]
    cut: tuple[Name, ...] = ()  # Daemons that the admin channel has cut off here.
    shaped: tuple[Name, ...] = ()  # Daemons whose packets from here the admin channel delays or loses.
    problems: tuple[Text, ...] = ()  # Missing listeners, and a spooler that does not stay up.
    configured: tuple[ConfiguredLine, ...] = ()  # All daemons of the configuration, by name.
    tie_site: Name = ""  # The site that decides between two halves with equal votes; empty without one.


class WeightLine(ControlMessage, frozen=True):
    """A link between two sites: its weights, and this daemon's measurements of it."""

    sites: tuple[Name, Name]
    protocol: LinkProtocolName
    configured: Count
    agreed: Count | None  # In the daemon's present network; None if a site is not in it, or there is none.
    measured: Count | None = None  # The expected time to deliver, in microseconds; the next three only of
    round_trip_us: Count | None = None  # links of this daemon's site, by the daemon that represents it.
    loss_ppm: Count | None = None
    use: LinkUse = "absent"


class WeightsPage(ControlMessage, frozen=True, tag="weights"):
    """A page of links, sorted by their sites."""

    daemon: Name
    weights: WeightsName
    representative: Name  # Of the daemon's site, which has the links. Empty if there is no network.
    links: tuple[WeightLine, ...]
    more: bool


class ReasonAnswer(ControlMessage, frozen=True, tag="reason"):
    """Why a view of the daemons was formed, as facts; clients of older versions do not ask for it."""

    kind: Name  # Of `ReasonKind`, or one of a later version.
    witness: Name  # The daemon that noticed; empty if nothing was lost.
    peer: Name  # The other daemon, if it is known.
    link: Name  # The sites of the link, or the site of the ring, if it is one of these.
    silence_us: Count  # For how long nothing was heard.
    noticed_us: Count  # How long before the view the witness noticed.


class NoAnswer(ControlMessage, frozen=True, tag="none"):
    """The query cannot be answered."""

    reason: Text
    remedy: Text


Answer = (
    GroupsPage | MembersPage | LocksPage | ViewAnswer | DaemonAnswer | WeightsPage | ReasonAnswer | NoAnswer
)
_answer_encoder: Final = msgspec.msgpack.Encoder()
_answer_decoder: Final[msgspec.msgpack.Decoder[Answer]] = msgspec.msgpack.Decoder(Answer)


def encode_answer(answer: Answer) -> bytes:
    """Encodes the body of an ANSWER."""
    return _answer_encoder.encode(answer)


def decode_answer(body: bytes) -> Answer:
    """Decodes the body of an ANSWER."""
    try:
        return _answer_decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise PeerError(Drop.INCONSISTENT, f"ANSWER: {error}") from None
