"""Tcp: a reliable link between two neighbouring daemons over one TCP connection.

Implements  Stanton's thesis, 4.2: a length before every packet, partial packets discarded at close, and the
            connection's failure as the failure of the link.
Below       one connection, opened by either end, which a driver reads and writes; it sets TCP_NODELAY, since
            packing is done here. The greeting of an accepted connection names its link: the driver decodes it
            (wire.stream) and then hands all bytes, greeting included, to the link.
Above       routing, which gets each payload, in the order in which they were packed.
Invariants  nothing is delivered before the greeting is checked; a payload is delivered at most once;
            LinkFailed comes at most once and is the last output; data waits here, where urgent objects can
            still overtake it, while the connection holds `unsent_bytes_max` or more.
Deviations  A link lasts as long as its connection. The next connection belongs to another generation, so that
            data lost with the old one is never taken for delivered.
            A dead peer is detected by its silence, with heartbeats on an idle link, since TCP's own time-outs
            take minutes. The silence is that of the connection, not only of the byte stream: after a lost
            segment nothing can be read until it is repeated, which takes a round trip, and seconds on a full
            line. So data segments that arrive out of order are signs of life too. The limit of silence grows
            with the round trip, and is the largest while a segment is known to be missing. Acknowledgements
            are not signs of life, because the kernel sends them for a daemon that hangs.
            A peer's mistake fails the link instead of raising, since no packet of a stream can be dropped.
            Objects of Unreliable bundles are sent like others, and only while few bytes wait, since TCP
            repeats everything.
"""

from dataclasses import dataclass, field
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.ids import NEVER, DaemonId, Incarnation
from hopring.links.events import (
    Deliver,
    LinkCounters,
    LinkInput,
    LinkOutput,
    StreamClosed,
    StreamObserve,
    StreamObserved,
    StreamOpened,
    StreamReceived,
    StreamWrite,
    StreamWritten,
    Submit,
    Tick,
)
from hopring.links.link import Link
from hopring.links.queues import LOOSE_BYTES_MAX, SendQueue
from hopring.links.timing import SILENCES_MAX, beat_us, early_us, silence_limit_us
from hopring.wire.data import PACKET_BYTES_MAX
from hopring.wire.header import Family, Header
from hopring.wire.stream import SIGN_OF_LIFE, StreamReader, encode_greeting, encode_packet

OBSERVE_US: Final = 10_000
"""How long before the link fails because of silence the connection is observed for the last time."""


@dataclass(frozen=True, slots=True)
class TcpOptions:
    """Options of one TCP link."""

    # Of sent packets; received ones may be as large as the wire allows.
    packet_bytes_max: int = PACKET_BYTES_MAX
    unsent_bytes_max: int = 256 * 1024
    backlog_bytes_max: int = 64 * 1024 * 1024
    loose_bytes_max: int = LOOSE_BYTES_MAX  # With more waiting, objects of Unreliable bundles are dropped.
    lazy_us: int = 5_000
    heartbeat_us: int = 0  # 0: follows from the silence (timing.py).
    silence_us: int = 1_200_000
    greeting_us: int = 3_000_000  # From the link's first step to the neighbour's greeting.


@dataclass(slots=True)
class TcpState:
    """The state of one end of a TCP link."""

    reader: StreamReader
    queue: SendQueue = field(default_factory=SendQueue)
    open: bool = False
    unsent_bytes: int = 0  # Written, and not yet accepted by the kernel.
    heard_at_us: int = -1  # -1 until the first step, which counts as heard.
    heartbeat_at_us: int = NEVER
    observe_at_us: int = NEVER
    data_segments: int = -1  # At the last observation; -1 if bytes were read since.
    segment_missing: bool = False  # Data arrived that cannot be read, because an earlier segment is missing.
    round_trip_us: int = 0
    sent: int = 0
    received: int = 0
    loose_dropped: int = 0


