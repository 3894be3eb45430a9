"""ZeroMQ: PUB and SUB over TCP without a broker; no order among senders, no membership."""

import time
from typing import Any

from hopring.bench.harness.workload import TAG_BYTES, ReceiverCounters, WorkerTask
from hopring.bench.peers.peer import PeerSystem, counters_of, flood, probe, ready

SETTLE_SECONDS = 1.5
"""Time until subscriptions are known, which ZeroMQ does not report."""

PING, PONG = 8, 9
"""Ports of probing clients, behind those of the senders."""


class ZeroMq(PeerSystem):
    """A system without servers: senders publish, receivers subscribe."""

    name = "zeromq"
    modules = ("zmq",)
    promise = "at most once; no broker"

    def _publish(self, at: int) -> Any:
        sock = _socket("PUB")
        sock.bind(f"tcp://127.0.0.1:{self.port + at}")
        return sock

    def _subscribe(self, *places: int) -> Any:
        sock = _socket("SUB")
        sock.subscribe(b"")
        for at in places:
            sock.connect(f"tcp://127.0.0.1:{self.port + at}")
        return sock

    def send(self, task: WorkerTask) -> None:
        sock = self._publish(task.number)
        time.sleep(SETTLE_SECONDS)
        flood(task, sock.send)
        sock.close(linger=5000)

    def receive(self, task: WorkerTask) -> None:
        sock, received = (
            self._subscribe(*range(task.workload.senders)),
            ReceiverCounters(counters_of(task), task.number),
        )
        ready(task)
        while True:
            received.add(sock.recv()[:TAG_BYTES])

    def answer(self, task: WorkerTask) -> None:
        heard, back = self._subscribe(PING), self._publish(PONG) if task.number == 0 else None
        ready(task)
        while True:
            body = heard.recv()
            if back is not None:
                back.send(body)

    def ping(self, task: WorkerTask) -> None:
        there, back = self._publish(PING), self._subscribe(PONG)
        time.sleep(2 * SETTLE_SECONDS)

        def trip(body: bytes) -> None:
            there.send(body)
            back.recv()

        probe(task, trip)


def _socket(kind: str) -> Any:
    import zmq  # noqa: PLC0415

    sock = zmq.Context.instance().socket(getattr(zmq, kind))
    sock.sndhwm = sock.rcvhwm = 0  # The window of the shared counters is the limit.
    return sock
