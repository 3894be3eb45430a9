"""Planted bugs: each takes one check of hostile input out, and the attack that the check is for has to notice.

Bugs that the simulator's campaign plants for the same checks are used as they are.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from hopring.daemon.clients.authentication import LEEWAY_SECONDS, UserAuthenticator
from hopring.daemon.net.datagrams import Datagrams
from hopring.daemon.net.link_streams import LinkStreams, PendingStreams, _Early, _Pending
from hopring.daemon.net.tcp import ByteStream, ConnectionEvent, TcpConnection
from hopring.daemon.net.udp import Address
from hopring.errors import Drop, PeerError
from hopring.ids import NEVER, DaemonId, Generation, Incarnation, Process
from hopring.links.events import StreamReceived
from hopring.membership.gather import KnownRecord
from hopring.membership.messages import GatherRecord
from hopring.membership.view_counter import ViewCounter
from hopring.ordering.order import Order, SiteLine
from hopring.sealing.keys import _SENDER, EPOCH_SHIFT, KEY_BYTES, ClusterKey, _derive
from hopring.sealing.packet import _HEAD, HEAD_BYTES, TAG_BYTES, Form, SealedHead
from hopring.sealing.sealing import Sealing
from hopring.sim.campaign.bugs.planting import Bug, all_bugs, bug
from hopring.stack_events import Identity
from hopring.wire.header import VERSION, Header
from hopring.wire.train import decode_train

# Sealed datagrams.


def _clear_text_taken(receive: Callable[..., None]) -> Any:
    def take_clear_text(
        self: Datagrams, sealing: Sealing, buffer: memoryview, segment_bytes: int, address: Address
    ) -> None:
        if len(buffer) > 2 and buffer[2] == VERSION:
            for packet in decode_train(buffer, segment_bytes, self._cluster):
                self._decoded(packet, address)
            return
        receive(self, sealing, buffer, segment_bytes, address)

    return take_clear_text


def _seal_unchecked(_decrypt: Callable[..., bytes]) -> Any:
    def decrypt_whatever_it_is(
        self: Sealing, origin: Any, counter: int, nonce: bytes, sealed: bytes | memoryview, aad: bytes
    ) -> bytes:
        del aad
        who = _SENDER.pack(*origin.process, counter >> EPOCH_SHIFT)
        secret = self._ring.keys[origin.key]._secret
        key = _derive(secret, b"hopring datagrams" + who + self._name, KEY_BYTES)
        # GCM encrypts as CTR does, from the second block on.
        stream = Cipher(AES(key), CTR(nonce + (2).to_bytes(4, "big"))).decryptor()
        return stream.update(sealed[:-TAG_BYTES])

    return decrypt_whatever_it_is


CheckHead = Callable[[Sealing, SealedHead], Process]


def _accepted(refusal: str) -> Callable[[CheckHead], Any]:
    """A bug that takes one refusal of a packet's head out, which is known by its text."""

    def make(check: CheckHead) -> Any:
        def check_the_rest(self: Sealing, head: SealedHead) -> Process:
            try:
                return check(self, head)
            except PeerError as error:
                if refusal not in error.detail:
                    raise
            return Process(head.sender, head.incarnation)

        return check_the_rest

    return make


def _start_unchecked(_decode: Callable[..., SealedHead]) -> Any:
    def decode_any(datagram: bytes | memoryview, cluster: int) -> SealedHead:
        if len(datagram) < HEAD_BYTES:
            raise PeerError(Drop.TRUNCATED, "too short for a head")
        _, _, form, _, sender, incarnation, key, receiver, counter = _HEAD.unpack_from(datagram)
        if form not in list(Form):
            raise PeerError(Drop.UNKNOWN_TYPE, "no form")
        return SealedHead(
            Form(form), cluster, DaemonId(sender), Incarnation(incarnation), key, DaemonId(receiver), counter
        )

    return decode_any


def _any_inner_sender(_checked: Callable[[bytes, bytes], Any]) -> Any:
    return lambda clear, _head: clear


# Key files.


def _nothing(_check: Callable[..., None]) -> Any:
    return lambda *_args: None


def _link_followed(opened: Callable[..., Any]) -> Any:
    @contextmanager
    def open_what_it_leads_to(path: Path, flags: int) -> Iterator[int]:
        with opened(path, flags & ~os.O_NOFOLLOW) as handle:
            yield handle

    return open_what_it_leads_to


def _empty_taken(_content: Callable[[Path, int, int], bytes]) -> Any:
    return lambda _path, handle, bytes_max: os.read(handle, bytes_max)


