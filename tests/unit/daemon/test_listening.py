"""Addresses at which a daemon listens for clients."""

import socket
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hopring.config import Daemon
from hopring.daemon.clients.listening import open_tcp, open_unix, tcp_place
from hopring.daemon.net.bind_errors import BindError


def test_tcp_is_on_loopback_unless_told() -> None:
    daemon = Daemon("eu1", "10.1.0.11", 4892, 4893)

    assert tcp_place(daemon, None) == ("127.0.0.1", 4893)
    assert tcp_place(daemon, "0.0.0.0") == ("0.0.0.0", 4893)
    assert tcp_place(Daemon("eu1", "127.0.0.5", 4892, 4893), None) == ("127.0.0.5", 4893)
    assert tcp_place(Daemon("eu1", "10.1.0.11"), "0.0.0.0") is None


def test_a_port_that_is_taken_is_named_with_a_remedy() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(BindError, match="choose another client_port"),
    ):
        open_tcp(taken.getsockname())


def test_a_path_that_is_too_long_or_no_socket_or_in_use_is_refused_and_left_alone() -> None:
    with TemporaryDirectory(dir="/tmp") as directory:
        file = Path(directory) / "file"
        file.write_text("precious")
        with pytest.raises(BindError, match="--socket"):
            open_unix(file)
        assert file.read_text() == "precious"
        with pytest.raises(BindError, match="longer than 107 bytes"):
            open_unix(Path(directory) / ("x" * 108))
        path = Path(directory) / "s"
        with open_unix(path), pytest.raises(BindError, match="Address already in use"):
            open_unix(path)
        with open_unix(path) as again:
            assert again.getsockname() == str(path)
