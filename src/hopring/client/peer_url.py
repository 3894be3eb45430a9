"""The URL of a peer: `rmp://[address[:port]]/[domain]?ttl=&interface=&minimum=&found=&via=&flow=&host=` ...

Above       the transports, which have a peer made for a session, and the peer itself (peer/).
Invariants  an address of a peer is checked as a whole before any socket is opened, except what only the host
            knows: whether it has the address and the interface.
"""

from dataclasses import dataclass
from importlib import import_module
from ipaddress import IPv4Address
from typing import Final, Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from hopring.client.errors import NotOffered, WrongValue
from hopring.credentials.files import CredentialError
from hopring.session.options import NOT_OFFERED, Slow
from hopring.wire.rmp.lists import MEMBERS_MAX, MINIMUM_ALL, MINIMUM_MAJORITY

SCHEME: Final = "rmp"
ADDRESS_DEFAULT: Final = "127.0.0.1"
TTL_MAX: Final = 255
DOMAIN_BYTES_MAX: Final = 64
VIA_MAX: Final = 8

PeerHost = Literal["thread", "loop", "process"]
"""Where a peer runs: in a thread of the program, in its event loop, or in a process of its own."""

HOSTS: Final[tuple[PeerHost, ...]] = ("thread", "loop", "process")
FLOWS: Final = ("rmp", "cubic", "rate")
_YES_NO: Final = {"yes": True, "no": False}
_MINIMUM_WORDS: Final = {"majority": MINIMUM_MAJORITY, "all": MINIMUM_ALL}
_PARTS: Final = (
    "ttl",
    "interface",
    "minimum",
    "found",
    "via",
    "flow",
    "host",
    "keys",
    "insecure",
    "multicast",
    "admin",
    "metrics",
    "trace",
)


@dataclass(frozen=True, slots=True)
class PeerUrl:
    """What the URL of a peer says."""

    text: str
    address: str = ADDRESS_DEFAULT  # Of this host: where the peer receives unicasts.
    port: int = 0  # 0: the kernel chooses one.
    domain: str = ""  # Groups of different domains have nothing in common.
    ttl: int = 0  # Hops of multicasts; 0: they stay on this host.
    interface: str = ""  # For multicasts; empty: the one of the address.
    minimum: int = 1  # The fewest members that may go on, or MINIMUM_MAJORITY or MINIMUM_ALL.
    found: bool | None = None  # Whether a ring is founded if nobody answers; None: not with majority or all.
    via: tuple[tuple[str, int], ...] = ()  # Members to ask by unicast.
    flow: str = "cubic"
    host: PeerHost = "thread"
    keys: str = ""  # The file of the cluster keys.
    insecure: bool = False  # Without keys beyond this host.
    multicast: bool = True  # False: this host hears none, and says so; packets come by unicast.
    admin: str = ""  # A Unix socket for `hop rmp status`, and for cuts in tests.
    metrics: tuple[str, int] | None = None  # Where the peer answers GET /metrics.
    trace: str = ""  # The file of its trace.

    @property
    def is_local(self) -> bool:
        """Whether nothing leaves this host."""
        return IPv4Address(self.address).is_loopback and self.ttl == 0


def is_peer_url(url: str) -> bool:
    """Whether a URL is one of a peer, right or wrong."""
    return url.startswith(f"{SCHEME}:")


def parse_peer_url(url: str) -> PeerUrl:
    """Parses the URL of a peer; WrongValue names the part and the remedy."""
    try:
        parts = urlsplit(url)
        port = parts.port or 0
        query = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query))
    except ValueError as error:
        raise _wrong(url, str(error), "write rmp://[address[:port]]/[domain]?name=value&...") from None
    if parts.username is not None or parts.fragment:
        raise _wrong(url, "a user or a fragment", "write rmp://[address[:port]]/[domain]?name=value&...")
    given: dict[str, str] = {}
    for name, value in query:
        if name not in _PARTS:
            raise _wrong(url, f"no part {name!r}", f"there are {', '.join(_PARTS)}")
        if name in given and name != "via":
            raise _wrong(url, f"{name} twice", "give it once")
        given[name] = f"{given[name]},{value}" if name in given else value
    domain = unquote(parts.path).removeprefix("/")
    if "/" in domain or "\0" in domain or len(domain.encode()) > DOMAIN_BYTES_MAX:
        raise _wrong(url, f"domain {domain!r}", f"give {DOMAIN_BYTES_MAX} bytes at most, without / and NUL")
    minimum = _minimum(url, given.get("minimum", "1"))
    return PeerUrl(
        url,
        _address(url, parts.hostname or ADDRESS_DEFAULT),
        port,
        domain,
        _number(url, "ttl", given.get("ttl", "0"), 0, TTL_MAX),
        given.get("interface", ""),
        minimum,
        _yes(url, "found", given["found"]) if "found" in given else None,
        _via(url, given.get("via", "")),
        _one_of(url, "flow", given.get("flow", "cubic"), FLOWS),
        _host(url, given.get("host", "thread")),
        given.get("keys", ""),
        _yes(url, "insecure", given.get("insecure", "no")),
        _yes(url, "multicast", given.get("multicast", "yes")),
        given.get("admin", ""),
        _metrics(url, given["metrics"]) if "metrics" in given else None,
        given.get("trace", ""),
    )


