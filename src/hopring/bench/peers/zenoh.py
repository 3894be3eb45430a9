"""Zenoh: peers over TCP, reliable, and senders that wait rather than drop; no order among senders."""

import json
import queue
import threading
import time
from typing import Any

from hopring.bench.harness.shared_counters import MARK_BYTES, Tally
from hopring.bench.harness.workload import Job
from hopring.bench.peers.peer import Peer, board_of, flood, probe, ready

SETTLE_SECONDS = 0.7
LISTENING = 8
"""At most so many listen; each has a port."""


class Zenoh(Peer):
    """No servers: receivers listen, and who sends connects to all of them."""

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

    def send(self, job: Job) -> None:
        """Floods."""
        session = self._session([], list(range(job.case.receivers)))
        publisher = self._publisher(session, job.group)
        time.sleep(SETTLE_SECONDS)
        flood(job, publisher.put)
        session.close()

    def receive(self, job: Job) -> None:
        """Counts."""
        session, tally = self._session([job.number], []), Tally(board_of(job), job.number)
        kept = session.declare_subscriber(job.group, lambda one: tally.add(one.payload.to_bytes()[:MARK_BYTES]))
        ready(job)
        threading.Event().wait()
        del kept

    def answer(self, job: Job) -> None:
        """Sends back."""
        session = self._session([job.number], [])
        back = self._publisher(session, f"{job.group}-back") if job.number == 0 else None
        kept = session.declare_subscriber(
            f"{job.group}-there", lambda one: None if back is None else back.put(one.payload)
        )
        ready(job)
        threading.Event().wait()
        del kept

    def ping(self, job: Job) -> None:
        """Probes."""
        session, heard = self._session([], list(range(job.case.receivers))), queue.SimpleQueue[None]()
        kept = session.declare_subscriber(f"{job.group}-back", lambda _: heard.put(None))
        there = self._publisher(session, f"{job.group}-there")
        time.sleep(SETTLE_SECONDS)

        def trip(body: bytes) -> None:
            there.put(body)
            heard.get()

        probe(job, trip)
        del kept
