"""The status of a peer as metrics, and the admin socket's answers, with a peer in the loop of the test."""

import json
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hopring.client.peer_url import parse_peer_url
from hopring.daemon.loop.event_loop import Loop
from hopring.errors import ChannelRefused
from hopring.peer.metrics import metrics_page
from hopring.peer.peer import Peer
from hopring.peer.status import status_of

pytestmark = pytest.mark.slow


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


def serve_until(loop: Loop, condition: Callable[[], object]) -> None:
    """Runs turns of the loop until a condition holds."""
    end_us = loop.now_us() + 10_000_000
    while not condition():
        loop.serve()
        assert loop.now_us() < end_us


def ask(loop: Loop, path: Path, line: bytes) -> dict[str, object]:
    """One request to the admin socket, which the loop of this test answers."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
        caller.connect(str(path))
        caller.sendall(line + b"\n")
        caller.setblocking(False)
        heard = b""

        def answered() -> bool:
            nonlocal heard
            try:
                heard += caller.recv(65536)
            except BlockingIOError:
                return False
            return heard.endswith(b"\n")

        serve_until(loop, answered)
    answer: dict[str, object] = json.loads(heard)
    return answer


@pytest.fixture
def short(tmp_path: Path) -> Path:
    """A path that is short enough for a socket."""
    return Path(f"/tmp/hop-{os.getpid()}-{abs(hash(tmp_path)) % 10**6}.admin")


def test_a_peer_answers_its_status_and_is_cut_and_healed(loop: Loop, short: Path) -> None:
    mine, its = socket.socketpair()
    its.setblocking(False)
    peer = Peer(loop, parse_peer_url(f"rmp:///unit?admin={short}"), its)
    try:
        status = ask(loop, short, b'{"verb": "status"}')
        assert (status["groups"], status["cut"], status["pid"]) == ([], [], os.getpid())
        cut = ask(loop, short, b'{"verb": "cut", "peers": ["127.0.0.1:4000", "10.0.0.1:9"]}')
        assert cut["cut"] == ["10.0.0.1:9", "127.0.0.1:4000"]
        assert ask(loop, short, b'{"verb": "cut"}')["cut"] == []
        ask(loop, short, b'{"verb": "lose", "loss": 0.5}')
        assert peer.endpoint.loss == 0.5
        for wrong in (
            b"{",
            b'{"verb": "fly"}',
            b'{"verb": "cut", "peers": ["x:1"]}',
            b'{"verb": "lose", "loss": 2}',
        ):
            assert ask(loop, short, wrong).keys() == {"error"}
    finally:
        mine.close()
        peer.close()
    assert not short.exists()


def test_the_page_of_metrics_has_the_group_and_the_traffic_of_the_peer(loop: Loop) -> None:
    mine, its = socket.socketpair()
    its.setblocking(False)
    peer = Peer(loop, parse_peer_url("rmp:///unit-metrics?metrics=0"), its)
    try:
        page = metrics_page(status_of(peer))
        assert 'hopring_peer_info{process="127.0.0.1:' in page
        assert "hopring_peer_groups 0" in page
        assert "# TYPE hopring_peer_sent_datagrams_total counter" in page
        assert page.count("# HELP") == page.count("# TYPE") > 15
    finally:
        mine.close()
        peer.close()


def test_a_trace_or_socket_that_cannot_be_is_one_line(loop: Loop, tmp_path: Path) -> None:
    for part in (f"trace={tmp_path}/none/x", f"admin={tmp_path}/none/x", f"admin=/tmp/{'x' * 200}"):
        mine, its = socket.socketpair()
        with pytest.raises(ChannelRefused) as refused:
            Peer(loop, parse_peer_url(f"rmp:///unit?{part}"), its)
        assert "\n" not in refused.value.reason
        mine.close()
        its.close()
