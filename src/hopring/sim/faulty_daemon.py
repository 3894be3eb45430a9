"""A faulty daemon of a simulated cluster: it has the key, and some of its packets are wrong in one field.

It changes packets that the daemon really sends, before they are sealed (`packet_changes`). The receiver gets
the wrong packet instead of the right one.

Limits      streams of TCP links are left alone.
"""

from dataclasses import dataclass
from typing import Final

from hopring.sim.engine import SimEngine, generator
from hopring.sim.packet_changes import PacketChanger
from hopring.wire.train import Frame

MEMBERSHIP: Final = "membership"
KINDS: Final = (
    *(MEMBERSHIP, "Routed", "Meta", "Update", "Control", "Unreliable", "Ping"),
    *("Token", "Ack", "Nack", "Held", "Data"),
)
"""Kinds of packets: each is changed at times of its own, because most packets are tokens."""


@dataclass(frozen=True, slots=True)
class FaultyPlan:
    """The daemon of a world that is faulty, and how often until the heal."""

    name: str
    per_second: float
    until_us: int
    clients: bool = False  # Whether bundles are those of clients.


class FaultyDaemon:
    """Changes one field of a packet now and then."""

    def __init__(
        self, engine: SimEngine, seed: int, plan: FaultyPlan, daemons: int, segment_bytes: int
    ) -> None:
        """Of a cluster with this many daemons and datagrams of this size."""
        self.plan = plan
        self.lies: list[str] = []
        """The changes so far, as texts."""
        self._engine = engine
        self._dice = generator(seed, "faulty daemon")
        self._changer = PacketChanger(self._dice, daemons, segment_bytes, plan.clients)
        self._due_us: dict[str, int] = {}  # By kind of packet.
        for kind in KINDS:
            self._draw(kind)

    def _draw(self, kind: str) -> None:
        pause_us = 1_000_000 * self._dice.expovariate(self.plan.per_second / len(KINDS))
        self._due_us[kind] = self._engine.now_us + int(pause_us)

    def _kinds_due(self, name: str) -> list[str]:
        now_us = self._engine.now_us
        if name != self.plan.name or now_us >= self.plan.until_us:
            return []
        return [kind for kind, due_us in self._due_us.items() if due_us <= now_us]

    def change_message(self, name: str, payload: bytes) -> bytes:
        """A message of the membership as this daemon sends it."""
        if MEMBERSHIP not in self._kinds_due(name):
            return payload
        changed, what = self._changer.change_packed(payload)
        self._tell(MEMBERSHIP, what)
        return changed

    def change_frames(self, name: str, frames: tuple[Frame, ...]) -> tuple[Frame, ...]:
        """The frames of a packet as this daemon sends them."""
        for kind in self._kinds_due(name):
            found = None if kind == MEMBERSHIP else self._changer.change_frames(frames, kind)
            if found is not None:
                self._tell(kind, found[1])
                return found[0]
        return frames

    def _tell(self, kind: str, what: str) -> None:
        self.lies.append(f"{self._engine.now_us / 1_000:g} ms {what}")
        self._draw(kind)
