"""The floor of round trips: the same bytes the same way, and nothing else.

A client, its daemon, another daemon and the client there that answers, and a third daemon that gets all of it
too: TCP from and to clients, one datagram to each of the other daemons. Daemons wait in epoll, clients block.
"""

import select
import socket
import time
from collections.abc import Callable
from functools import partial
from statistics import median, quantiles
from typing import Final

from bench.floor_work import connection, endpoint, working

PROBE_BYTES: Final = 100
PROBES: Final = 3_000
WARM_PROBES: Final = 300
_READ_BYTES: Final = 4096


class Trips:
    """The sockets."""

    def __init__(self) -> None:
        self.asking, self.first = connection()
        self.answering, self.second = connection()
        self.endpoints = [endpoint() for _ in range(3)]

    def daemon(self, at: int, client: socket.socket | None) -> None:
        """What its client says goes to the others, and what the others say to its client."""
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
        """The client elsewhere."""
        while True:
            self.answering.sendall(self.answering.recv(_READ_BYTES))

    def work(self) -> dict[str, Callable[[], None]]:
        """What each process does."""
        clients = (self.first, self.second, None)
        return {
            **{f"daemon {at + 1}": partial(self.daemon, at, client) for at, client in enumerate(clients)},
            "answers": self.answer,
        }


def measure_trips() -> dict[str, object]:
    """How long they take, one after the other."""
    trips, taken_us = Trips(), []
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
