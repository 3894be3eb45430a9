"""Errors of sockets that cannot be opened, each with its remedy."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from hopring.config import Daemon, Site
from hopring.errors import HopError

_TAKEN = "end the process that has it (another hopd of this name?), or give the daemon another port"
_ELSEWHERE = "start the daemon on the host that has the address, or correct the address in the configuration"
_LOW = "choose a port of at least 1024, or start with the capability CAP_NET_BIND_SERVICE"
_OTHER = "check address and port in the configuration"


class BindError(HopError):
    """A socket that cannot be opened; the message names the remedy."""


@contextmanager
def explain_bind_error(daemon: Daemon, protocol: str) -> Iterator[None]:
    """Explains why a daemon's own address cannot be opened."""
    try:
        yield
    except OSError as error:
        remedies = {errno.EADDRINUSE: _TAKEN, errno.EADDRNOTAVAIL: _ELSEWHERE, errno.EACCES: _LOW}
        what = f"{protocol} port {daemon.port} of {daemon.address}"
        remedy = remedies.get(error.errno or 0, _OTHER)
        raise BindError(f"{daemon.name}: {what}: {error.strerror or error}; {remedy}") from error


@contextmanager
def explain_join_error(site: Site, daemon: Daemon) -> Iterator[None]:
    """Explains why a site's multicast group cannot be joined."""
    try:
        yield
    except OSError as error:
        assert site.multicast is not None, "without a group there is nothing to join"
        group = f"{site.multicast.group} port {site.multicast.port}"
        what = f"multicast group {group} at {daemon.address}: {error.strerror or error}"
        if error.errno == errno.EADDRINUSE:
            remedy = f"choose another port in `multicast` of sites.{site.name}, everywhere"
        else:
            remedy = (
                "switch multicast on at that interface (ip link set DEVICE multicast on), or remove "
                f"`multicast` from sites.{site.name} everywhere: then the ring sends to each daemon singly"
            )
        raise BindError(f"{daemon.name}: {what}; {remedy}") from error
