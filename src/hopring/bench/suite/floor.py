"""The lower bound: the kernel's time for carrying the packets of a flood, without any work of hopring.

    python -m hopring.bench.suite.floor [--seconds 2]

A sender, three processes in place of daemons, and a receiver at each, as in `hop bench throughput`: TCP from
and to clients, one train of datagrams to each of the other two daemons. Packets are not numbered, ordered,
stored, acknowledged or read, and every buffer is reused. The remaining cost is system calls, copies and
wake-ups, from Python. Lost packets are not sent again, so the window is small. Round trips are measured after
that. Prints JSON.
"""

import argparse
import json
import mmap
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from statistics import median, quantiles
from typing import Final

from hopring.bench.harness.processes import cpu_seconds
from hopring.daemon.net.udp import ANCILLARY_BYTES, ask_buffers, ask_for_trains, cut_into
from hopring.wire.data import SEGMENT_BYTES_DEFAULT

_BUFFER_BYTES: Final = 8 << 20
PACKET_BYTES: Final = 60_000
MESSAGE_BYTES: Final = 1024
DAEMONS: Final = 3
WINDOW_PACKETS: Final = 32
LOOK_SECONDS: Final = 0.0005
WARM_SECONDS: Final = 1.0


def connection() -> tuple[socket.socket, socket.socket]:
    """The two ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    for end in (one, other):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one, other


def endpoint() -> socket.socket:
    """A UDP socket that receives whole trains."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.1", 0))
    ask_buffers(sock, _BUFFER_BYTES)
    if not ask_for_trains(sock):
        raise SystemExit("this kernel has no trains of datagrams (UDP_SEGMENT, UDP_GRO)")
    return sock


@contextmanager
def working(work: Mapping[str, Callable[[], None]]) -> Iterator[dict[str, int]]:
    """Runs each function in a process until the end of the block; yields process ids by name."""
    pids = {name: _start(one) for name, one in work.items()}
    try:
        yield pids
    finally:
        for pid in pids.values():
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _start(work: Callable[[], None]) -> int:
    pid = os.fork()
    if not pid:
        try:
            work()
        finally:
            os._exit(1)
    return pid


class Floor:
    """The sockets, and a counter of packets for each receiver."""

    def __init__(self) -> None:
        self.sender, self.first = connection()
        self.endpoints = [endpoint() for _ in range(DAEMONS)]
        self.clients = [connection() for _ in range(DAEMONS)]
        self.received = memoryview(mmap.mmap(-1, 8 * DAEMONS)).cast("q")

    def send(self) -> None:
        """Sends as fast as the slowest receiver takes it."""
        packet, sent = os.urandom(PACKET_BYTES), 0
        while True:
            while sent - min(self.received) >= WINDOW_PACKETS:
                time.sleep(LOOK_SECONDS)
            self.sender.sendall(packet)
            sent += 1

    def lead(self) -> None:
        """Stands for the daemon of the sender."""
        segment, packet = cut_into(SEGMENT_BYTES_DEFAULT), bytearray(PACKET_BYTES)
        others = [one.getsockname() for one in self.endpoints[1:]]
        view = memoryview(packet)
        while True:
            size = 0
            while size < PACKET_BYTES:
                size += self.first.recv_into(view[size:])
            for address in others:
                self.endpoints[0].sendmsg([packet], segment, 0, address)
            self.clients[0][0].sendall(packet)

    def follow(self, at: int) -> None:
        """Relays packets in the place of a daemon without a sender."""
        buffer = memoryview(bytearray(1 << 16))
        while True:
            size, *_ = self.endpoints[at].recvmsg_into([buffer], ANCILLARY_BYTES)
            self.clients[at][0].sendall(buffer[:size])

    def receive(self, at: int) -> None:
        """Stands for a receiving client."""
        buffer, size = bytearray(1 << 20), 0
        while True:
            size += self.clients[at][1].recv_into(buffer)
            self.received[at] = size // PACKET_BYTES

    def work(self) -> dict[str, Callable[[], None]]:
        """The function of each process, by name."""
        followers = range(1, DAEMONS)
        return {
            "sender": self.send,
            "daemon 1": self.lead,
            **{f"daemon {at + 1}": partial(self.follow, at) for at in followers},
            **{f"receiver {at + 1}": partial(self.receive, at) for at in range(DAEMONS)},
        }


