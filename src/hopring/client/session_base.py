"""Common parts of the asyncio and the blocking session: properties, and values made of checked arguments."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any, Final

from hopring.client.arguments import (
    PathName,
    Reconnect,
    Requirement,
    check_flag,
    check_number,
    check_seconds,
    check_service,
    check_session_name,
    check_type,
    checked_bodies,
    checked_data,
    checked_envelope,
    checked_resilience,
    checked_retain,
    checked_ttl_us,
    got,
    groups_named,
    parse_url,
    parse_urls,
    random_name,
)
from hopring.client.connection import ChannelMaker, ClientIdentity
from hopring.client.core import ClientCore
from hopring.client.errors import WrongType, WrongValue
from hopring.client.events import Quorum
from hopring.client.outgoing import OutgoingMessage, OutgoingSeries
from hopring.client.peer_url import check_peer
from hopring.client.sockets import now_us
from hopring.client.values.codecs import Codec
from hopring.client.values.tracing import with_trace
from hopring.errors import HopError
from hopring.services import Service
from hopring.session.options import WINDOW_BYTES_MAX, WINDOW_BYTES_MIN, Slow, SlowPolicy, WhenSuspended
from hopring.system.kernel import kernel

USER_CHARACTERS_MAX: Final = 256


class SessionProperties:
    """The properties that both forms of a session have."""

    _core: ClientCore

    @property
    def name(self) -> str:
        """The session's name at its daemon."""
        return self._core.name

    @property
    def daemon(self) -> str:
        """The daemon's name; without a connection, that of the last one."""
        return self._core.welcomed.daemon

    @property
    def private_group(self) -> str:
        """The group of this session alone; messages to it need no join."""
        return self._core.welcomed.private_group

    @property
    def message_bytes_max(self) -> int:
        """The largest message that the daemon accepts."""
        return self._core.welcomed.message_bytes_max

    @property
    def joined(self) -> tuple[str, ...]:
        """The groups of the session; without a connection, those that it will join again."""
        return tuple(sorted(self._core.groups - self._core.state.hidden))

    @property
    def dropped_again(self) -> int:
        """The number of dropped messages: those of repeated batches that the session had received already."""
        return self._core.state.dedup.dropped

    @property
    def expired(self) -> int:
        """The number of messages that were not sent because their time to live had ended."""
        return self._core.state.expired

    @property
    def connected(self) -> bool:
        """Whether there is a connection to a daemon now."""
        return self._core.connected

    @property
    def ended(self) -> HopError | None:
        """Why the session has ended; None while it goes on, with a connection or between two."""
        return self._core.ended

    # Within the library.

    def _skip_batches(self, group: str, marks: Mapping[str, int]) -> None:
        """Drops messages of batches that a spool of this group has already, by its marks."""
        self._core.state.dedup.remember(group, marks)


class OutgoingValues:
    """What a session does with values and headers before they are sent; both forms have it."""

    _codec: Codec[Any] | None = None
    _tracing = False

    def _headers(self, headers: Mapping[str, str] | None) -> Mapping[str, str] | None:
        """The headers of a message, with the trace context if the session gives one."""
        return with_trace(headers) if self._tracing else headers


@dataclass(frozen=True, slots=True)
class SessionCredentials:
    """The arguments of `connect` that say who the client is, and whom it trusts."""

    user: str | None = None
    key: PathName | None = None
    token: PathName | None = None
    ca: PathName | None = None
    certificate: PathName | None = None


NO_CREDENTIALS: Final = SessionCredentials()


def core_of(
    url: str | Sequence[str],
    name: str | None,
    membership: bool,
    window_bytes: int,
    slow: SlowPolicy,
    priority: bool,
    require: Requirement | None,
    timeout_seconds: float,
    reconnect: bool | Reconnect,
    credentials: SessionCredentials = NO_CREDENTIALS,
    when_suspended: WhenSuspended = "wait",
) -> ClientCore:
    """Checks the arguments of `connect`, and makes the core of the session."""
    urls = parse_urls(url)
    check_peer(parse_url(urls[0]).peer, slow, priority, credentials != NO_CREDENTIALS)
    if name is not None:
        check_session_name(name)
    check_flag("membership", membership)
    check_number("window_bytes", window_bytes, WINDOW_BYTES_MIN, WINDOW_BYTES_MAX)
    policies = [one.value for one in Slow]
    if not isinstance(slow, str):
        raise WrongType("slow", got(slow), f"give one of {', '.join(policies)}")
    if slow not in policies:
        raise WrongValue("slow", f"got {slow!r}", f"give one of {', '.join(policies)}")
    check_flag("priority", priority)
    if require not in (None, "primary"):
        raise WrongValue("require", f"got {require!r}", 'give "primary" or None')
    if when_suspended not in ("wait", "fail"):
        raise WrongValue("when_suspended", f"got {when_suspended!r}", 'give "wait" or "fail"')
    check_seconds("timeout_seconds", timeout_seconds, forever=False, above_zero=True)
    if reconnect is True:
        reconnect = Reconnect()
    elif reconnect is not False and not isinstance(reconnect, Reconnect):
        raise WrongType("reconnect", got(reconnect), "give True, False or a Reconnect")
    identity, tls = _identity_of(credentials), _tls_of(urls, credentials)
    user = credentials.user if tls is None or tls.user is None else tls.user
    core = ClientCore(
        urls,
        random_name(user) if name is None else name,
        window_bytes,
        membership,
        slow=slow,
        priority=priority,
        require_primary=require == "primary",
        when_suspended=when_suspended,
        identity=identity,
        tls=tls,
        reconnect=reconnect or None,
        answer_seconds=timeout_seconds,
        epoch_us=kernel().wall_ns() // 1000 - now_us(),
        chance=random.random,
    )
    core.named = name is not None
    return core


