"""The lab itself: it segments packets as a network would, and leaves nothing behind."""

import os
import socket
import subprocess

import pytest
from tests.netns.namespace_lab import Lab
from tests.netns.wan_emulator import shape_of

from hopring.daemon.net.shaper import Shape

pytestmark = [pytest.mark.netns, pytest.mark.slow]


def namespaces() -> str:
    return subprocess.run(["ip", "netns"], capture_output=True, text=True, check=True).stdout


def test_a_closed_lab_leaves_no_namespace(lab: Lab) -> None:
    lab.host("a", "b")
    lab.wan(("a", "wan0", "10.78.0.1/30"), ("b", "wan0", "10.78.0.2/30"), Shape(), Shape())
    assert Lab.namespace("a") in namespaces()
    lab.close()

    assert f"hr{os.getpid()}-" not in namespaces()


def test_a_new_lab_removes_the_namespaces_of_dead_ones(lab: Lab) -> None:
    child = subprocess.Popen(["true"])
    child.wait()
    stale = f"hr{child.pid}-left"
    subprocess.run(["ip", "netns", "add", stale], check=True)
    with Lab():
        assert stale not in namespaces()


def test_a_cable_carries_no_packet_above_its_mtu(lab: Lab) -> None:
    lab.host("a", "b")
    lab.cable(("a", "eth0", "10.77.0.1/24"), ("b", "eth0", "10.77.0.2/24"))
    with lab.on("b"):
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(0x0800))
        listener = socket.create_server(("10.77.0.2", 7777))
    with lab.on("a"):
        sender = socket.create_connection(("10.77.0.2", 7777))
    accepted, _ = listener.accept()
    sender.sendall(bytes(200_000))
    left = 200_000
    while left:
        left -= len(accepted.recv(left))
    tap.setblocking(False)
    sizes = []
    try:
        while True:
            sizes.append(len(tap.recv(1 << 16)))
    except BlockingIOError:
        pass

    assert max(sizes) == 1500
    for sock in (tap, listener, sender, accepted):
        sock.close()


def test_a_socket_opened_on_a_host_stays_there_and_the_thread_returns(lab: Lab) -> None:
    lab.host("a")
    before = os.readlink("/proc/thread-self/ns/net")
    with lab.on("a"):
        assert os.readlink("/proc/thread-self/ns/net") != before
        assert [name for _, name in socket.if_nameindex()] == ["lo"]

    assert os.readlink("/proc/thread-self/ns/net") == before


def test_a_shape_survives_the_command_line() -> None:
    shape = Shape(
        delay_us=30_000, jitter_us=5, loss=0.01, duplicates=0.5, rate_bits_per_second=10, queue_bytes_max=9
    )

    assert shape_of(repr(shape)) == shape