def _short_key_taken(_init: Callable[[ClusterKey, bytes], None]) -> Any:
    def take_any_length(self: ClusterKey, secret: bytes) -> None:
        self._secret = secret
        self.id = int.from_bytes(_derive(secret, b"hopring key id", 4), "little")  # type: ignore[misc]

    return take_any_length


# Tokens.

Verify = Callable[[UserAuthenticator, str], str | None]


def _decode(token: str, key: Any, algorithms: list[str], **options: Any) -> str | None:
    checked = {"verify_aud": False, **options}
    try:
        claims = jwt.decode(token, key, algorithms=algorithms, leeway=LEEWAY_SECONDS, options=checked)  # type: ignore[arg-type]
    except jwt.InvalidTokenError:
        return None
    return str(claims["sub"])


def _claim_unchecked(claim: str) -> Callable[[Verify], Any]:
    def make(_verify: Verify) -> Any:
        def without_a_look_at_it(self: UserAuthenticator, token: str) -> str | None:
            ((_, _, key),) = self._issuers
            return _decode(token, key, ["EdDSA"], **{f"verify_{claim}": False})

        return without_a_look_at_it

    return make


def _issuer_unchecked(_verify: Verify) -> Any:
    def of_anybody(self: UserAuthenticator, token: str) -> str | None:
        ((_, audience, key),) = self._issuers
        try:
            claims = jwt.decode(token, key, algorithms=["EdDSA"], audience=audience, leeway=LEEWAY_SECONDS)
        except jwt.InvalidTokenError:
            return None
        return str(claims["sub"])

    return of_anybody


def _signature_unchecked(_verify: Verify) -> Any:
    return lambda _self, token: _decode(token, None, ["EdDSA", "none"], verify_signature=False)


def _algorithm_believed(verify: Verify) -> Any:
    def by_the_algorithm_of_the_token(self: UserAuthenticator, token: str) -> str | None:
        ((_, _, key),) = self._issuers
        if jwt.get_unverified_header(token)["alg"] != "HS256":
            return verify(self, token)
        return _decode(token, _public_line(key).ljust(64), ["HS256"])

    return by_the_algorithm_of_the_token


def _public_line(key: Ed25519PublicKey) -> bytes:
    return key.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).split()[1]


def _subject_unchecked(_is_user: Callable[[str], bool]) -> Any:
    return lambda _name: True


# Rights.


def _allowed(_may: Callable[..., bool]) -> Any:
    return lambda _self, _what: True


def _name_allowed(_may: Callable[..., bool]) -> Any:
    return lambda _self, _identity, _name: True


def _hello_taken(_refuse: Callable[..., Any]) -> Any:
    return lambda _self, _session, _hello, _others: None


# Connections.


def _pending_unbounded(_welcome: Callable[[PendingStreams, TcpConnection, Address], None]) -> Any:
    def welcome_everybody(self: PendingStreams, accepted: TcpConnection, address: Address) -> None:
        connection: ByteStream = accepted
        if self.tls is not None:
            connection = self._with_tls(accepted, self.tls, address)
        connection.sink = lambda event: self._hear(connection, event)
        self._pending[connection] = _Pending(address, self._loop.now_us())
        self._set_alarm()

    return welcome_everybody


def _ended_kept(_close: Callable[[TcpConnection], None]) -> Any:
    def close_the_socket_only(self: TcpConnection) -> None:
        if not self._gone:
            self._gone = True
            self._too_late.set(NEVER)
            if not self._paused:
                self._loop.unregister(self._socket.fileno())
            self._socket.close()
            self._out.clear()

    return close_the_socket_only


def _early_of_each_network(admit: Callable[[LinkStreams, Header, ByteStream], bool]) -> Any:
    def first_come_first_served(self: LinkStreams, header: Header, connection: ByteStream) -> bool:
        kept: dict[tuple[DaemonId, Generation], _Early] = vars(self).setdefault("planted", {})
        if header.generation == self._generation:
            return admit(self, header, connection)
        if (header.sender, header.generation) in kept:
            return False
        self._early.pop(header.sender, None)
        admitted = admit(self, header, connection)
        if admitted:
            kept[header.sender, header.generation] = self._early[header.sender]
        return admitted

    return first_come_first_served


def _early_of_this_network(begin: Callable[[LinkStreams, Identity, Iterable[DaemonId]], None]) -> Any:
    def begin_with_the_first(self: LinkStreams, own: Identity, neighbours: Iterable[DaemonId]) -> None:
        for (sender, generation), early in vars(self).get("planted", {}).items():
            if generation == own.generation:
                self._early[sender] = early
        begin(self, own, neighbours)

    return begin_with_the_first


