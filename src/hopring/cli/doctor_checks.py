"""The checks of `hop doctor`, of running daemons and of this host, and the report that collects the results.

Running daemons are asked for their state and for the daemons that they see. The checks of this host need no
daemon: addresses, ports, routes, packet sizes, limits, multicast.
"""

import errno
import os
import resource
import select
import socket
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from itertools import permutations
from pathlib import Path
from typing import Final

from hopring.cli.daemon_session import identity_at
from hopring.client.blocking import connect
from hopring.client.errors import BadArgument, ConnectError
from hopring.client.queries import DaemonFacts, DaemonView, LinkFacts
from hopring.config import Config, Daemon, Site, config_digest
from hopring.daemon.net.multicast import MulticastGroup, interface_of
from hopring.daemon.net.udp import BUFFER_BYTES, ask_buffers, open_group
from hopring.daemon.process.environment import state_path, wanted_descriptors
from hopring.errors import Drop, HopError
from hopring.links.kinds import KINDS
from hopring.sealing.packet import OVERHEAD_BYTES
from hopring.session.options import SessionOptions
from hopring.wire.data import SEGMENT_BYTES_DEFAULT


class CheckVerdict(StrEnum):
    """The result of one check."""

    OK = "ok"
    FINDING = "finding"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class DoctorCheck:
    """One check and its result."""

    verdict: CheckVerdict
    subject: str  # A daemon, a pair of them, or the host.
    text: str
    remedy: str = ""

    def facts(self) -> dict[str, str]:
        """The check as a JSON object."""
        return asdict(self)


@dataclass(slots=True)
class DoctorReport:
    """All checks, in the order in which they were made."""

    checks: list[DoctorCheck] = field(default_factory=list)

    def good(self, subject: str, text: str) -> None:
        """Adds a check that found nothing wrong."""
        self.checks.append(DoctorCheck(CheckVerdict.OK, subject, text))

    def finding(self, subject: str, text: str, remedy: str) -> None:
        """Adds a finding with its remedy."""
        self.checks.append(DoctorCheck(CheckVerdict.FINDING, subject, text, remedy))

    def unknown(self, subject: str, text: str, remedy: str = "") -> None:
        """Adds a check that could not be made from here, and what would make it possible."""
        self.checks.append(DoctorCheck(CheckVerdict.UNKNOWN, subject, text, remedy))

    @property
    def findings(self) -> list[DoctorCheck]:
        """The checks that found something."""
        return [one for one in self.checks if one.verdict is CheckVerdict.FINDING]


LOSS_MAX: Final = 0.05
LOSS_PACKETS_MIN: Final = 200
"""The least number of packets for which a share of lost ones means something."""

_DROPS: Final = {
    Drop.CLUSTER: "another cluster, or another configuration file, sends here: compare `hop config check`",
    Drop.VERSION: "a daemon with keys sends to this one without, or another version of the protocol",
    Drop.CLEAR_TEXT: "a daemon without keys sends here: set keys in [security] on its host too",
    Drop.KEY: "a daemon with other keys sends here: compare `hop keys show` on all hosts",
    Drop.SEAL: "damaged or forged packets, or another cluster with the same key",
    Drop.MAGIC: "something that is no daemon sends to its port: find it, or choose another port",
}
_UNSENT: Final = {
    "too_long": "the network carries smaller packets: lower `segment`",
    "unreachable": "there is no route: check addresses, routes and, for a group, multicast",
    "queue_full": "the network takes less than is sent: set `rate`, or raise net.core.wmem_max",
}
_ALIKE: Final = "all daemons need the same"


@dataclass(frozen=True, slots=True)
class AskedDaemon:
    """The answers of one daemon."""

    url: str
    facts: DaemonFacts
    view: DaemonView


def ask(url: str, seconds: float) -> AskedDaemon | str:
    """The answers of the daemon at a URL, or the reason why there are none."""
    try:
        session = connect(url, membership=False, timeout_seconds=seconds, reconnect=False, **identity_at(url))
    except ConnectError as error:
        return error.reason
    except BadArgument as error:
        return str(error)
    try:
        facts = session.daemon_facts(timeout_seconds=seconds)
        return AskedDaemon(url, facts, session.view(timeout_seconds=seconds))
    except HopError as error:
        return str(error)
    finally:
        session.abort()


