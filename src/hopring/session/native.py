"""The native dialect: control messages and bundles in the frames of this library's client protocol."""

from dataclasses import dataclass, field
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.groups.events import DeliverBundle, LeftGroup, Send, ShowRetained, ShowSignal, ShowView
from hopring.groups.interface import GroupsInterface
from hopring.ids import DaemonId, Place
from hopring.session.backlog import FrameLoss, SharedFrame, shared_frame
from hopring.session.dialect import ClientRequest, SendWithin
from hopring.session.frames import (
    FRAME_HEAD_BYTES,
    PREAMBLE,
    TTL_BYTES,
    FrameKind,
    FrameReader,
    delivered_parts,
    encode_delivered,
    join_frame,
)
from hopring.session.options import TTL_US_MAX, WINDOW_BYTES_MAX, WINDOW_BYTES_MIN
from hopring.session.protocol import (
    AuthRequest,
    ControlMessage,
    Credit,
    HelloRequest,
    JoinRequest,
    LeaveRequest,
    LeftNotice,
    LockRequest,
    ProofRequest,
    QueryRequest,
    QuitRequest,
    SignalNotice,
    UnlockRequest,
    ViewNotice,
    WelcomeReply,
    decode_control,
    encode_control,
)
from hopring.session.render import member_entry
from hopring.wire.bundle import decode_bundle, with_daemon

NOBODY: Final = DaemonId(-1)


@dataclass(frozen=True, slots=True, eq=False)
class Native:
    """The native dialect at one daemon."""

    groups: GroupsInterface  # For the numbers and names of daemons.
    bundle_bytes_max: int
    message_bytes_max: int

    @property
    def native(self) -> bool:
        return True

    def converse(self, session: int, _address: str = "") -> "NativeConversation":
        """Starts the conversation with a new client."""
        return NativeConversation(self, session, FrameReader(self.bundle_bytes_max))

    def render_messages(self, deliver: DeliverBundle) -> SharedFrame:
        """Renders a delivered bundle as a MESSAGES frame; the bundle itself is not copied."""
        bundle = deliver.picked()
        lts, site = deliver.position
        parts = delivered_parts(deliver.sender, Place(deliver.view, lts, site), bundle)
        size_bytes = 0
        for part in parts:
            size_bytes += len(part)
        return SharedFrame(parts, size_bytes, FrameLoss(bundle.key.groups, len(bundle), len(bundle.bodies)))

    def render_view(self, show: ShowView) -> SharedFrame:
        """Renders a view of a group as a VIEW frame."""
        shown, daemons = show.view, self.groups.names
        index = {one: at for at, one in enumerate(shown.members)}
        notice = ViewNotice(
            shown.group,
            shown.id,
            tuple([member_entry(one, daemons) for one in shown.members]),
            tuple([index[one] for one in shown.together]),
            shown.cause.value,
            None if shown.who is None else member_entry(shown.who, daemons),
            tuple([tuple([index[one] for one in some]) for some in shown.sets]),
            shown.primary,
            shown.suspended,
            shown.minimum,
        )
        return shared_frame(encode_control(notice))

    def render_signal(self, show: ShowSignal) -> SharedFrame:
        """Renders a transitional signal as a SIGNAL frame."""
        together = tuple([member_entry(one, self.groups.names) for one in show.together])
        notice = SignalNotice(show.group, show.id, together, show.suspended, show.minimum)
        return shared_frame(encode_control(notice))

    def render_retained(self, show: ShowRetained) -> SharedFrame:
        """Renders a retained value as a RETAINED frame, which has the body of a MESSAGES frame."""
        value = show.value
        body = encode_delivered(value.sender, value.place, decode_bundle(value.bundle))
        return shared_frame(
            join_frame(FrameKind.RETAINED, len(body) - FRAME_HEAD_BYTES, [body[FRAME_HEAD_BYTES:]])
        )

    def render_left(self, event: LeftGroup) -> SharedFrame:
        """Renders the end of a client's own membership as a LEFT frame."""
        return shared_frame(encode_control(LeftNotice(event.group)))


@dataclass(slots=True)
class NativeConversation:
    """Decodes and encodes the frames of one client."""

    dialect: Native
    session: int
    reader: FrameReader
    wants_receipts: bool = False
    daemon: DaemonId = NOBODY  # The number in the client's WELCOME; it may have changed since.
    greeting: bytes = field(default=PREAMBLE)
    admitted: bool = True

    def feed(self, chunk: bytes) -> None:
        """Takes bytes that the client has sent."""
        self.reader.feed(chunk)

    def next(self) -> ClientRequest | None:
        """The next request, decoded and checked."""
        frame = self.reader.next()
        if frame is None:
            return None
        if frame.kind is FrameKind.SEND:
            return self._send(frame.body)
        if frame.kind is FrameKind.SEND_WITHIN:
            return self._send_within(frame.body)
        message = decode_control(frame)
        if (
            isinstance(message, HelloRequest)
            and not WINDOW_BYTES_MIN <= message.window_bytes <= WINDOW_BYTES_MAX
        ):
            raise PeerError(Drop.LIMIT, f"a window of {message.window_bytes} bytes")
        if not isinstance(
            message,
            HelloRequest
            | AuthRequest
            | ProofRequest
            | Credit
            | JoinRequest
            | LeaveRequest
            | LockRequest
            | UnlockRequest
            | QuitRequest
            | QueryRequest,
        ):
            raise PeerError(Drop.INCONSISTENT, f"{frame.kind.name} may be sent by a daemon only")
        return message

    def encode(self, message: ControlMessage) -> bytes:
        """Encodes a control message, and remembers the number in WELCOME."""
        if isinstance(message, WelcomeReply):
            self.daemon = DaemonId(message.daemon_number)
        return encode_control(message)

    def _send_within(self, body: bytes | memoryview) -> SendWithin:
        ttl_us = int.from_bytes(body[:TTL_BYTES], "little")
        if len(body) < TTL_BYTES or not 0 < ttl_us <= TTL_US_MAX:
            raise PeerError(Drop.LIMIT, f"a time to live of {ttl_us} us")
        return SendWithin(self._send(body[TTL_BYTES:]), ttl_us)

    def _send(self, body: bytes | memoryview) -> Send:
        bundle = decode_bundle(body)
        key = bundle.key
        if (key.daemon, key.session) != (self.daemon, self.session):
            raise PeerError(Drop.FOREIGN_SENDER, "a bundle that names another session as its sender")
        if key.channel:
            raise PeerError(Drop.INCONSISTENT, "a bundle with a channel, which only the daemon sets")
        if key.spread_bits or key.spread_groups:
            raise PeerError(Drop.INCONSISTENT, "a bundle with fields for Spread clients")
        limit = self.dialect.message_bytes_max
        if len(bundle.bodies) > limit:
            raise PeerError(Drop.LIMIT, f"{len(bundle.bodies)} bytes, of {limit} at most")
        self.wants_receipts = self.wants_receipts or any(bundle.hints)
        now = self.dialect.groups.me.daemon
        if now != self.daemon:
            key, body = key.replace(daemon=now), with_daemon(body, now)
        return Send(self.session, key, body)
