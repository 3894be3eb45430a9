"""Clients that a daemon refuses: one log line each, up to the limit of the log."""

import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hopd.one_daemon import OneDaemon, alone
from tests.support.free_ports import free_base_port

from hopring import sync
from hopring.client.errors import ConnectError, NameInUse
from hopring.config import local_config
from hopring.daemon.log import BURST_LINES
from hopring.session.frames import PREAMBLE

pytestmark = pytest.mark.slow

CLIENTS_MAX = 3


class Place:
    """A daemon and the address for its clients."""

    def __init__(self, daemon: OneDaemon, port: int) -> None:
        self.daemon = daemon
        self.port = port
        self.url = f"hop://127.0.0.1:{port}"

    def say(self, said: bytes) -> int:
        """Connects a client that sends this and reads to the end; returns its port."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as sock:
            sock.sendall(said)
            while sock.recv(4096):
                pass
            return int(sock.getsockname()[1])

    def refusals(self) -> list[str]:
        return [line.split(" ", 3)[3] for line in self.daemon.log().splitlines() if " client_refused " in line]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    config = local_config({"eu": 1}, base_port=free_base_port(2))
    port = config.daemons[0].client_port
    assert port is not None
    with alone(config, tmp_path, "eu1", "--clients-max", str(CLIENTS_MAX)) as eu1:
        eu1.wait_for_log("size=1")
        yield Place(eu1, port)


def test_a_taken_name_is_logged_with_the_address_of_the_second_client(place: Place, tmp_path: Path) -> None:
    with sync.connect(place.url, name="anna"):
        for url in (place.url, f"hop+unix://{tmp_path}/local.eu1.sock"):
            with pytest.raises(NameInUse):
                sync.connect(url, name="anna", reconnect=False)
        place.daemon.wait_for_log("client_refused", 2)

    by_tcp, by_socket = place.refusals()
    assert re.fullmatch(r'session=\d+ address="127.0.0.1 port \d+" name=anna reason="name in use"', by_tcp)
    assert re.fullmatch(
        r'session=\d+ address="process \d+ of user \d+" name=anna reason="name in use"', by_socket
    )


def test_clients_of_another_version_and_non_clients_are_logged_with_their_address(place: Place) -> None:
    ports = [place.say(PREAMBLE[:-4] + b"\x63" + PREAMBLE[-3:]), place.say(b"GET / HTTP/1.1\r\n\r\n")]
    place.daemon.wait_for_log("client_refused", 2)

    version, magic = place.refusals()
    for line, port in zip((version, magic), ports, strict=True):
        assert f'address="127.0.0.1 port {port}"' in line
        assert "name=" not in line
    assert 'reason="version: version ' in version
    assert 'reason="magic: it begins with ' in magic


def test_a_client_above_the_limit_is_logged(place: Place) -> None:
    sessions = [sync.connect(place.url) for _ in range(CLIENTS_MAX)]
    with pytest.raises(ConnectError, match="too many clients"):
        sync.connect(place.url, reconnect=False)
    place.daemon.wait_for_log("client_refused")
    for one in sessions:
        one.close()

    assert 'reason="too many clients"' in place.refusals()[0]


def test_a_client_name_is_escaped_in_the_log(place: Place) -> None:
    name = "a\x1b[2J\x9b31m\u202e\n2026 eu1 view"
    with sync.connect(place.url, name=name), pytest.raises(NameInUse):
        sync.connect(place.url, name=name, reconnect=False)
    place.daemon.wait_for_log("client_refused")

    assert all(line.isprintable() for line in place.daemon.log().splitlines())
    (line,) = place.refusals()
    quoted = re.search(r"name=(\".*?[^\\]\")", line)
    assert quoted is not None
    assert json.loads(quoted[1]) == name


def test_many_refusals_do_not_fill_the_log(place: Place) -> None:
    for _ in range(3 * BURST_LINES):
        place.say(b"nonsense" * 4)
    with sync.connect(place.url, name="anna") as anna:
        anna.join("g")
    place.daemon.process.terminate()
    place.daemon.process.wait(30)

    assert BURST_LINES <= len(place.refusals()) < 2 * BURST_LINES
    assert place.daemon.log().splitlines()[-1].endswith("eu1 end")