def check_daemons(report: DoctorReport, config: Config, asked: dict[str, AskedDaemon]) -> None:
    """Checks each daemon by itself and against the configuration file."""
    digest = config_digest(config)
    for name, one in sorted(asked.items()):
        facts = one.facts
        if facts.config_digest != digest:
            text = f"runs with a configuration of digest {facts.config_digest}, the file's is {digest}"
            report.finding(name, text, f"give it this file, and reload or restart it; {_ALIKE}")
        else:
            report.good(name, f"runs with this configuration (digest {digest})")
        if facts.daemon != name:
            report.finding(
                name, f"{one.url} is {facts.daemon}", "correct addresses and ports in the configuration"
            )
        if facts.phase != "op":
            text = f"is in no whole view ({facts.phase}, {one.view.cause})"
            report.finding(name, text, "wait a few seconds; if it stays so, look at its log")
        for problem in facts.problems:
            report.finding(name, problem, "look at its log, and mend what it names")
        since = f"since it started {_age(facts.uptime_seconds)} ago"
        for reason, count in facts.dropped.items():
            if reason in _DROPS:
                report.finding(name, f"refused {count} packets for {reason} {since}", _DROPS[Drop(reason)])
        for reason, count in facts.unsent.items():
            if reason in _UNSENT:
                report.finding(name, f"could not send {count} datagrams {since}: {reason}", _UNSENT[reason])
        for link in facts.links:
            sender = asked.get(link.daemon)
            _check_link(report, name, link, sender is not None and name in sender.facts.shaped)
    versions = sorted({one.facts.version for one in asked.values()})
    if len(versions) > 1:
        report.finding("cluster", f"daemons of versions {', '.join(versions)}", "upgrade the older ones")


def _age(time_seconds: float) -> str:
    seconds = int(time_seconds)
    for unit, size in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def _check_link(report: DoctorReport, name: str, link: LinkFacts, shaped: bool) -> None:
    pair = f"{link.daemon} -> {name}"
    if link.received + link.lost >= LOSS_PACKETS_MIN and link.lost > LOSS_MAX * (link.received + link.lost):
        text = f"{link.lost} of {link.received + link.lost} packets were lost in this view"
        if shaped:
            remedy = f"clear what the admin channel of {link.daemon} has set for {name} (verb shape)"
        else:
            remedy = "check the network; if it is full, set `rate` of the link"
        report.finding(pair, text, remedy)
    else:
        trip = (
            f"round trip {link.round_trip_seconds * 1000:.1f} ms"
            if link.round_trip_seconds
            else "no round trip yet"
        )
        report.good(pair, f"{link.protocol}: {link.received} packets came, {link.lost} were lost, {trip}")


def check_pairs(report: DoctorReport, config: Config, asked: dict[str, AskedDaemon]) -> None:
    """Checks that daemons have each other in their views; each pair is reported once."""
    seen = {name: set(one.view.members) for name, one in asked.items()}
    for one, other in permutations(sorted(daemon.name for daemon in config.daemons), 2):
        if one not in seen or other in seen[one]:
            continue
        if other in seen and one > other and one not in seen[other]:
            continue
        text, remedy = _apart(asked, one, other)
        report.finding(f"{one} <-> {other}", text, remedy)
    for name in sorted(seen):
        if seen[name] >= {daemon.name for daemon in config.daemons}:
            report.good(name, f"has all {len(config.daemons)} daemons in its view")


def _apart(asked: dict[str, AskedDaemon], one: str, other: str) -> tuple[str, str]:
    """Why one daemon does not have another in its view, with the remedy: the most certain cause first."""
    cutting = [name for name, peer in ((one, other), (other, one)) if _cuts(asked, name, peer)]
    if cutting:
        text = f"they are parted by hand (hop monitor partition): cut at {' and '.join(cutting)}"
        return text, "hop monitor heal, with --admin where the admin sockets are"
    if other not in asked:
        return f"{other} is not in {one}'s view", f"start {other}, or see why it is not reached"
    here, there = asked[one], asked[other]
    if one in there.view.members:
        # An installed view is the same at all its members, so this passes, or something is broken.
        text = f"{one} does not see {other}, though {other} sees {one}"
        return text, "ask again in a few seconds: one of them may have a newer view"
    views = f"{one} has {_list(here)}, {other} has {_list(there)}"
    digests = here.facts.config_digest, there.facts.config_digest
    if digests[0] != digests[1]:
        text = f"they run with different configurations ({', '.join(digests)}): {views}"
        return text, f"give both the same file, and reload or restart; {_ALIKE}"
    searching = [name for name in (one, other) if asked[name].facts.phase != "op"]
    if searching:
        text = f"neither sees the other, and no view is whole at {' and '.join(searching)}: {views}"
        return text, "ask again in a few seconds: their views may be about to change"
    remedy = f"check that UDP passes both ways between them, and the log of {one} (dropped, unsent)"
    return f"neither sees the other: {views}", remedy


