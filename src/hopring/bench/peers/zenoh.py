"""Zenoh: peers over TCP, reliable; senders block rather than drop, and there is no order among them."""

import json
import queue
import threading
import time
from typing import Any

from hopring.bench.harness.workload import TAG_BYTES, ReceiverCounters, WorkerTask
from hopring.bench.peers.peer import PeerSystem, counters_of, flood, probe, ready

SETTLE_SECONDS = 0.7
LISTENING = 8
"""The most receivers that listen; each has a port."""


class Zenoh(PeerSystem):
    """A system without servers: receivers listen, and a sender connects to all of them."""

    name = "zenoh"
    modules = ("zenoh",)
    promise = "reliable by link; no broker"

    def _session(self, listen: list[int], connect: list[int]) -> Any:
        import zenoh  # noqa: PLC0415

        config = zenoh.Config()
        for key, value in (
            ("mode", "peer"),
            ("listen/endpoints", [f"tcp/127.0.0.1:{self.port + at}" for at in listen]),
            ("connect/endpoints", [f"tcp/127.0.0.1:{self.port + at}" for at in connect]),
            ("scouting/multicast/enabled", False),
            ("scouting/gossip/enabled", False),
        ):
            config.insert_json5(key, json.dumps(value))
        return zenoh.open(config)

    def _publisher(self, session: Any, key: str) -> Any:
        import zenoh  # noqa: PLC0415

        return session.declare_publisher(key, congestion_control=zenoh.CongestionControl.BLOCK)

    def send(self, task: WorkerTask) -> None:
        session = self._session([], list(range(task.workload.receivers)))
        publisher = self._publisher(session, task.group)
        time.sleep(SETTLE_SECONDS)
        flood(task, publisher.put)
        session.close()

    def receive(self, task: WorkerTask) -> None:
        session, received = self._session([task.number], []), ReceiverCounters(counters_of(task), task.number)
        kept = session.declare_subscriber(
            task.group, lambda one: received.add(one.payload.to_bytes()[:TAG_BYTES])
        )
        ready(task)
        threading.Event().wait()
        del kept

    def answer(self, task: WorkerTask) -> None:
        session = self._session([task.number], [])
        back = self._publisher(session, f"{task.group}-back") if task.number == 0 else None
        kept = session.declare_subscriber(
            f"{task.group}-there", lambda one: None if back is None else back.put(one.payload)
        )
        ready(task)
        threading.Event().wait()
        del kept

    def ping(self, task: WorkerTask) -> None:
        session, heard = self._session([], list(range(task.workload.receivers))), queue.SimpleQueue[None]()
        kept = session.declare_subscriber(f"{task.group}-back", lambda _: heard.put(None))
        there = self._publisher(session, f"{task.group}-there")
        time.sleep(SETTLE_SECONDS)

        def trip(body: bytes) -> None:
            there.put(body)
            heard.get()

        probe(task, trip)
        del kept
