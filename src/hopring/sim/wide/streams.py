"""Connections between clusters: streams that keep an order until they are lost, over lines that may be cut.

What is sent into a cut direction waits, as TCP repeats it. A stream that is lost loses what is on its way. The
end of a process is noticed at the other end if it can be told.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final, Protocol

from hopring.haul.ids import ClusterId
from hopring.haul.link.frames import LinkFrame
from hopring.haul.member_events import ConnectionId
from hopring.sim.engine import SimEngine

Direction = tuple[ClusterId, ClusterId]

CONNECT_US: Final = 3_000_000
"""An attempt at an access point that does not answer ends after this time."""


class StreamEnd(Protocol):
    """A process that has an end of streams."""

    cluster: ClusterId
    runs: bool

    def connected(self, connection: ConnectionId) -> None:
        """Another cluster has connected to it."""
        ...

    def heard(self, connection: ConnectionId, frame: LinkFrame) -> None:
        """A frame of a connection arrives."""
        ...

    def ended(self, connection: ConnectionId) -> None:
        """One of its connections is lost."""
        ...


@dataclass(slots=True)
class SimStream:
    """One connection, from the end that has dialled to the other."""

    id: ConnectionId
    ends: tuple[StreamEnd, StreamEnd]
    open: list[bool] = field(default_factory=lambda: [True, True])  # What each end believes.
    waiting: tuple[deque[LinkFrame | None], deque[LinkFrame | None]] = field(
        default_factory=lambda: (deque(), deque())
    )  # From each end; None is its end of the stream.
    last_us: list[int] = field(default_factory=lambda: [0, 0])
    lost: bool = False


class SimStreams:
    """All connections of a world."""

    def __init__(self, engine: SimEngine, dice: Random, delay_us: int, life_us: tuple[int, int]) -> None:
        self.engine = engine
        self.access: dict[ClusterId, Callable[[], list[StreamEnd]]] = {}
        self.cuts: dict[Direction, int] = {}  # How many cuts a direction is under.
        self.calm = False  # No connection is lost by itself any more.
        self._dice = dice
        self._delay_us = delay_us
        self._life_us = life_us
        self._streams: dict[ConnectionId, SimStream] = {}
        self._count = 0

    def is_cut(self, one: ClusterId, other: ClusterId) -> bool:
        """Whether nothing goes in this direction."""
        return self.cuts.get((one, other), 0) > 0

    def cut(self, directions: list[Direction]) -> None:
        """Cuts directions; what is under several cuts is open when all have ended."""
        for one in directions:
            self.cuts[one] = self.cuts.get(one, 0) + 1

    def mend(self, directions: list[Direction]) -> None:
        """Ends one cut of each."""
        for one in directions:
            self.cuts[one] = max(0, self.cuts.get(one, 0) - 1)
        self._flow()

    def heal(self) -> None:
        """Ends all cuts of all directions."""
        self.cuts.clear()
        self._flow()

    def _flow(self) -> None:
        for stream in list(self._streams.values()):
            for end in (0, 1):
                for _ in stream.waiting[end]:
                    self._plan(stream, end)

    # Connecting.

    def dial(self, source: StreamEnd, peer: ClusterId, then: Callable[[ConnectionId | None], None]) -> None:
        """Tries the access points of a cluster in turn."""
        points = self.access[peer]()
        self._dice.shuffle(points)
        self._try(source, peer, points, then)

    def _try(
        self,
        source: StreamEnd,
        peer: ClusterId,
        points: list[StreamEnd],
        then: Callable[[ConnectionId | None], None],
    ) -> None:
        if not source.runs:
            return
        if self.is_cut(source.cluster, peer) or self.is_cut(peer, source.cluster) or not points:
            self.engine.after(CONNECT_US, then, None)
            return
        other = points.pop()
        if not other.runs:
            self.engine.after(2 * self._delay_us + 1, self._try, source, peer, points, then)
            return
        self._count += 1
        stream = SimStream(ConnectionId(self._count), (source, other))
        self._streams[stream.id] = stream
        other.connected(stream.id)
        then(stream.id)
        self.engine.after(self._dice.randint(*self._life_us), self._live_out, stream)

    def _live_out(self, stream: SimStream) -> None:
        if not self.calm:
            self.lose(stream)

    # Frames.

    def send(self, source: StreamEnd, connection: ConnectionId, frame: LinkFrame | None) -> None:
        """Sends a frame; None ends the stream behind what was sent."""
        stream = self._streams.get(connection)
        if stream is None or stream.lost:
            return
        end = 0 if stream.ends[0] is source else 1
        if not stream.open[end]:
            return
        stream.open[end] = frame is not None
        stream.waiting[end].append(frame)
        self._plan(stream, end)

    def _plan(self, stream: SimStream, end: int) -> None:
        earliest_us = self.engine.now_us + self._dice.randint(1, self._delay_us)
        stream.last_us[end] = max(stream.last_us[end], earliest_us)
        self.engine.at(stream.last_us[end], self._arrive, stream, end)

    def _arrive(self, stream: SimStream, end: int) -> None:
        source, other = stream.ends[end], stream.ends[1 - end]
        if stream.lost or not stream.waiting[end] or self.is_cut(source.cluster, other.cluster):
            return
        frame = stream.waiting[end].popleft()
        if not other.runs or frame is None:
            self.lose(stream)
        elif stream.open[1 - end]:
            other.heard(stream.id, frame)

    def lose(self, stream: SimStream) -> None:
        """A stream is lost, with what is on its way; ends that can be told are told."""
        if stream.lost:
            return
        stream.lost = True
        self._streams.pop(stream.id, None)
        for end, process in enumerate(stream.ends):
            if stream.open[end] and process.runs:
                self.engine.after(self._dice.randint(1, self._delay_us), self._tell, process, stream.id)

    def _tell(self, process: StreamEnd, connection: ConnectionId) -> None:
        if process.runs:
            process.ended(connection)

    def crashed(self, process: StreamEnd) -> None:
        """A process has ended: the other ends hear of it, unless the way there is cut."""
        for stream in list(self._streams.values()):
            for end in (0, 1):
                if stream.ends[end] is process:
                    other = stream.ends[1 - end]
                    stream.open[end] = False
                    if not self.is_cut(process.cluster, other.cluster):
                        self.lose(stream)
