"""Encryption between hosts: what a capture of all their traffic shows."""

import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import pytest
from tests.hopd.daemon_processes import DaemonProcesses
from tests.netns.namespace_lab import Lab

from hopring import sync
from hopring.client.events import Message
from hopring.config import (
    Config,
    Daemon,
    LinkConfig,
    LinkTuning,
    MulticastConfig,
    RingTuning,
    SecurityTuning,
    Site,
)

pytestmark = [pytest.mark.netns, pytest.mark.slow]

ETH_P_ALL = 3
FRAME_BYTES_MAX = 65_536
SECRETS = (b"secret-payload", b"secret-group", b"secret-session")
PLACES = {"eu1": "10.83.0.1", "eu2": "10.83.0.2", "us1": "10.83.0.3"}


class Capture:
    """All frames on the switch of a lab, until the end of the block."""

    def __init__(self, lab: Lab, switch: str) -> None:
        with lab.on(switch):
            self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 23)
        self._socket.settimeout(0.1)
        self._ended = False
        self.frames: list[bytes] = []
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> "Capture":
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended = True
        self._thread.join()
        self._socket.close()

    def _read(self) -> None:
        while not self._ended:
            try:
                self.frames.append(self._socket.recv(FRAME_BYTES_MAX))
            except TimeoutError:
                continue


def on_one_switch(security: SecurityTuning) -> Config:
    """Two sites: a ring by multicast, and a Hop link."""
    # On a busy machine a process may not run for a while.
    ring, link = RingTuning(token_loss_us=2_000_000), LinkTuning(silence_us=2_000_000)
    eu, us = ([Daemon(name, PLACES[name]) for name in PLACES if name.startswith(site)] for site in ("eu", "us"))
    sites = Site("eu", tuple(eu), MulticastConfig("239.192.83.1", 4890), ring), Site("us", tuple(us), ring=ring)
    return Config("lab", sites, (LinkConfig(("eu", "us"), tuning=link),), security=security)


@pytest.mark.parametrize(
    "security", [SecurityTuning(), SecurityTuning(insecure=True)], ids=["sealed", "insecure"]
)
def test_sealed_traffic_shows_no_payload_group_or_session_name_and_insecure_traffic_does(
    lab: Lab, tmp_path: Path, security: SecurityTuning
) -> None:
    lab.host(*PLACES)
    lab.switch("sw", {name: [f"{address}/24"] for name, address in PLACES.items()})
    for name in PLACES:
        lab.ip(name, "link", "set", "eth0", "up")
        lab.ip(name, "route", "add", "239.0.0.0/8", "dev", "eth0")
    with (
        Capture(lab, "sw") as capture,
        DaemonProcesses(
            on_one_switch(security),
            tmp_path,
            lambda name: ["ip", "netns", "exec", lab.namespace(name)],
            "hopring.daemon.hopd",
        ) as daemons,
    ):
        daemons.start()
        daemons.wait(daemons.together)
        with ExitStack() as stack:
            sessions = [
                stack.enter_context(
                    sync.connect(f"hop+unix://{tmp_path}/lab.{name}.sock", name="secret-session")
                )
                for name in PLACES
            ]
            groups = [session.join("secret-group") for session in sessions]
            # Within one datagram, in a train, and in more than one train.
            bodies = [b"secret-payload" * count for count in (1, 400, 4_000, 8_000)]
            for session in sessions:
                for body in bodies:
                    session.multicast("secret-group", body)
            for group in groups:
                heard = [event.data for event in islice(_messages(group), len(bodies) * len(PLACES))]
                assert sorted(heard, key=len) == [body for body in bodies for _ in PLACES]
    assert len(capture.frames) > 100, "the capture has the traffic"
    caught = b"".join(capture.frames)
    found = [secret for secret in SECRETS if secret in caught]
    assert found == ([*SECRETS] if security.insecure else [])


def _messages(group: Iterable[object]) -> Iterator[Message]:
    return (event for event in group if isinstance(event, Message))
