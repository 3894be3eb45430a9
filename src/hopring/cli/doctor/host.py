"""Checks of this host that need no daemon: addresses, ports, routes, packet sizes, limits, multicast."""

import errno
import os
import resource
import select
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from hopring.cli.doctor.findings import DoctorReport
from hopring.config import Config, Daemon, Site
from hopring.daemon.net.multicast import MulticastGroup, interface_of
from hopring.daemon.net.udp import BUFFER_BYTES, ask_buffers, open_group
from hopring.daemon.process.environment import DESCRIPTORS_BESIDE
from hopring.links.kinds import KINDS
from hopring.session.options import SessionOptions
from hopring.wire.data import SEGMENT_BYTES_DEFAULT

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
    wanted = sessions_max + DESCRIPTORS_BESIDE
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
        _check_path(report, own, other, segment or SEGMENT_BYTES_DEFAULT, key)


def _check_path(report: DoctorReport, own: Daemon, other: Daemon, segment_bytes: int, key: str) -> None:
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
    size = segment_bytes + _HEADS_BYTES[family]
    if size > mtu:
        text = f"packets of {size} bytes, the path takes {mtu}"
        report.finding(pair, text, f"set {key} to {mtu - _HEADS_BYTES[family]}B or less, at both ends")
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
    path = directory / f"{config.cluster}.{name}.sock"
    return path if path.is_socket() else None
