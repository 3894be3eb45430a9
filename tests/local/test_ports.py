"""Ports that are reserved for a cluster."""

import socket
import subprocess
import sys

import pytest

from hopring import sync
from hopring.local import ports
from hopring.local.ports import ReservedPorts, free_base_port

REST = "import time; print(ports.base, flush=True); time.sleep(1000)"


def test_reserved_ports_are_left_to_their_holder_until_they_are_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = ReservedPorts(9)
    monkeypatch.setattr(ports, "PORTS", range(first.base, first.base + 10))

    with pytest.raises(OSError, match="no free ports"):
        free_base_port(1)
    first.release()
    assert free_base_port(1) in (first.base, first.base + 8)


def test_ports_of_a_process_that_was_killed_are_free(monkeypatch: pytest.MonkeyPatch) -> None:
    program = f"from hopring.local.ports import ReservedPorts; ports = ReservedPorts(2); {REST}"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        base = int(other.stdout.readline())
        monkeypatch.setattr(ports, "PORTS", range(base, base + 3))
        with pytest.raises(OSError, match="no free ports"):
            ReservedPorts(2)
        other.kill()
        other.wait()

    assert ReservedPorts(2).base == base


def test_a_daemon_that_was_killed_keeps_its_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    with sync.local_cluster({"eu": 2}, trace=False) as cluster:
        port = int(cluster.url("eu2").rpartition(":")[2])
        cluster.crash("eu2")
        with socket.create_server(("127.0.0.1", port)):
            pass  # Nobody listens there now.
        monkeypatch.setattr(ports, "PORTS", range(port - 3, port + 2))
        with pytest.raises(OSError, match="no free ports"):
            free_base_port(1)
        cluster.restart("eu2")