def check_peer(peer: PeerUrl | None, slow: str, priority: object, has_credentials: bool) -> None:
    """Refuses what a peer cannot offer, and one that nothing protects beyond this host."""
    if peer is None:
        return
    if slow in (Slow.SPILL, Slow.BLOCK):
        raise NotOffered(f"{NOT_OFFERED}: slow={slow!r}", 'choose "kick" or "drop", or use daemons (hop://)')
    if priority is True:
        raise NotOffered(f"{NOT_OFFERED}: priority=True", "leave it out, or use daemons (hop://)")
    if has_credentials:
        remedy = "leave them out, or use daemons (hop://)"
        raise NotOffered(f"{NOT_OFFERED}: users, tokens and certificates", remedy)
    if peer.keys:
        # Whether they are good is told before a peer begins; few programs need the ciphers.
        import_module("hopring.credentials.cluster_keys").load_key_ring(peer.keys)
    elif not peer.is_local and not peer.insecure:
        problem = f"nothing seals what is sent beyond this host from {peer.address} with ttl={peer.ttl}"
        remedy = "give &keys=FILE, made by `hop rmp key FILE`, or accept it with &insecure=yes"
        raise CredentialError("keys", problem, remedy)


def _wrong(url: str, problem: str, remedy: str) -> WrongValue:
    return WrongValue("url", f"{url!r}: {problem}", remedy)


def _address(url: str, text: str) -> str:
    remedy = "give an IPv4 address of this host, such as 127.0.0.1 or 192.0.2.7"
    try:
        address = IPv4Address("127.0.0.1" if text == "localhost" else text)
    except ValueError:
        raise _wrong(url, f"{text!r} is no IPv4 address", remedy) from None
    if address.is_unspecified or address.is_multicast:
        raise _wrong(url, f"{text} is no address of one host", remedy)
    return str(address)


def _number(url: str, name: str, text: str, least: int, most: int) -> int:
    if not text.isascii() or not text.isdigit() or not least <= int(text) <= most:
        raise _wrong(url, f"{name}={text}", f"give a number from {least} to {most}")
    return int(text)


def _minimum(url: str, text: str) -> int:
    if text in _MINIMUM_WORDS:
        return _MINIMUM_WORDS[text]
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) < MINIMUM_MAJORITY:
        most = min(MEMBERS_MAX, MINIMUM_MAJORITY) - 1
        raise _wrong(url, f"minimum={text}", f"give majority, all, or a number from 1 to {most}")
    return int(text)


def _yes(url: str, name: str, text: str) -> bool:
    if text not in _YES_NO:
        raise _wrong(url, f"{name}={text}", "give yes or no")
    return _YES_NO[text]


def _one_of(url: str, name: str, text: str, names: tuple[str, ...]) -> str:
    if text not in names:
        raise _wrong(url, f"{name}={text}", f"give {', '.join(names[:-1])} or {names[-1]}")
    return text


def _metrics(url: str, text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return _address(url, host or ADDRESS_DEFAULT), _number(url, "metrics", port, 0, 65535)


def _host(url: str, text: str) -> PeerHost:
    named = _one_of(url, "host", text, HOSTS)
    return next(host for host in HOSTS if host == named)


def _via(url: str, text: str) -> tuple[tuple[str, int], ...]:
    named = [one for one in text.split(",") if one]
    if len(named) > VIA_MAX:
        raise _wrong(url, f"{len(named)} members in via", f"give {VIA_MAX} at most")
    out: list[tuple[str, int]] = []
    for one in named:
        host, _, port = one.rpartition(":")
        try:
            address = IPv4Address(host)
        except ValueError:
            raise _wrong(url, f"via={one}", "give host:port of a member, with an IPv4 address") from None
        out.append((str(address), _number(url, "via", port, 1, 65535)))
    return tuple(out)
