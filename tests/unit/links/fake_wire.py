"""Two ends of a datagram link and a wire between them: fixed delay, losses by rule, nothing else."""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from hopring.links.events import Deliver, LinkFailed, LinkOutput, Submit, Tick, Transmit
from hopring.links.link import Link
from hopring.wire.data import SEGMENT_BYTES_DEFAULT, Data, Segment, chunk_bytes_of, cut
from hopring.wire.train import Frame

Lose = Callable[[str, Frame], bool]
AnyLink = TypeVar("AnyLink", bound=Link)


def never_lost(_sender: str, _frame: Frame) -> bool:
    return False


@dataclass
class FakeWire(Generic[AnyLink]):
    """Runs endpoints `a` and `b`; a train is lost segment by segment."""

    a: AnyLink
    b: AnyLink
    delay_us: int = 10_000
    lose: Lose = never_lost
    segment_bytes: int = SEGMENT_BYTES_DEFAULT
    now_us: int = 0
    heap: list[tuple[int, int, str, Frame]] = field(default_factory=list)
    count: int = 0
    delivered: dict[str, list[bytes]] = field(default_factory=lambda: {"a": [], "b": []})
    delivered_at_us: dict[str, list[int]] = field(default_factory=lambda: {"a": [], "b": []})
    failed: dict[str, str] = field(default_factory=dict)
    log: list[tuple[int, str, Frame]] = field(default_factory=list)

    def submit(self, end: str, *payloads: bytes) -> None:
        for payload in payloads:
            self._carry(end, self._link(end).step(Submit(payload), self.now_us))

    def run(self, until_us: int) -> None:
        while self._turn(until_us):
            pass
        self.now_us = until_us

    def _turn(self, until_us: int) -> bool:
        wake = min(self.a.wake_at_us, self.b.wake_at_us)
        arrival = self.heap[0][0] if self.heap else until_us + 1
        at_us = max(self.now_us, min(wake, arrival))
        if at_us > until_us:
            return False
        self.now_us = at_us
        if arrival <= at_us:
            _, _, end, frame = heapq.heappop(self.heap)
            assert isinstance(frame, Data | Segment) or not isinstance(frame, Tick)
            self._carry(end, self._link(end).step(frame, at_us))
        else:
            for end in ("a", "b"):
                if self._link(end).wake_at_us <= at_us:
                    self._carry(end, self._link(end).step(Tick(), at_us))
        return True

    def _link(self, end: str) -> AnyLink:
        return self.a if end == "a" else self.b

    def _carry(self, end: str, outputs: list[LinkOutput]) -> None:
        for output in outputs:
            match output:
                case Deliver(payload=payload):
                    self.delivered[end].append(payload)
                    self.delivered_at_us[end].append(self.now_us)
                case LinkFailed(reason=reason):
                    assert end not in self.failed, "a link fails once"
                    self.failed[end] = reason
                case Transmit(frames=frames):
                    for frame in frames:
                        self._send(end, frame)

    def _send(self, end: str, frame: Frame) -> None:
        self.log.append((self.now_us, end, frame))
        chunk_bytes = chunk_bytes_of(self.segment_bytes)
        parts: list[Frame] = [frame]
        if isinstance(frame, Data) and len(frame.payload) > chunk_bytes:
            parts = list(cut(frame.seq, frame.payload, chunk_bytes))
        for part in parts:
            if not self.lose(end, part):
                self.count += 1
                other = "b" if end == "a" else "a"
                heapq.heappush(self.heap, (self.now_us + self.delay_us, self.count, other, part))
