"""The dialect of Spread clients: decodes their requests, and renders messages and views for them.

Implements  the client protocol of Spread 4 and 5, from the daemon's side; see docs/spread.md.

After the handshake nothing is answered: this dialect can refuse a request only by ending the connection.
Requests that a real daemon ignores (a second join, a leave of a group without membership, a message to no
group) are ignored here too.

Names of Spread are 31 bytes at most, those of sessions are ASCII. A private group that does not fit is shown by
a substitute made of a hash, the same at all daemons, so that views and messages agree; it cannot be used as a
destination. A group that does not fit is not shown: no Spread client can be in it.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from hashlib import blake2s
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.groups.events import (
    Cause,
    DeliverBundle,
    GroupView,
    LeftGroup,
    RefusalReason,
    Send,
    ShowRetained,
    ShowSignal,
    ShowView,
)
from hopring.groups.interface import GroupsInterface
from hopring.groups.names import GroupMember
from hopring.groups.private_groups import PRIVATE, private_group, split_private
from hopring.ids import DaemonId, GroupName
from hopring.session.backlog import FrameLoss, SharedFrame, shared_frame
from hopring.session.dialect import Admitted, ClientRequest
from hopring.session.options import TOO_MANY_CLIENTS, SessionOptions, SlowPolicy
from hopring.session.protocol import (
    COUNT_MAX,
    ControlMessage,
    ErrorNotice,
    HelloRequest,
    JoinRequest,
    LeaveRequest,
    QuitRequest,
    RefusedReply,
    WelcomeReply,
)
from hopring.spread.bits import FREE_BITS_AT, SERVICE_BITS, SERVICES, Bits
from hopring.spread.frames import (
    NAME_BYTES,
    REST_BYTES_MAX,
    SpreadBatch,
    SpreadReader,
    encode_messages,
    encode_names,
)
from hopring.spread.handshake import IP, NULL, USER_BYTES_MAX, Handshake, HandshakeCode, HandshakeStage
from hopring.spread.membership import Sets, encode_own_leave, encode_signal, encode_view, group_id
from hopring.wire.bundle import BundleKey, encode_bundle
from hopring.wire.envelope import envelope_bytes

DAEMON_BYTES_MAX: Final = 19
"""The longest name of a daemon that serves Spread clients."""

_KEPT_MAX: Final = 4096


def is_group(name: str) -> bool:
    """Whether a Spread client may join a group of this name."""
    return _group_fits(name) and not name.startswith(PRIVATE)


def _group_fits(name: str) -> bool:
    return 0 < len(name.encode()) < NAME_BYTES


def _session_fits(private_group: str) -> bool:
    return 0 < len(private_group) < NAME_BYTES and private_group.isascii() and private_group.isprintable()


@lru_cache(maxsize=_KEPT_MAX)
def shown_session(private_group: str) -> str:
    """The private group of a session, or its substitute."""
    if _session_fits(private_group):
        return private_group
    digest = blake2s(private_group.encode(), digest_size=4).hexdigest()
    _, daemon = split_private(GroupName(private_group))
    if len(daemon) > DAEMON_BYTES_MAX:
        daemon = f"{daemon[: DAEMON_BYTES_MAX - 1]}~"
    return f"{PRIVATE}~{digest}{PRIVATE}{daemon}"


@lru_cache(maxsize=_KEPT_MAX)
def shown_groups(groups: tuple[str, ...]) -> bytes:
    """Encodes the groups of a message, except those that do not fit."""
    return encode_names(tuple([one for one in groups if _group_fits(one)]))


_CODES: Final = {
    str(RefusalReason.NAME_IN_USE): HandshakeCode.NOT_UNIQUE,
    str(RefusalReason.ILLEGAL_NAME): HandshakeCode.ILLEGAL_NAME,
}
"""Codes by the reason of a refusal; any other reason is AUTH."""


class SpreadConversation:
    """The conversation with one Spread client: its handshake, then its frames."""

    greeting: Final = b""
    wants_receipts: Final = False

    def __init__(
        self,
        groups: GroupsInterface,
        session: int,
        handshake: Handshake,
        reader: SpreadReader,
        invent: Callable[[], str],
        slow: SlowPolicy,
    ) -> None:
        """`invent` makes a name for a client without one; `slow` is the policy for a slow client."""
        self._groups = groups
        self._session = session
        self._handshake = handshake
        self._reader = reader
        self._invent = invent
        self._slow = slow
        self._handshake_input = b""  # Bytes of the handshake that are not handled yet.
        self._private_group = ""
        self._ignores_input = False  # All further input is ignored.
        # The fields that the last messages had in common.
        self._last_fields: tuple[Bits, bool, bytes, bool, int, DaemonId] | None = None
        self._key: BundleKey | None = None  # Of bundles with `_last_fields`; None without a group.

    @property
    def admitted(self) -> bool:
        """Whether the handshake is done, so that frames may follow."""
        return self._handshake.stage is HandshakeStage.DONE

    def feed(self, chunk: bytes) -> None:
        """Takes bytes that the client has sent."""
        if self._ignores_input:
            return
        if self.admitted:
            self._reader.feed(chunk)
        else:
            self._handshake_input += chunk

    def next(self) -> ClientRequest | None:
        """The next step of the handshake, or the next request."""
        if self._ignores_input:
            return None
        if not self.admitted:
            return self._continue_handshake()
        while (batch := self._reader.next()) is not None:
            if (said := self._request_of(batch)) is not None:
                return said
        return None

    def encode(self, message: ControlMessage) -> bytes:
        """Encodes a welcome or a refusal; all other messages are empty in this dialect."""
        match message:
            case WelcomeReply():
                self._private_group = message.private_group
                self._handshake.accept(message.private_group)
                return self._handshake_output()
            case RefusedReply("hello"):
                self._handshake.refuse(_CODES.get(message.reason, HandshakeCode.AUTH))
                return self._handshake_output()
            case ErrorNotice(reason) if reason == TOO_MANY_CLIENTS:
                self._handshake.refuse(HandshakeCode.QUOTA)
                return self._handshake_output()
            case _:
                return b""

    # The handshake.

    def _continue_handshake(self) -> ClientRequest | None:
        heard, self._handshake_input = self._handshake_input, b""
        wants = self._handshake.receive(heard)
        if wants is not None:
            user = wants.user or self._invent()
            return HelloRequest(user, COUNT_MAX, wants.membership, self._slow, wants.priority)
        if self._handshake.stage is HandshakeStage.REFUSED:
            self._ignores_input = True
            return Admitted(self._handshake_output(), "handshake refused")
        return Admitted(self._handshake_output()) if self.admitted else None

    def _handshake_output(self) -> bytes:
        out = b"".join(self._handshake.out)
        self._handshake.out.clear()
        if self.admitted:
            self._reader.feed(self._handshake.rest)
        return out

    # Frames.

    def _request_of(self, batch: SpreadBatch) -> ClientRequest | None:
        if batch.sender != self._private_group:
            raise PeerError(Drop.FOREIGN_SENDER, f"a frame in the name of {batch.sender}")
        match batch.kind:
            case Bits.KILL:
                self._ignores_input = True
                return QuitRequest()
            case Bits.JOIN | Bits.LEAVE:
                return self._change(batch)
            case _:
                return self._send(batch)

    def _change(self, batch: SpreadBatch) -> ClientRequest | None:
        if not batch.groups:
            raise PeerError(Drop.INCONSISTENT, "a request for no group")
        # Of several groups a real daemon uses the first.
        group = batch.groups[0]
        if not is_group(group):
            return None
        return JoinRequest(group) if batch.kind is Bits.JOIN else LeaveRequest(group)

    def _send(self, batch: SpreadBatch) -> Send | None:
        key = self._key_of(batch)
        if key is None:
            return None
        return Send(self._session, key, encode_bundle(key, batch.bodies, batch.types, bytes(len(batch.bodies))))

    def _key_of(self, batch: SpreadBatch) -> BundleKey | None:
        daemon = self._groups.me.daemon
        same = batch.kind, batch.self_discard, batch.names, batch.big_endian, batch.free_bits, daemon
        if same != self._last_fields:
            # A bundle names each group once; empty names stand for groups that cannot exist.
            groups = tuple([GroupName(one) for one in dict.fromkeys(batch.groups) if one])
            key = BundleKey(
                daemon,
                self._session,
                SERVICES[batch.kind],
                groups,
                batch.self_discard,
                big_endian=batch.big_endian,
                spread_bits=batch.free_bits,
                spread_groups=b"" if batch.names == shown_groups(groups) else batch.names,
            )
            self._last_fields, self._key = same, key if groups else None
        return self._key


_SELF_DISCARD: Final = int(Bits.SELF_DISCARD)
_INVENTED_MAX: Final = 10 ** (USER_BYTES_MAX - 1)


class SpreadDialect:
    """The Spread dialect at one daemon."""

    native = False

    def __init__(
        self,
        groups: GroupsInterface,
        message_bytes_max: int,
        options: Callable[[], SessionOptions],
        order: Sequence[str] = (),
    ) -> None:
        """Members are listed in this order of daemons, that of the configuration file."""
        assert message_bytes_max >= REST_BYTES_MAX, "whatever a Spread daemon takes fits into a bundle"
        self._groups = groups
        self._message_bytes_max = message_bytes_max
        self._options = options
        self.reorder(order)

    def reorder(self, order: Sequence[str]) -> None:
        """Changes the order in which members are listed."""
        self._rank = {daemon: at for at, daemon in enumerate(order)}

    def converse(self, session: int, address: str = "") -> SpreadConversation:
        """Starts the conversation with a new client."""
        options = self._options()
        methods = (NULL, IP) if options.spread_access else (NULL,)
        handshake = Handshake(methods, may_come(address, options.spread_access))
        reader = SpreadReader(REST_BYTES_MAX, self._message_bytes_max)
        groups, slow = self._groups, options.spread_slow
        return SpreadConversation(groups, session, handshake, reader, lambda: self._invented(session), slow)

    def _invented(self, session: int) -> str:
        """A name that no session of this daemon has."""
        number = session
        while self._groups.has_session(name := f"r{number % _INVENTED_MAX}"):
            number += 1
        return name

    # Rendering.

    def render_messages(self, deliver: DeliverBundle) -> SharedFrame:
        """Renders a bundle as frames, end to end."""
        bundle = deliver.picked()
        key, types, bodies = bundle.key, bundle.types.tolist(), bundle.messages()
        if key.enveloped:  # Spread has no headers: its clients get the bodies only.
            bodies = [body[envelope_bytes(body) :] for body in bodies]
        bits = SERVICE_BITS[key.service] | (_SELF_DISCARD if key.self_discard else 0)
        bits |= key.spread_bits << FREE_BITS_AT
        sender = shown_session(deliver.sender)
        if key.mixed:
            frames = b"".join(
                [
                    encode_messages(
                        bits, sender, shown_groups(bundle.groups_of(at)), key.big_endian, [types[at]], [body]
                    )
                    for at, body in enumerate(bodies)
                ]
            )
        else:
            names = key.spread_groups or shown_groups(key.groups)
            frames = encode_messages(bits, sender, names, key.big_endian, types, bodies)
        return shared_frame(frames, FrameLoss(key.groups, len(bundle), len(bundle.bodies)))

    def render_view(self, show: ShowView) -> SharedFrame:
        """Renders a view as a regular membership message."""
        shown = show.view
        cause, sets, own = self._sets(shown)
        named = Sets(tuple([self._named(one) for one in sets]), own)
        return shared_frame(
            encode_view(shown.group, group_id(shown.id), self._named(shown.members), cause, named)
        )

    def render_signal(self, show: ShowSignal) -> SharedFrame:
        """Renders a transitional signal as a membership message."""
        return shared_frame(encode_signal(show.group, group_id(show.id)))

    def render_left(self, event: LeftGroup) -> SharedFrame:
        """Renders the end of a client's own membership."""
        return shared_frame(encode_own_leave(event.group))

    def render_retained(self, show: ShowRetained) -> SharedFrame:
        """Never called: clients of Spread get no retained values (session/render.py)."""
        raise AssertionError(f"the value of {show.group} for a client of Spread")

    def _sets(self, shown: GroupView) -> tuple[Cause, tuple[tuple[GroupMember, ...], ...], int]:
        """The cause in Spread's terms, the virtual-synchrony sets, and the index of the receivers' own set."""
        if shown.cause is Cause.NETWORK:
            own = next(at for at, one in enumerate(shown.sets) if set(shown.together) <= set(one))
            return shown.cause, shown.sets, own
        assert shown.who is not None, "somebody joined, left or vanished"
        if shown.cause is not Cause.JOIN or not shown.id.closing:
            return shown.cause, ((shown.who,),), 0
        # While the daemons' view is closing, Spread shows a join as a change of network.
        before = tuple([one for one in shown.members if one != shown.who])
        sets = (before, (shown.who,)) if before else ((shown.who,),)
        return Cause.NETWORK, sets, len(sets) - 1 if shown.together == (shown.who,) else 0

    def _named(self, members: Sequence[GroupMember]) -> tuple[str, ...]:
        daemons, rank = self._groups.names, self._rank
        last = len(rank)
        ranked = sorted(
            members, key=lambda one: (rank.get(daemons[one.daemon], last), one.daemon, one.name.encode())
        )
        return tuple([shown_session(private_group(one.name, daemons[one.daemon])) for one in ranked])


def may_come(address: str, networks: tuple[str, ...]) -> bool:
    """Whether a client from this address is admitted; one on this host, by a Unix socket, always is."""
    if not networks or not address:
        return True
    found = ip_address(address)
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return any(found in ip_network(one) for one in networks)