def _cuts(asked: dict[str, AskedDaemon], one: str, other: str) -> bool:
    return one in asked and other in asked[one].facts.cut


def _list(one: AskedDaemon) -> str:
    return " ".join(sorted(one.view.members))


_IP_MTU: Final = 14
_IPV6_MTU: Final = 24
_HEADS_BYTES: Final = {socket.AF_INET: 28, socket.AF_INET6: 48}
_PROBE_SECONDS: Final = 1.0
_STOPPED: Final = ("T", "t")  # States of processes in /proc.
_LISTEN: Final = "0A"  # Of TCP sockets in /proc/net.


def family_of(address: str) -> socket.AddressFamily:
    """The address family of an IP address."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def is_local(address: str) -> bool:
    """Whether this host has the address."""
    with socket.socket(family_of(address), socket.SOCK_DGRAM) as sock:
        try:
            sock.bind((address, 0))
        except OSError as error:
            return error.errno != errno.EADDRNOTAVAIL
    return True


def port_problem(kind: socket.SocketKind, address: str, port: int) -> str:
    """Why a port of this host cannot be bound; empty if it can."""
    with socket.socket(family_of(address), kind) as sock:
        if kind == socket.SOCK_STREAM:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((address, port))
        except OSError as error:
            return error.strerror or str(error)
    return ""


@dataclass(frozen=True, slots=True)
class PortHolder:
    """The process that has a port of this host open."""

    pid: int
    words: tuple[str, ...]  # Of its command line.

    @property
    def name(self) -> str:
        return Path(self.words[0]).name if self.words else "?"

    @property
    def stopped(self) -> bool:
        """Whether a signal or a debugger has stopped it."""
        with suppress(OSError):
            status = Path("/proc", str(self.pid), "stat").read_text(errors="replace")
            return status.rpartition(") ")[2][:1] in _STOPPED
        return False

    def is_hopd(self, daemon: str) -> bool:
        """Whether its command line is that of the daemon with this name."""
        given = [Path(word).name for word in self.words]
        if not {"hopd", "hopring.daemon.hopd"}.intersection(given):
            return False
        return f"--name={daemon}" in self.words or ("--name", daemon) in zip(
            self.words, self.words[1:], strict=False
        )


def holder_of(kind: socket.SocketKind, port: int) -> PortHolder | None:
    """The process that has a port open at any address; None if there is none or this user may not see it."""
    inodes = _inodes_of("udp" if kind == socket.SOCK_DGRAM else "tcp", port)
    for link in Path("/proc").glob("[0-9]*/fd/*") if inodes else ():
        with suppress(OSError):
            if os.readlink(link) in inodes:
                process = link.parents[1]
                words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
                return PortHolder(int(process.name), tuple(words[:-1]))
    return None


def _inodes_of(protocol: str, port: int) -> set[str]:
    inodes: set[str] = set()
    for table in (protocol, f"{protocol}6"):
        with suppress(OSError):
            for line in Path("/proc/net", table).read_text().splitlines()[1:]:
                fields = line.split()
                listens = protocol == "udp" or fields[3] == _LISTEN
                if listens and int(fields[1].rpartition(":")[2], 16) == port:
                    inodes.add(f"socket:[{fields[9]}]")
    return inodes


def check_limits(report: DoctorReport, config: Config) -> None:
    """Checks the system limits that daemons meet under load."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        # As an ordinary user would get it: root passes the limit.
        granted = {}
        for option, name in ((socket.SO_RCVBUF, "rmem_max"), (socket.SO_SNDBUF, "wmem_max")):
            sock.setsockopt(socket.SOL_SOCKET, option, BUFFER_BYTES)
            granted[name] = sock.getsockopt(socket.SOL_SOCKET, option) // 2
        forced = ask_buffers(sock, BUFFER_BYTES)
    for name, size in granted.items():
        if size >= BUFFER_BYTES:
            report.good(
                "host", f"net.core.{name} lets a socket have the {BUFFER_BYTES} bytes that hopd asks for"
            )
        elif min(forced) // 2 >= BUFFER_BYTES:
            report.good("host", f"net.core.{name} is {size} bytes, and this user may pass it")
        else:
            remedy = f"sysctl -w net.core.{name}={BUFFER_BYTES}"
            report.finding("host", f"net.core.{name} is {size} bytes, hopd asks for {BUFFER_BYTES}", remedy)
    sessions_max = config.clients.sessions_max or SessionOptions().sessions_max
    # hopd raises its own soft limit as far as the hard one.
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = wanted_descriptors(sessions_max)
    if files == resource.RLIM_INFINITY or files >= wanted:
        report.good("host", f"hopd may open enough files for {sessions_max} clients")
    else:
        text = (
            f"a process of this user may open {files} files (ulimit -Hn), {sessions_max} clients need {wanted}"
        )
        report.finding("host", text, f"raise the hard limit to {wanted}, or lower [clients] sessions_max")