def _early_unbounded(keep: Callable[[_Early, ConnectionEvent], None]) -> Any:
    def keep_all(self: _Early, event: ConnectionEvent) -> None:
        if isinstance(event, StreamReceived):
            self._bytes += event.chunk
        else:
            keep(self, event)

    return keep_all


def _dial_unguarded(_dial: Callable[[LinkStreams, DaemonId, Generation], None]) -> Any:
    def dial(self: LinkStreams, neighbour: DaemonId, generation: Generation) -> None:
        del generation
        self._bind(neighbour, self._open_connection(neighbour))

    return dial


def _all_for_clients(_for_clients: Callable[[int], int]) -> Any:
    return lambda descriptors: descriptors


# Bounds.


def _seq_unbounded(_check: Callable[[Order, SiteLine, int], None]) -> Any:
    return lambda _self, _line, _seq: None


def _stamp_unbounded(_check: Callable[[Order, int], None]) -> Any:
    return lambda _self, _lts: None


def _counter_believed(_heard: Callable[[ViewCounter, int, bool, int], None]) -> Any:
    def believe(self: ViewCounter, claimed: int, met: bool, now_us: int) -> None:
        del met, now_us
        self.value = max(self.value, claimed)

    return believe


def _attempt_believed(_check: Callable[[ViewCounter, int, int], None]) -> Any:
    return lambda _self, _counter, _now_us: None


def _record_believed(_is_news: Callable[..., bool]) -> Any:
    def highest_number_wins(
        record: GatherRecord, own: bool, known: dict[Process, KnownRecord], join_us: int, now_us: int
    ) -> bool:
        del own, join_us, now_us
        return record.rep not in known or record.seq > known[record.rep].record.seq

    return highest_number_wins


def _without_newmemb(_check: Callable[..., None]) -> Any:
    return lambda _message, _site_of: None


SEALING: Final = "hopring.sealing.sealing:Sealing"
FILES: Final = "hopring.credentials.files"
VERIFY: Final = "hopring.daemon.clients.authentication:UserAuthenticator.verify_token"
RIGHTS: Final = "hopring.session.grants:ClientRights"
STREAMS: Final = "hopring.daemon.net.link_streams"

