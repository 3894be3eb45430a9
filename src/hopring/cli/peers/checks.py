"""The checks of `hop doctor rmp://...`: whether peers can work on this host, and who hears them.

Nothing is joined; multicasts go to a group of their own, which only this check listens to.
"""

import secrets
import select
import socket
from typing import Final

from hopring.cli.doctor_checks import DoctorReport
from hopring.client.errors import NotOffered
from hopring.client.peer_url import PeerUrl, check_peer
from hopring.credentials.files import CredentialError
from hopring.daemon.net.multicast import MulticastGroup, enable_sending, interface_of
from hopring.daemon.net.udp import BUFFER_BYTES, ask_buffers, open_group, open_unicast
from hopring.rmp.naming import group_address

PROBE_SECONDS: Final = 1.0
_BUFFER_NAMES: Final = ("wmem_max", "rmem_max")
_ADDRESS: Final = "give an address that `ip addr` shows, and a free port, or leave the port out"
_MULTICAST: Final = (
    "switch multicast on there (ip link set DEVICE multicast on) and add a route (ip route add 239.0.0.0/8 dev "
    "DEVICE), give another &interface=, or do without: &multicast=no with &via= of a member"
)


def check_peers(report: DoctorReport, url: PeerUrl) -> None:
    """All checks for peers with this URL."""
    _check_protection(report, url)
    try:
        interface = url.interface or interface_of(url.address)
        sock = open_unicast((url.address, url.port))
    except OSError as error:
        report.finding("peers", f"{url.address}:{url.port}: {error.strerror or error}", _ADDRESS)
        return
    with sock:
        report.good("peers", f"{url.address} is an address of this host, on the interface {interface}")
        _check_buffers(report, sock)
        _check_multicast(report, url, interface, sock)


def _check_protection(report: DoctorReport, url: PeerUrl) -> None:
    try:
        check_peer(url, "kick", False, False)
    except (CredentialError, NotOffered) as error:
        report.finding("peers", str(error), "see docs/peers.md")
        return
    if url.keys:
        report.good("peers", f"packets are sealed with the key in {url.keys}")
    elif url.is_local:
        report.good("peers", "packets stay on this host: address of loopback, TTL 0")
    else:
        report.unknown("peers", "insecure=yes: whoever is on that network can read and forge packets")


def _check_buffers(report: DoctorReport, sock: socket.socket) -> None:
    granted = ask_buffers(sock, BUFFER_BYTES)
    for name, size in zip(_BUFFER_NAMES, granted, strict=True):
        # The kernel doubles what it grants, for its own accounting.
        if size // 2 >= BUFFER_BYTES:
            report.good(
                "peers", f"a socket gets the buffer of {BUFFER_BYTES} bytes that peers ask for ({name})"
            )
        else:
            text = f"a socket gets {size // 2} bytes of the {BUFFER_BYTES} that peers ask for"
            report.finding("peers", text, f"sysctl -w net.core.{name}={BUFFER_BYTES}")


def _check_multicast(report: DoctorReport, url: PeerUrl, interface: str, sock: socket.socket) -> None:
    if not url.multicast:
        report.unknown("peers", "multicast=no: packets to this host go by unicast, one for each such member")
        return
    probe = secrets.token_bytes(16)
    at = group_address(url.domain, f"hop doctor {probe.hex()}")
    what = f"multicast on {interface} with TTL {url.ttl}"
    try:
        group = MulticastGroup(at.host, at.port, interface, url.ttl)
        with open_group(group) as hearing:
            enable_sending(sock, group)
            sock.sendto(probe, (at.host, at.port))
            heard = bool(select.select([hearing], [], [], PROBE_SECONDS)[0]) and hearing.recv(64) == probe
    except OSError as error:
        report.finding("peers", f"{what}: {error.strerror or error}", _MULTICAST)
        return
    if not heard:
        report.finding("peers", f"{what}: this host does not hear itself ({at.host}:{at.port})", _MULTICAST)
        return
    reach = "nobody beyond this host" if url.ttl == 0 else "this network" if url.ttl == 1 else "routers, too"
    report.good("peers", f"{what}: this host hears itself; it reaches {reach}")
    if url.ttl:
        text = "whether other hosts hear it cannot be told from here"
        remedy = "run `hop rmp rings GROUP` with this URL while a member is there"
        report.unknown("peers", text, remedy)