def check_localhost(report: DoctorReport) -> None:
    """Checks that `localhost`, the default host of clients, is a loopback address."""
    try:
        found = {one[4][0] for one in socket.getaddrinfo("localhost", None, type=socket.SOCK_STREAM)}
    except OSError as error:
        report.finding("host", f"localhost: {error.strerror or error}", "add 127.0.0.1 localhost to /etc/hosts")
        return
    if found & {"127.0.0.1", "::1"}:
        report.good("host", f"localhost is {', '.join(sorted(map(str, found)))}")
    else:
        text = f"localhost is {', '.join(sorted(map(str, found)))}"
        report.finding("host", text, "correct /etc/hosts: hop:// URLs without a host mean loopback")


def check_paths(report: DoctorReport, config: Config, own: Daemon) -> None:
    """Checks routes from a daemon of this host to all others, and the packet size on them."""
    sites = {daemon.name: site for site in config.sites for daemon in site.daemons}
    links = {frozenset(link.sites): link for link in config.all_links}
    for other in config.daemons:
        if other.name == own.name:
            continue
        mine, its = sites[own.name], sites[other.name]
        if mine.name == its.name:
            segment, key = mine.ring.segment_bytes, f"[sites.{mine.name}.ring] segment"
        else:
            link = links.get(frozenset((mine.name, its.name)))
            if link is None or KINDS[link.protocol].over_stream:
                continue
            segment, key = link.tuning.segment_bytes, f"segment of the link {mine.name}-{its.name}"
        sealed_bytes = 0 if config.security.keys is None else OVERHEAD_BYTES
        _check_path(report, own, other, segment or SEGMENT_BYTES_DEFAULT, sealed_bytes, key)


def _check_path(
    report: DoctorReport, own: Daemon, other: Daemon, segment_bytes: int, sealed_bytes: int, key: str
) -> None:
    pair, family = f"{own.name} -> {other.name}", family_of(other.address)
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        try:
            sock.bind((own.address, 0))
            sock.connect((other.address, other.port))
            level, option = (
                (socket.IPPROTO_IPV6, _IPV6_MTU) if family == socket.AF_INET6 else (socket.IPPROTO_IP, _IP_MTU)
            )
            mtu = sock.getsockopt(level, option)
        except OSError as error:
            text = f"no route from {own.address} to {other.address} ({error.strerror or error})"
            report.finding(pair, text, "correct the address in the configuration, or the routes (ip route get)")
            return
    heads_bytes = _HEADS_BYTES[family] + sealed_bytes
    size = segment_bytes + heads_bytes
    if size > mtu:
        text = f"packets of {size} bytes, the path takes {mtu}"
        report.finding(pair, text, f"set {key} to {mtu - heads_bytes}B or less, at both ends")
    else:
        report.good(pair, f"there is a route; packets of {size} bytes, as far as known it takes {mtu}")


def check_multicast(report: DoctorReport, site: Site, own: Daemon) -> None:
    """Checks that this host receives its own multicast, on a port of its own that no daemon listens on."""
    assert site.multicast is not None, "without a group there is nothing to check"
    what = f"multicast {site.multicast.group} at {own.address}"
    remedy = (
        "switch multicast on at that interface (ip link set DEVICE multicast on), or remove `multicast` from "
        f"sites.{site.name} everywhere"
    )
    try:
        interface = interface_of(own.address)
        with socket.socket(family_of(own.address), socket.SOCK_DGRAM) as free:
            free.bind((own.address, 0))
            port = free.getsockname()[1]
        group = MulticastGroup(site.multicast.group, port, interface, site.multicast.ttl)
        with open_group(group) as sock:
            sock.sendto(b"hop doctor", group.address)
            heard = bool(select.select([sock], [], [], _PROBE_SECONDS)[0])
    except OSError as error:
        report.finding(own.name, f"{what}: {error.strerror or error}", remedy)
        return
    if heard:
        routers = f"TTL {site.multicast.ttl} passes {site.multicast.ttl - 1} routers"
        text = f"{what}: this host hears itself; {routers}; other hosts cannot be asked without daemons"
        report.good(own.name, text)
    else:
        report.finding(own.name, f"{what}: this host does not hear itself", remedy)


def unix_socket(directory: Path, config: Config, name: str) -> Path | None:
    """The Unix socket of a daemon of this host, if it is in this state directory."""
    path = state_path(directory, config.cluster, name, "sock")
    return path if path.is_socket() else None
