"""A place that somebody else has taken costs a daemon that listener only."""

import json
import socket
from pathlib import Path
from urllib.request import urlopen

import pytest
from tests.hopd.one_daemon import alone
from tests.support.free_ports import free_base_port

from hopring import sync
from hopring.config import local_config

pytestmark = pytest.mark.slow


def status(path: Path) -> dict[str, list[str]]:
    """What the admin channel says of a daemon."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(path))
        sock.sendall(b'{"verb": "status"}\n')
        with sock.makefile("rb") as answers:
            answer = json.loads(answers.readline())
    found: dict[str, list[str]] = answer["status"]
    return found


def test_a_foreign_file_in_the_place_of_the_spread_socket_costs_that_socket_only(tmp_path: Path) -> None:
    config = local_config({"eu": 1}, base_port=free_base_port(3), spread=True)
    own, page = config.daemons[0], free_base_port(1)
    sockets = tmp_path / "sockets"
    sockets.mkdir()
    foreign = sockets / str(own.spread_port)
    foreign.write_text("not ours")
    arguments = ["--spread-sockets", str(sockets), "--metrics", str(page), "--admin", str(tmp_path / "admin")]
    with alone(config, tmp_path, "eu1", *arguments) as eu1:
        eu1.wait_for_log("size=1")
        socket.create_connection(("127.0.0.1", own.spread_port), timeout=60).close()
        with sync.connect(f"hop://127.0.0.1:{own.client_port}") as anna:
            assert anna.daemon == "eu1"
        with urlopen(f"http://127.0.0.1:{page}/readyz", timeout=60) as answer:
            assert str(foreign) in answer.read().decode()
        (problem,) = status(tmp_path / "admin")["problems"]
        assert str(foreign) in problem
        assert "remove what is there, or choose another directory for --spread-sockets, and restart" in problem
        assert problem in eu1.log().replace("\\", "")
    assert foreign.read_text() == "not ours"


def test_ports_of_metrics_and_spread_clients_that_are_taken_cost_these_only(tmp_path: Path) -> None:
    config = local_config({"eu": 1}, base_port=free_base_port(3), spread=True)
    own = config.daemons[0]
    with (
        socket.create_server(("127.0.0.1", 0)) as metrics,
        socket.create_server(("127.0.0.1", own.spread_port or 0)),
    ):
        arguments = ["--metrics", str(metrics.getsockname()[1]), "--admin", str(tmp_path / "admin")]
        with alone(config, tmp_path, "eu1", *arguments, "--spread-sockets", str(tmp_path)) as eu1:
            eu1.wait_for_log("size=1")
            spread, page = status(tmp_path / "admin")["problems"]
            assert f"port {own.spread_port}" in spread
            assert "choose another place for --metrics" in page
