"""A hopd that has sent nearly as many packets as its keys allow. Called as hopd is."""

import sys

from hopring.daemon.engines.host import EngineHost, HostSetup
from hopring.daemon.engines.membership_host import MembershipHost, membership_host
from hopring.daemon.engines.registry import DEFAULT_ENGINE, ENGINES
from hopring.daemon.hopd import run
from hopring.sealing.sealer import COUNTER_MAX

PACKETS_LEFT = 3


def nearly_used_up(setup: HostSetup) -> EngineHost:
    host = membership_host(setup)
    assert isinstance(host, MembershipHost)
    sealing = host.sockets.datagrams.sealing
    assert sealing is not None
    sealing.counter = COUNTER_MAX - 1 - PACKETS_LEFT
    return host


if __name__ == "__main__":
    ENGINES[DEFAULT_ENGINE] = nearly_used_up
    sys.exit(run(sys.argv[1:]))
