"""Checks the arguments of applications before anything is done with them, URLs of daemons included.

The asyncio and the blocking session check first, so that a mistake is refused at the call, with the same error
in compiled and interpreted builds: compiled modules would raise a TypeError of their own. An illegal group name
is a `RequestRefused`, as if the daemon had refused it. The URL of a daemon is `hops://host:port` for TLS,
`hop://host:port` for clear text, or `hop+unix:///path/of/the.sock` on this host; that of a peer without daemons
is in peer_url.py.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from os import PathLike
from pathlib import Path
from reprlib import repr as short
from typing import TYPE_CHECKING, Final, Literal, TypedDict
from urllib.parse import quote, unquote, urlsplit

from hopring.client.errors import WrongType, WrongValue
from hopring.client.events import Quorum
from hopring.client.outgoing import TYPE_MAX, checked_groups, checked_plain_group
from hopring.client.peer_url import PeerUrl, is_peer_url, parse_peer_url
from hopring.groups.names import SESSION_NAME_BYTES_MAX, is_legal_session
from hopring.ids import GroupName, Place
from hopring.ordering.holders import MAJORITY, RESILIENCE_MAX
from hopring.services import SERVICES, Service
from hopring.session.frames import CLIENT_PORT_DEFAULT
from hopring.session.options import SlowPolicy, WhenSuspended
from hopring.system.kernel import kernel
from hopring.wire.bundle import RETAINED_BYTES_MAX
from hopring.wire.envelope import (
    ENVELOPE_BYTES_MAX,
    ENVELOPE_SPARE_BYTES,
    HEADER_NAME_BYTES_MAX,
    HEADER_SIZES_BYTES,
    HEADER_VALUE_BYTES_MAX,
    HEADERS_MAX,
    RESERVED,
    encode_envelope,
)
from hopring.wire.rmp.lists import MINIMUM_ALL, MINIMUM_MAJORITY

if TYPE_CHECKING:
    from hopring.client.core import ClientCore

SECONDS_MAX: Final = 1e9
"""The longest timeout; clocks and `select` overflow somewhere above it."""

DOMAINS_MAX: Final = 64
"""The largest number of domains in `join(only=...)`."""

MINIMUM_MAX: Final = 253
"""The largest number of members that a join may state as the minimum of a group."""

_BUFFERS: Final = (bytes, bytearray, memoryview)
_BYTES_ONLY: Final = frozenset({bytes})


def got(value: object) -> str:
    """The text of a WrongType about the value that was passed."""
    return "got None" if value is None else f"got a value of type {type(value).__name__}"


def check_flag(argument: str, value: object) -> None:
    """Checks that an argument is a bool."""
    if not isinstance(value, bool):
        raise WrongType(argument, got(value), "give True or False")


def check_number(argument: str, value: object, least: int, most: int | None = None) -> None:
    """Checks that an argument is an integer in this range, both ends included."""
    limits = f"{least} or more" if most is None else f"{least} to {most}"
    if not isinstance(value, int) or isinstance(value, bool):
        raise WrongType(argument, got(value), f"give an int, {limits}")
    if value < least or (most is not None and value > most):
        raise WrongValue(argument, f"{value} is out of range", f"give an int, {limits}")


def check_seconds(argument: str, value: object, *, forever: bool = True, above_zero: bool = False) -> None:
    """Checks a timeout in seconds; None, if it is allowed, means no limit."""
    if value is None and forever:
        return
    remedy = f"give seconds as a float, {'above 0' if above_zero else '0 or more'}"
    remedy += ", or None to wait without a limit" if forever else ""
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise WrongType(argument, got(value), remedy)
    if not isfinite(value) or not 0 <= value <= SECONDS_MAX or (above_zero and not value):
        raise WrongValue(argument, f"{value:g} s is out of range", remedy)


def checked_retain(retain: object, groups: tuple[GroupName, ...], service: Service, size_bytes: int) -> bool:
    """Checks whether daemons may keep a message for those who join later."""
    check_flag("retain", retain)
    if not retain:
        return False
    if not service.total:
        reason = "a retained message needs a place in the order"
        raise WrongValue("service", reason, "use Service.CAUSAL, AGREED or SAFE")
    if len(groups) != 1 or groups[0].startswith("#"):
        raise WrongValue("retain", "a message to several groups, or to a private one", "send it to one group")
    if size_bytes > RETAINED_BYTES_MAX:
        remedy = f"retain {RETAINED_BYTES_MAX} bytes at most, headers included"
        raise WrongValue("retain", f"a message of {size_bytes} bytes", remedy)
    return True


def checked_ttl_us(seconds: float) -> int:
    """Checks a time to live; returns it in microseconds, at least one."""
    remedy = "give seconds as a float, above 0, or None for no limit"
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        raise WrongType("ttl_seconds", got(seconds), remedy)
    if not isfinite(seconds) or not 0 < seconds <= SECONDS_MAX:
        raise WrongValue("ttl_seconds", f"{seconds:g} s is out of range", remedy)
    return max(1, int(seconds * 1_000_000))


def check_type(message_type: object) -> None:
    """Checks the type of a message."""
    check_number("type", message_type, 0, TYPE_MAX)


def check_service(service: object) -> None:
    """Checks that an argument is a Service; names and numbers are refused."""
    if isinstance(service, Service):
        return
    meant = "AGREED"
    if isinstance(service, str) and service.upper() in Service.__members__:
        meant = service.upper()
    elif isinstance(service, int) and not isinstance(service, bool) and service in SERVICES:
        meant = SERVICES[service].name
    reason = f"got {short(service)}" if isinstance(service, str | int) else got(service)
    raise WrongType("service", reason, f"give a Service, such as Service.{meant}")


def checked_resilience(resilience: object, service: Service) -> int:
    """Checks the resilience of a message; returns it as it travels, 0 where the service is enough."""
    if resilience is Quorum.MAJORITY:
        number = MAJORITY
    else:
        if isinstance(resilience, Quorum):
            raise WrongValue("resilience", "not ALL", "use Service.SAFE: all daemons hold the message")
        if not isinstance(resilience, int) or isinstance(resilience, bool):
            remedy = f"give an int, 0 to {RESILIENCE_MAX}, or hopring.MAJORITY"
            raise WrongType("resilience", got(resilience), remedy)
        check_number("resilience", resilience, 0, RESILIENCE_MAX)
        assert isinstance(resilience, int), "it was checked"
        number = resilience
    if number and not service.total:
        reason = f"a message with Service.{service.name} does not wait for others"
        raise WrongValue("resilience", reason, "use Service.CAUSAL or AGREED, or leave resilience out")
    return number if service.may_be_resilient else 0


def checked_data(data: object) -> bytes:
    """Checks the body of a message; joins several buffers."""
    if isinstance(data, bytes):
        return data
    if isinstance(data, bytearray | memoryview):
        return bytes(data)
    remedy = "give bytes, a bytearray or a memoryview, or a list of them that are sent end to end"
    if isinstance(data, str):
        raise WrongType("data", got(data), "encode it: text.encode()")
    if not isinstance(data, Sequence):
        raise WrongType("data", got(data), remedy)
    for at, one in enumerate(data):
        if not isinstance(one, _BUFFERS):
            raise WrongType(f"data[{at}]", got(one), remedy)
    return b"".join(data)


def checked_envelope(headers: object) -> bytes:
    """Checks the headers of a message and encodes them; nothing for an empty mapping."""
    if not isinstance(headers, Mapping):
        raise WrongType("headers", got(headers), "give a dict of str to str, or None")
    if len(headers) > HEADERS_MAX:
        raise WrongValue("headers", f"{len(headers)} headers", f"give {HEADERS_MAX} at most")
    total_bytes = 0
    for name, value in headers.items():
        total_bytes += _check_header(name, value)
    if total_bytes > ENVELOPE_BYTES_MAX - ENVELOPE_SPARE_BYTES:
        most = ENVELOPE_BYTES_MAX - ENVELOPE_SPARE_BYTES
        reason = f"{total_bytes} bytes of names and values"
        raise WrongValue("headers", reason, f"give {most} bytes at most; long values belong into the data")
    return encode_envelope(headers) if headers else b""


def _check_header(name: object, value: object) -> int:
    """Checks one header; returns its size."""
    if not isinstance(name, str) or not isinstance(value, str):
        reason = got(name) if not isinstance(name, str) else f"{short(name)} is {type(value).__name__}"
        raise WrongType("headers", reason, "give a dict of str to str, or None")
    try:
        name_bytes, value_bytes = len(name.encode()), len(value.encode())
    except UnicodeEncodeError:
        raise WrongValue("headers", f"{short(name)} is not UTF-8", "leave out lone surrogates") from None
    if not 0 < name_bytes <= HEADER_NAME_BYTES_MAX:
        raise WrongValue("headers", f"a name of {name_bytes} bytes", f"give 1 to {HEADER_NAME_BYTES_MAX} bytes")
    if name.startswith(RESERVED):
        remedy = f"names that begin with {RESERVED} belong to hopring: choose another"
        raise WrongValue("headers", f"got {short(name)}", remedy)
    if value_bytes > HEADER_VALUE_BYTES_MAX:
        reason = f"{short(name)} has a value of {value_bytes} bytes"
        remedy = f"give {HEADER_VALUE_BYTES_MAX} at most; long values belong into the data"
        raise WrongValue("headers", reason, remedy)
    return name_bytes + value_bytes + HEADER_SIZES_BYTES


def checked_bodies(bodies: Sequence[bytes]) -> Sequence[bytes]:
    """Checks the bodies of `multicast_many`."""
    if isinstance(bodies, str | bytes | bytearray | memoryview) or not isinstance(bodies, Sequence):
        raise WrongType("bodies", got(bodies), "give a list of bytes, one for each message")
    if not _BYTES_ONLY.issuperset(map(type, bodies)):
        for at, one in enumerate(bodies):
            if not isinstance(one, bytes):
                raise WrongType(f"bodies[{at}]", got(one), "give a list of bytes, one for each message")
    return bodies


def check_messages(messages: object) -> None:
    """Checks that messages of `multicast_batch` can be iterated; each is checked when it is read."""
    if isinstance(messages, str | bytes | bytearray | memoryview) or not isinstance(messages, Iterable):
        raise WrongType("messages", got(messages), "give an iterable of bytes, or of (bytes, type)")


def checked_message(at: int, message: object) -> tuple[bytes, int]:
    """Checks one message of `multicast_batch`; returns its body and type."""
    if isinstance(message, bytes):
        return message, 0
    if not isinstance(message, tuple) or len(message) != 2 or not isinstance(message[0], bytes):
        raise WrongType(f"messages[{at}]", got(message), "give bytes, or (bytes, type)")
    check_number(f"messages[{at}][1]", message[1], 0, TYPE_MAX)
    return message


def _check_str(argument: str, value: object) -> None:
    if not isinstance(value, str):
        raise WrongType(argument, got(value), "give a group's name as a str")


def groups_named(groups: str | Sequence[str]) -> tuple[GroupName, ...]:
    """Checks the groups of a message, which may be private ones."""
    if isinstance(groups, str):
        return checked_groups((groups,))
    if isinstance(groups, bytes | bytearray | memoryview) or not isinstance(groups, Sequence):
        raise WrongType("groups", got(groups), "give a group's name as a str, or a list of names")
    for at, one in enumerate(groups):
        _check_str(f"groups[{at}]", one)
    return checked_groups(tuple(groups))


def group_named(group: str) -> GroupName:
    """Checks one group, which may be a private one."""
    _check_str("group", group)
    return checked_groups((group,))[0]


def check_plain_group(group: object) -> None:
    """Checks a group to join or leave, which may not be a private one."""
    if not isinstance(group, str):
        raise WrongType("group", got(group), "give a group's name as a str")
    checked_plain_group(group)


def check_session_name(name: object) -> None:
    """Checks a session's name, as far as it does not depend on the daemon's."""
    remedy = f"give a str of 1 to {SESSION_NAME_BYTES_MAX} bytes of UTF-8 without # and NUL, or None for any"
    if not isinstance(name, str):
        raise WrongType("name", got(name), remedy)
    if not is_legal_session(name, ""):
        raise WrongValue("name", f"got {short(name)}", remedy)


LatePolicy = Literal["wait", "exclude"]
"""What a member with view synchrony does about others that do not agree to a flush."""


@dataclass(frozen=True, slots=True)
class ViewSynchrony:
    """The options of view synchrony for one member of a group."""

    late: LatePolicy = "wait"  # "exclude" goes on without those who have not agreed in time.
    flush_seconds: float = 10.0  # The time for that, from the change of members on.

    def __post_init__(self) -> None:
        if self.late not in ("wait", "exclude"):
            raise WrongValue("late", f"got {self.late!r}", 'give "wait" or "exclude"')
        check_seconds("flush_seconds", self.flush_seconds, forever=False, above_zero=True)


SynchronyName = Literal["view"]
"""View synchrony with its default options, as an argument of `join`."""


def check_synchrony(core: "ClientCore", synchrony: object, since: object) -> ViewSynchrony | None:
    """Checks the argument `synchrony` of `join`."""
    if synchrony is None:
        return None
    remedy = 'give "view", a ViewSynchrony, or None'
    if not isinstance(synchrony, ViewSynchrony | str):
        raise WrongType("synchrony", got(synchrony), remedy)
    if isinstance(synchrony, str) and synchrony != "view":
        raise WrongValue("synchrony", f"got {synchrony!r}", remedy)
    if since is not None:
        raise WrongValue("synchrony", "given beside since", "join with one of them")
    if not core.membership:
        raise WrongValue("synchrony", "it needs views", "connect with membership=True")
    return synchrony if isinstance(synchrony, ViewSynchrony) else ViewSynchrony()


def check_minimum(core: "ClientCore", group: str, minimum: object, synchrony: object = None) -> None:
    """Checks the argument `minimum` of `join`; the join of this group will state it."""
    if isinstance(minimum, Quorum):
        number = MINIMUM_ALL if minimum is Quorum.ALL else MINIMUM_MAJORITY
    else:
        if not isinstance(minimum, int) or isinstance(minimum, bool):
            remedy = f"give an int, 1 to {MINIMUM_MAX}, hopring.MAJORITY or hopring.ALL"
            raise WrongType("minimum", got(minimum), remedy)
        check_number("minimum", minimum, 1, MINIMUM_MAX)
        number = minimum
    if number > 1 and synchrony is not None:
        raise WrongValue("minimum", "given beside synchrony", "join with one of them")
    if group not in core.groups:
        core.state.minimums[group] = 0 if number == 1 else number


def check_only(core: "ClientCore", group: str, only: object, *others: object) -> None:
    """Checks the argument `only` of `join`: from here on the session gets messages of these domains alone."""
    if only is None:
        if group not in core.groups:
            core.state.only.pop(group, None)
        return
    remedy = f"give up to {DOMAINS_MAX} str, or leave it out"
    if isinstance(only, str) or not isinstance(only, Sequence) or not all(isinstance(one, str) for one in only):
        raise WrongType("only", got(only), remedy)
    if not 0 < len(only) <= DOMAINS_MAX:
        raise WrongValue("only", f"{len(only)} domains", remedy)
    if any(one is not None for one in others):
        reason = "given beside since, synchrony or state, which need all messages"
        raise WrongValue("only", reason, "join with one of them")
    if group not in core.groups:
        core.state.only[group] = frozenset(only)


def check_join(core: "ClientCore", group: object, since: object, spool: object) -> None:
    """Checks the arguments of `join`."""
    check_plain_group(group)
    if since is None and spool is None:
        return
    if since is None:
        raise WrongValue("since", "missing", "give the offset or the place at which the replay begins")
    if not isinstance(since, Place):
        check_number("since", since, 0)
    if spool is not None and not isinstance(spool, str | PathLike):
        raise WrongType("spool", got(spool), "give the directory of spools as a Path or a str")
    if not core.membership:
        raise WrongValue("since", "a join since an offset needs views", "connect with membership=True")


URL_DEFAULT: Final = f"hop://localhost:{CLIENT_PORT_DEFAULT}"
NAME_BYTES: Final = 4
_REMEDY: Final = "write hop://host:port, hops://host:port, hop+unix:///path or rmp://"


@dataclass(frozen=True, slots=True)
class DaemonAddress:
    """A TCP address, the path of a Unix socket, or the terms of a peer."""

    host: str = ""
    port: int = CLIENT_PORT_DEFAULT
    path: str = ""
    tls: bool = False
    peer: PeerUrl | None = None  # There is no daemon: a peer is made for the session.


def parse_url(url: str) -> DaemonAddress:
    """Parses a URL; raises WrongType or WrongValue."""
    if not isinstance(url, str):
        raise WrongType("url", got(url), _REMEDY)
    if is_peer_url(url):
        return DaemonAddress(peer=parse_peer_url(url))
    try:
        parts = urlsplit(url)
        port = CLIENT_PORT_DEFAULT if parts.port is None else parts.port
    except ValueError as error:
        raise _wrong(url, f" ({error})") from None
    if parts.query or parts.fragment or parts.username is not None or not port:
        raise _wrong(url)
    if parts.scheme == "hop+unix" and parts.path and not parts.netloc and "\0" not in unquote(parts.path):
        return DaemonAddress(path=unquote(parts.path))
    if parts.scheme not in ("hop", "hops") or not parts.hostname or parts.path not in ("", "/"):
        raise _wrong(url)
    return DaemonAddress(parts.hostname, port, tls=parts.scheme == "hops")


def _wrong(url: str, why: str = "") -> WrongValue:
    user, at, rest = url.rpartition("@")
    shown = f"***@{rest}" if at and user else url  # There may be a password before it.
    return WrongValue("url", f"{shown!r} is no address of a daemon{why}", _REMEDY)


def unix_url(path: Path) -> str:
    """The URL of a Unix socket; a relative path stays relative, because the kernel limits its length."""
    return f"hop+unix:{'//' if path.is_absolute() else ''}{quote(str(path))}"


def random_name(user: str | None = None) -> str:
    """A unique name for a session that was given none; it begins with that of the user, if there is one."""
    name = f"c{os.getpid()}-{kernel().random_bytes(NAME_BYTES).hex()}"
    named = f"{user}-{name}"
    return named if user is not None and is_legal_session(named, "") else name


def parse_urls(url: str | Sequence[str]) -> tuple[str, ...]:
    """Parses one URL, several separated by commas, or a sequence of URLs."""
    if isinstance(url, bytes | bytearray) or not isinstance(url, Sequence):
        raise WrongType("url", got(url), f"{_REMEDY}, or a list of them")
    if isinstance(url, str) and is_peer_url(url):
        parse_url(url)
        return (url,)
    urls = tuple([one.strip() for one in url.split(",")] if isinstance(url, str) else url)
    if not urls:
        raise WrongValue("url", "no daemon is named", _REMEDY)
    for one in urls:
        if parse_url(one).peer is not None and len(urls) > 1:
            raise WrongValue("url", "rmp:// among other addresses", "give it alone: it names no daemon")
    return urls


@dataclass(frozen=True, slots=True)
class Reconnect:
    """How long and how often a session tries to reconnect."""

    delay_seconds_min: float = 0.1  # Before the first try; up to half of it is random.
    delay_seconds_max: float = 5.0
    give_up_seconds: float = 120.0  # Without a connection for this time the session ends.

    def __post_init__(self) -> None:
        for name in ("delay_seconds_min", "delay_seconds_max"):
            check_seconds(name, getattr(self, name), forever=False, above_zero=True)
        check_seconds("give_up_seconds", self.give_up_seconds, forever=False)
        if self.delay_seconds_min > self.delay_seconds_max:
            reason = f"{self.delay_seconds_min:g} s is more than delay_seconds_max"
            raise WrongValue("delay_seconds_min", reason, f"give at most {self.delay_seconds_max:g}")


PathName = str | PathLike[str]
"""The path of a file, as applications give it."""


Requirement = Literal["primary"]
"""What a session may require of its daemon: that its view is primary."""


class ConnectOptions(TypedDict, total=False):
    """The arguments of `connect` beside the URL and the codec, for type checkers."""

    name: str | None
    membership: bool
    window_bytes: int
    slow: SlowPolicy
    priority: bool
    require: Requirement | None
    when_suspended: WhenSuspended
    user: str | None
    key: PathName | None
    token: PathName | None
    ca: PathName | None
    certificate: PathName | None
    trace_context: bool
    timeout_seconds: float
    reconnect: bool | Reconnect