def measure(seconds: float) -> dict[str, object]:
    """The rate, and the CPU time of each process per packet."""
    floor = Floor()
    with working(floor.work()) as pids:
        time.sleep(WARM_SECONDS)
        before = {name: cpu_seconds(pid) for name, pid in pids.items()}
        begin, had = time.monotonic(), min(floor.received)
        time.sleep(seconds)
        packets, taken_s = min(floor.received) - had, time.monotonic() - begin
        each_us = {name: (cpu_seconds(pid) - before[name]) / packets * 1e6 for name, pid in pids.items()}
    return {
        "packets_per_second": round(packets / taken_s),
        "messages_per_second": round(packets / taken_s * PACKET_BYTES / MESSAGE_BYTES),
        "cpu_us_per_packet": {name: round(us, 1) for name, us in each_us.items()},
        "all_cpu_us_per_packet": round(sum(each_us.values()), 1),
        "all_cpu_us_per_message": round(sum(each_us.values()) * MESSAGE_BYTES / PACKET_BYTES, 2),
    }


PROBE_BYTES: Final = 100
PROBES: Final = 3_000
WARM_PROBES: Final = 300
_READ_BYTES: Final = 4096


class FloorTrips:
    """The sockets of the round trips."""

    def __init__(self) -> None:
        self.asking, self.first = connection()
        self.answering, self.second = connection()
        self.endpoints = [endpoint() for _ in range(3)]

    def daemon(self, at: int, client: socket.socket | None) -> None:
        """Forwards from its client to the other daemons, and from them to its client."""
        own = self.endpoints[at]
        others = [one.getsockname() for one in self.endpoints if one is not own]
        epoll = select.epoll()
        for sock in (own, client):
            if sock is not None:
                sock.setblocking(False)
                epoll.register(sock, select.EPOLLIN)
        while True:
            for fd, _ in epoll.poll():
                if client is not None and fd == client.fileno():
                    said = client.recv(_READ_BYTES)
                    for address in others:
                        own.sendto(said, address)
                else:
                    said = own.recv(_READ_BYTES)
                    if client is not None:
                        client.send(said)

    def answer(self) -> None:
        """Stands for the client that answers."""
        while True:
            self.answering.sendall(self.answering.recv(_READ_BYTES))

    def work(self) -> dict[str, Callable[[], None]]:
        """The function of each process, by name."""
        clients = (self.first, self.second, None)
        return {
            **{f"daemon {at + 1}": partial(self.daemon, at, client) for at, client in enumerate(clients)},
            "answers": self.answer,
        }


def measure_trips() -> dict[str, object]:
    """Round-trip times, one after the other."""
    trips, taken_us = FloorTrips(), []
    probe = bytes(PROBE_BYTES)
    with working(trips.work()):
        for _ in range(WARM_PROBES + PROBES):
            begin = time.perf_counter_ns()
            trips.asking.sendall(probe)
            trips.asking.recv(_READ_BYTES)
            taken_us.append((time.perf_counter_ns() - begin) / 1000)
    measured_us = taken_us[WARM_PROBES:]
    return {
        "round_trip_p50_us": round(median(measured_us), 1),
        "round_trip_p99_us": round(quantiles(measured_us, n=100)[-1], 1),
    }


def main() -> None:
    """Reads the command line and measures."""
    parser = argparse.ArgumentParser(
        description="Measure the kernel time for carrying packets from one client to three."
    )
    parser.add_argument("--seconds", type=float, default=2.0)
    seconds = parser.parse_args().seconds
    print(json.dumps({**measure(seconds), **measure_trips()}), flush=True)


if __name__ == "__main__":
    main()