class Tcp(Link):
    """One end of a TCP link; it sends the greeting `own` and accepts one of `peer` with its incarnation."""

    def __init__(
        self,
        own: Header,
        peer: DaemonId,
        peer_incarnation: Incarnation | None = None,  # None: not known before the greeting.
        options: TcpOptions = TcpOptions(),  # noqa: B008  # Frozen.
    ) -> None:
        super().__init__("tcp", options.packet_bytes_max, options.backlog_bytes_max, options.silence_us)
        self.own = own
        self.peer = peer
        self.peer_incarnation = peer_incarnation
        self.options = options
        assert self.own.family is Family.TCP, "the link greets with its own family"
        assert self.options.packet_bytes_max <= PACKET_BYTES_MAX, "the neighbour refuses longer packets"
        self.state = TcpState(StreamReader(self.own.cluster))
        self._beat_us = beat_us(self.options.heartbeat_us, self.options.silence_us)

    @property
    def progress(self) -> int:
        """A number that grows while packets get through, in either direction."""
        return self.state.sent + self.state.received

    @property
    def backlog_bytes(self) -> int:
        """The bytes that were submitted and that the kernel has not accepted yet."""
        return self.state.queue.size_bytes + self.state.unsent_bytes

    @property
    def greeting(self) -> Header | None:
        """The neighbour's greeting, once it was received and checked."""
        return self.state.reader.greeting

    @property
    def counters(self) -> LinkCounters:
        """The counters of the link; losses and repetitions are known to the kernel only."""
        s = self.state
        return LinkCounters(
            sent=s.sent,
            received=s.received,
            lost=0,
            nacks=0,
            retransmissions=0,
            duplicates=0,
            round_trip_us=0,
            loose_dropped=s.loose_dropped,
        )

    @property
    def wake_at_us(self) -> int:
        """The next time at which the link wants a Tick."""
        if self.failure:
            return NEVER
        s = self.state
        return min(self._send_at_us, s.heartbeat_at_us, s.observe_at_us, self._silent_at_us)

    @property
    def early_tick_at_us(self) -> int:
        """From this time on a Tick is useful, if the daemon is awake anyway; it saves a later one."""
        at_us = self.state.heartbeat_at_us
        return NEVER if self.failure or at_us == NEVER else at_us - early_us(self._beat_us)

    def step(self, event: LinkInput, now_us: int) -> list[LinkOutput]:
        """Takes one event; returns payloads, bytes to write, or the failure of the link."""
        if self.failure:
            return []
        if self.state.heard_at_us < 0:
            self.state.heard_at_us = now_us
        if isinstance(event, Submit):
            return self._submit(event, now_us)
        if isinstance(event, StreamOpened):
            return self._open(now_us)
        if isinstance(event, StreamReceived):
            return self._receive(event.chunk, now_us)
        if isinstance(event, StreamWritten):
            return self._written(event.count_bytes)
        if isinstance(event, StreamObserved):
            return self._observed(event.data_segments, event.round_trip_us, now_us)
        if isinstance(event, StreamClosed):
            return self._fail(event.reason, absence=True)
        if isinstance(event, Tick):
            return self._tick(now_us)
        raise AssertionError(f"{type(event).__name__} is not for a stream")

    # Input.

    def _submit(self, event: Submit, now_us: int) -> list[LinkOutput]:
        assert 0 < len(event.payload) <= self.object_bytes_max, "cut an object before it is submitted"
        if event.loose and self.backlog_bytes + len(event.payload) > self._loose_bytes_max:
            self.state.loose_dropped += 1
            return []
        if self.backlog_bytes + len(event.payload) > self.options.backlog_bytes_max:
            return self._fail(f"more than {self.options.backlog_bytes_max} bytes wait for the neighbour")
        self.state.queue.put(event, now_us + self.options.lazy_us)
        return []

    @property
    def _loose_bytes_max(self) -> int:
        """The limit for Unreliable objects; below half of the backlog that would fail the link."""
        return min(self.options.loose_bytes_max, self.options.backlog_bytes_max // 2)

    def _open(self, now_us: int) -> list[LinkOutput]:
        assert not self.state.open, "a link has one connection"
        self.state.open = True
        return [self._write(encode_greeting(self.own), now_us)]

    def _receive(self, chunk: bytes, now_us: int) -> list[LinkOutput]:
        assert self.state.open, "nothing is received before the connection is open"
        s = self.state
        greeted = s.reader.greeting is not None
        try:
            packets = s.reader.feed(chunk)
            if not greeted and s.reader.greeting is not None:
                self._check_greeting(s.reader.greeting)
        except PeerError as error:
            s.reader = StreamReader(self.own.cluster)
            return self._fail(str(error))
        if s.reader.greeting is not None:
            s.heard_at_us = now_us
            s.data_segments = -1
            s.segment_missing = False
            # A link on which heartbeats come in time is not observed.
            s.observe_at_us = now_us + self._beat_us + self._beat_us // 2
        payloads = [packet for packet in packets if packet]
        s.received += len(payloads)
        return [Deliver(payload) for payload in payloads]

    def _check_greeting(self, greeting: Header) -> None:
        if greeting.sender != self.peer:
            raise PeerError(
                Drop.FOREIGN_SENDER, f"greeted by daemon {greeting.sender}, not by daemon {self.peer}"
            )
        if self.peer_incarnation is not None and greeting.incarnation != self.peer_incarnation:
            raise PeerError(Drop.STALE_INCARNATION, f"greeted by incarnation {greeting.incarnation:#x}")
        if greeting.generation != self.own.generation:
            raise PeerError(Drop.STALE_GENERATION, f"greeted for generation {greeting.generation:#x}")

    def _written(self, count_bytes: int) -> list[LinkOutput]:
        assert count_bytes <= self.state.unsent_bytes, "more bytes left than were written"
        self.state.unsent_bytes -= count_bytes
        return []

    def _observed(self, data_segments: int, round_trip_us: int, now_us: int) -> list[LinkOutput]:
        s = self.state
        s.round_trip_us = round_trip_us
        if -1 < s.data_segments < data_segments:
            s.heard_at_us = now_us
            s.segment_missing = True
        s.data_segments = data_segments
        return []

    # Output.

    def _tick(self, now_us: int) -> list[LinkOutput]:
        late_us = now_us - self._silent_at_us
        if late_us > self.options.silence_us // 4:
            # The tick itself is late: this daemon did not run, and the neighbour may not have been silent.
            self.state.heard_at_us = now_us - self._silence_limit_us // 2
        elif late_us >= 0:
            silence_us = now_us - self.state.heard_at_us
            heard = f"nothing heard for {silence_us // 1_000} ms"
            return self._fail(heard if self.greeting else "no greeting in time", True, silence_us)
        outputs = self._packets(now_us)
        if now_us >= self.early_tick_at_us:
            outputs += self._heartbeat(now_us)
        if now_us >= self.state.observe_at_us:
            outputs.append(self._observe(now_us))
        return outputs

    def _observe(self, now_us: int) -> StreamObserve:
        """Observes the connection; again after half a heartbeat, and once just before the link would fail."""
        last_at_us = self._silent_at_us - min(OBSERVE_US, self.options.silence_us // 8)
        again_at_us = now_us + self._beat_us // 2
        self.state.observe_at_us = min(again_at_us, last_at_us) if now_us < last_at_us else again_at_us
        return StreamObserve()

    def _packets(self, now_us: int) -> list[LinkOutput]:
        s = self.state
        writes: list[LinkOutput] = []
        while self._send_at_us <= now_us:
            payload = s.queue.pack(self.options.packet_bytes_max, urgent_only=not self._window_open)
            s.sent += 1
            writes.append(self._write(encode_packet(payload), now_us))
        return writes

    def _heartbeat(self, now_us: int) -> list[LinkOutput]:
        """A sign of life, unless written bytes wait in the kernel: these are one when they leave."""
        if not self.state.unsent_bytes:
            return [self._write(SIGN_OF_LIFE, now_us)]
        self.state.heartbeat_at_us = now_us + self._beat_us
        return []

    def _write(self, data: bytes, now_us: int) -> StreamWrite:
        self.state.unsent_bytes += len(data)
        self.state.heartbeat_at_us = now_us + self._beat_us
        return StreamWrite(data)

    @property
    def _window_open(self) -> bool:
        """Whether data may be written; the last packet may exceed the limit, so that one always fits."""
        return self.state.unsent_bytes < self.options.unsent_bytes_max

    @property
    def _send_at_us(self) -> int:
        s = self.state
        if not s.open:
            return NEVER
        if s.queue.urgent:
            return 0
        return s.queue.send_at_us if self._window_open else NEVER

    @property
    def _silence_limit_us(self) -> int:
        if self.greeting is None:
            return self.options.greeting_us
        if self.state.segment_missing:
            return SILENCES_MAX * self.options.silence_us
        return silence_limit_us(self.state.round_trip_us, self.options.silence_us)

    @property
    def _silent_at_us(self) -> int:
        heard_at_us = self.state.heard_at_us
        return 0 if heard_at_us < 0 else heard_at_us + self._silence_limit_us