_LISTED: Final = (
    bug(
        "clear-text-taken",
        "sealing",
        "a datagram without encryption is taken by a daemon with keys",
        ("hopring.daemon.net.datagrams:Datagrams._receive_sealed", _clear_text_taken),
    ),
    bug(
        "seal-unchecked",
        "sealing",
        "packets are decrypted and their tags ignored",
        (f"{SEALING}._decrypt", _seal_unchecked),
    ),
    bug(
        "start-unchecked",
        "sealing",
        "magic, version and cluster of a packet are not looked at",
        ("hopring.sealing.sealing:decode_head", _start_unchecked),
    ),
    bug(
        "own-name-taken",
        "sealing",
        "a packet in the receiver's own name is taken",
        (f"{SEALING}._check_head", _accepted("in our own name")),
    ),
    bug(
        "any-receiver",
        "sealing",
        "a packet for another daemon is taken",
        (f"{SEALING}._check_receiver", _nothing),
    ),
    bug(
        "any-key",
        "sealing",
        "the id of a packet's key is not looked at",
        (f"{SEALING}._check_head", _accepted("which this daemon does not have")),
    ),
    bug(
        "any-inner-sender",
        "sealing",
        "a datagram may name another sender than its seal",
        ("hopring.sealing.sealing:_checked", _any_inner_sender),
    ),
    bug(
        "counter-unbounded",
        "sealing",
        "packets are numbered beyond the last number",
        ("hopring.sealing.sealer:_check_number", _nothing),
    ),
    bug(
        "short-key-taken",
        "key files",
        "a key of any length is used",
        ("hopring.sealing.keys:ClusterKey.__init__", _short_key_taken),
    ),
    bug(
        "empty-file-taken",
        "key files",
        "an empty file counts as one without a key",
        (f"{FILES}:_content", _empty_taken),
    ),
    bug("link-followed", "key files", "a secret is read through a link", (f"{FILES}:_opened", _link_followed)),
    bug(
        "mode-unchecked",
        "key files",
        "a secret that others can read is used",
        (f"{FILES}:_check_mode", _nothing),
    ),
    bug(
        "owner-unchecked", "key files", "a secret of another user is used", (f"{FILES}:_check_owner", _nothing)
    ),
    bug("expiry-unchecked", "tokens", "an expired token is accepted", (VERIFY, _claim_unchecked("exp"))),
    bug("begin-unchecked", "tokens", "a token is accepted before its time", (VERIFY, _claim_unchecked("nbf"))),
    bug("issuer-unchecked", "tokens", "a token of any issuer is accepted", (VERIFY, _issuer_unchecked)),
    bug(
        "audience-unchecked",
        "tokens",
        "a token for another cluster is accepted",
        (VERIFY, _claim_unchecked("aud")),
    ),
    bug(
        "subject-unchecked",
        "tokens",
        "a token may name a user of the host",
        ("hopring.daemon.clients.authentication:is_user", _subject_unchecked),
    ),
    bug(
        "signature-unchecked",
        "tokens",
        "a token that says that it needs no signature is accepted",
        (VERIFY, _signature_unchecked),
    ),
    bug(
        "algorithm-believed",
        "tokens",
        "a token says by which algorithm it is checked",
        (VERIFY, _algorithm_believed),
    ),
    bug(
        "hello-taken",
        "grants",
        "a client without an identity gets a session",
        ("hopring.session.access:ClientAccess.refuse_hello", _hello_taken),
    ),
    bug(
        "any-name",
        "grants",
        "a client has any name",
        ("hopring.session.grants:GrantsTable.may_use_name", _name_allowed),
    ),
    bug("any-join", "grants", "a client joins any group", (f"{RIGHTS}.may_join", _allowed)),
    bug("any-send", "grants", "a client sends to any group", (f"{RIGHTS}.may_send", _allowed)),
    bug("any-listing", "grants", "a client sees any group", (f"{RIGHTS}.may_see", _allowed)),
    bug("any-app", "grants", "a client sends batches of any application", (f"{RIGHTS}.may_use_app", _allowed)),
    bug(
        "dialled-unchecked",
        "TLS",
        "whoever answers counts as the dialled daemon",
        ("hopring.daemon.net.tls:TlsConnection._check_peer", _nothing),
    ),
    bug(
        "greeting-believed",
        "TLS",
        "a connection belongs to whom its greeting names",
        (f"{STREAMS}:LinkStreams._shown", _nothing),
    ),
    bug(
        "pending-unbounded",
        "TLS",
        "all connections wait for their handshake",
        (f"{STREAMS}:PendingStreams.welcome", _pending_unbounded),
    ),
    bug(
        "ended-kept",
        "TLS",
        "connections that ended wait for the garbage collector",
        ("hopring.daemon.net.tcp:TcpConnection.close", _ended_kept),
    ),
    bug(
        "first-early-stays",
        "TCP links",
        "the first connection for a network to come keeps later ones out",
        (f"{STREAMS}:LinkStreams._admit", _early_of_each_network),
        (f"{STREAMS}:LinkStreams.begin", _early_of_this_network),
    ),
    bug(
        "early-unbounded",
        "TCP links",
        "all bytes for networks to come are kept",
        (f"{STREAMS}:_Early._keep", _early_unbounded),
    ),
    bug(
        "early-for-ever",
        "TCP links",
        "connections for networks to come wait for ever",
        (f"{STREAMS}:LinkStreams._drop_expired", _nothing),
    ),
    bug(
        "dial-unguarded",
        "TCP links",
        "without a descriptor to dial with, the daemon ends",
        (f"{STREAMS}:LinkStreams._dial", _dial_unguarded),
    ),
    bug(
        "all-for-clients",
        "descriptors",
        "clients may use all descriptors",
        ("hopring.daemon.process.environment:for_clients", _all_for_clients),
    ),
    bug(
        "seq-unbounded",
        "bounds",
        "a bundle or promise of any sequence counts",
        ("hopring.ordering.order:Order._check_seq", _seq_unbounded),
    ),
    bug(
        "stamp-unbounded",
        "bounds",
        "a bundle or promise with any stamp counts",
        ("hopring.ordering.order:Order._check_stamp", _stamp_unbounded),
    ),
    bug(
        "counter-believed",
        "bounds",
        "a view counter of anybody is believed",
        ("hopring.membership.view_counter:ViewCounter.heard", _counter_believed),
    ),
    bug(
        "attempt-believed",
        "bounds",
        "a NEWMEMB with any view counter counts",
        ("hopring.membership.view_counter:ViewCounter.check", _attempt_believed),
    ),
    bug(
        "record-believed",
        "bounds",
        "the record with the highest number wins",
        ("hopring.membership.gather:is_news", _record_believed),
    ),
    bug(
        "newmemb-unchecked",
        "bounds",
        "a NEWMEMB counts, whoever is to represent its view",
        ("hopring.membership.messages:_check_newmemb", _without_newmemb),
    ),
)
OF_THE_CAMPAIGN: Final = ("replay-taken", "challenge-skipped", "own-bundle-believed", "promise-unbounded")

BUGS: Final[dict[str, Bug]] = {
    **{one.name: one for one in _LISTED},
    **{name: one for name, one in all_bugs().items() if name in OF_THE_CAMPAIGN},
}