def _identity_of(credentials: SessionCredentials) -> ClientIdentity | None:
    """Checks `user`, `key` and `token`, and loads the files; None without any of them."""
    user, key, token = credentials.user, credentials.key, credentials.token
    for argument in ("key", "token", "ca", "certificate"):
        value = getattr(credentials, argument)
        if value is not None and not isinstance(value, str | PathLike):
            raise WrongType(argument, got(value), "give the path of a file")
    if credentials.certificate is not None and (user, key, token) != (None, None, None):
        raise WrongValue("certificate", "given beside user, key or token", "give one kind of credentials")
    if user is not None and not isinstance(user, str):
        raise WrongType("user", got(user), "give the name that [[users]] of the daemon has")
    if token is not None and (user is not None or key is not None):
        raise WrongValue("token", "given beside user or key", "give a token, or a user and a key")
    if (user is None) != (key is None):
        raise WrongValue(
            "user" if user is None else "key", "missing", "give both, a user and the file of a key"
        )
    if user is not None and not 0 < len(user) <= USER_CHARACTERS_MAX:
        raise WrongValue("user", "empty or too long", "give the name that [[users]] of the daemon has")
    if user is None and token is None:
        return None
    # It takes long to import, and most sessions do not need it.
    files = import_module("hopring.credentials.client_identity")
    identity: ClientIdentity = (
        files.TokenIdentity(Path(token)) if token else files.KeyIdentity(user, Path(key or ""))
    )
    return identity


def _tls_of(urls: Sequence[str], credentials: SessionCredentials) -> ChannelMaker | None:
    """Checks `ca` and `certificate`, and loads the files if an address is one for TLS."""
    ca, certificate = credentials.ca, credentials.certificate
    if not any(parse_url(url).tls for url in urls):
        if certificate is not None:
            raise WrongValue("certificate", "given without TLS", "write hops:// in the URL")
        return None  # Commands may have `ca` from their environment.
    if ca is None:
        remedy = (
            'give ca="keys/ca.crt", the certificate of the cluster\'s authority (of commands: --ca, HOP_CA)'
        )
        raise WrongValue("ca", "missing for hops://", remedy)
    files = import_module("hopring.credentials.client_tls")
    tls: ChannelMaker = files.ClientTls(Path(ca), None if certificate is None else Path(certificate))
    return tls


def message_of(
    groups: str | Sequence[str],
    data: object,
    service: Service,
    message_type: int,
    self_discard: bool,
    headers: Mapping[str, str] | None = None,
    resilience: int | Quorum = 0,
    ttl_seconds: float | None = None,
    retain: bool = False,
) -> OutgoingMessage:
    """Checks the arguments of a message, and joins several buffers; headers precede them as an envelope."""
    names = groups_named(groups)
    check_service(service)
    check_type(message_type)
    check_flag("self_discard", self_discard)
    envelope = b"" if headers is None else checked_envelope(headers)
    body = checked_data(data)
    return OutgoingMessage(
        names,
        envelope + body if envelope else body,
        service,
        message_type,
        self_discard,
        bool(envelope),
        checked_resilience(resilience, service),
        0 if ttl_seconds is None else checked_ttl_us(ttl_seconds),
        checked_retain(retain, names, service, len(envelope) + len(body)),
    )


def series_of(
    groups: str | Sequence[str],
    bodies: Sequence[bytes],
    service: Service,
    message_type: int,
    self_discard: bool,
    resilience: int | Quorum = 0,
) -> OutgoingSeries:
    """Checks the arguments of `multicast_many`."""
    names = groups_named(groups)
    check_service(service)
    check_type(message_type)
    check_flag("self_discard", self_discard)
    holders = checked_resilience(resilience, service)
    sending = OutgoingMessage(names, b"", service, message_type, self_discard, resilience=holders)
    return OutgoingSeries(sending, checked_bodies(bodies))
