"""One end of a simulated TCP connection: bytes in order over the lossy datagram network.

Implements  connection set-up in one round trip, cumulative and delayed acknowledgements (RFC 1122, 5681),
            time stamps for round trips (RFC 7323), orderly close, reset, giving up after too many time-outs;
            congestion control is in `reno.py`.
Below       datagrams of the simulated network, one segment each. A segment's head has 24 bytes; with the 28
            that the network adds it weighs what a TCP segment with time stamps weighs: 52.
Above       a link or a test, as a `SimTcpUser`.
Invariants  of the sending half: una <= nxt <= sent_to <= last; its buffer holds the bytes from una to end.
            Bytes are numbered from 0; FIN takes the number after the last byte.
Deviations  no selective acknowledgements, a receive window of fixed size, no Nagle (links switch it off), no
            TIME-WAIT; a FIN from the other side closes this side too; sequence numbers do not wrap.
"""

from bisect import insort
from dataclasses import dataclass, field
from enum import Enum, IntFlag
from struct import Struct
from typing import Final, NamedTuple, Protocol

from hopring.ids import NEVER
from hopring.sim.tcp.reno import Reno, SimTcpRoundTrip

# source port, target port, seq, ack, stamp, echo, flags
_SEGMENT: Final = Struct("<HHIIIIB3x")
SEGMENT_HEAD_BYTES: Final = _SEGMENT.size
STREAM_BYTES_MAX: Final = 0xFFFF_FFFF
"""The model does not let sequence numbers wrap."""


@dataclass(frozen=True, slots=True)
class SimTcpOptions:
    """Limits and timers of one end; the defaults are those of a Linux host on Ethernet."""

    mss: int = 1448
    send_buffer_bytes: int = 1024 * 1024
    receive_window_bytes: int = 4 * 1024 * 1024
    delayed_ack_us: int = 40_000
    retries_max: int = 15
    connect_retries_max: int = 6


class SimTcpFlags(IntFlag):
    """The control bits of a segment."""

    NONE = 0
    FIN = 1
    SYN = 2
    RST = 4
    ACK = 16


@dataclass(frozen=True, slots=True)
class SimTcpSegment:
    """One segment; `stamp_us` is the sender's clock, `echo_us` the stamp it answers."""

    source_port: int
    target_port: int
    seq: int
    ack: int
    stamp_us: int
    echo_us: int
    flags: SimTcpFlags
    data: bytes = b""

    @property
    def end(self) -> int:
        """The number after the last byte."""
        return self.seq + len(self.data)


def encode_segment(segment: SimTcpSegment) -> bytes:
    """The segment as a datagram."""
    assert segment.end <= STREAM_BYTES_MAX, "the model's streams end at 4 GiB"
    head = _SEGMENT.pack(
        segment.source_port,
        segment.target_port,
        segment.seq,
        segment.ack,
        segment.stamp_us,
        segment.echo_us,
        segment.flags,
    )
    return head + segment.data


def decode_segment(datagram: bytes) -> SimTcpSegment:
    """The segment in a datagram; both ends are ours, so it is well formed."""
    source_port, target_port, seq, ack, stamp_us, echo_us, flags = _SEGMENT.unpack_from(datagram)
    data = datagram[SEGMENT_HEAD_BYTES:]
    return SimTcpSegment(source_port, target_port, seq, ack, stamp_us, echo_us, SimTcpFlags(flags), data)


@dataclass(slots=True)
class SimTcpReceiver:
    """The receiving half: bytes in order, and when to acknowledge them (`ack_at_us`)."""

    delayed_ack_us: int
    next: int = 0  # The first byte that has not arrived.
    ahead: list[tuple[int, bytes]] = field(default_factory=list)  # Data that arrived past a gap, by its start.
    fin_at: int | None = None
    ack_at_us: int = NEVER
    unacknowledged: int = 0  # Segments since the last acknowledgement.
    ack_sent: int = 0
    data_segments: int = 0  # All that arrived, in any order, repetitions included.
    echo_us: int = 0  # The stamp that the next acknowledgement answers (RFC 7323, 4.3).

    @property
    def finished(self) -> bool:
        """Whether the other side's FIN and everything before it have arrived."""
        return self.fin_at is not None and self.next > self.fin_at

    def stamped(self, segment: SimTcpSegment) -> None:
        """Remembers the stamp of the first segment that the next acknowledgement covers."""
        if segment.seq <= self.ack_sent:
            self.echo_us = segment.stamp_us

    def take(self, segment: SimTcpSegment, now_us: int) -> bytes:
        """Takes a segment in and returns the bytes that are now in order."""
        fin = SimTcpFlags.FIN in segment.flags
        if not segment.data and not fin:
            return b""
        self.data_segments += bool(segment.data)
        if fin:
            self.fin_at = segment.end
        # Gaps, their ends and repetitions are acknowledged at once: the sender waits for it.
        in_order = segment.seq == self.next and not self.ahead
        ready = self._add(segment.seq, segment.data)
        if self.next == self.fin_at:
            self.next += 1
        self.unacknowledged += 1
        at_once = fin or not in_order or self.unacknowledged >= 2
        self.ack_at_us = min(self.ack_at_us, now_us if at_once else now_us + self.delayed_ack_us)
        return ready

    def _add(self, seq: int, data: bytes) -> bytes:
        if seq > self.next:
            if (seq, data) not in self.ahead:
                insort(self.ahead, (seq, data))
            return b""
        ready = [self._beyond(seq, data)]
        while self.ahead and self.ahead[0][0] <= self.next:
            ready.append(self._beyond(*self.ahead.pop(0)))
        return b"".join(ready)

    def _beyond(self, seq: int, data: bytes) -> bytes:
        fresh = data[self.next - seq :]
        self.next += len(fresh)
        return fresh

    def acknowledged(self) -> None:
        """A segment is leaving; every segment acknowledges, so nothing is owed any more."""
        self.ack_at_us = NEVER
        self.unacknowledged = 0
        self.ack_sent = self.next


class Piece(NamedTuple):
    """Bytes to send in one segment; `fin` ends the stream behind them."""

    seq: int
    data: bytes
    fin: bool


@dataclass(slots=True)
class SimTcpSender:
    """The sending half: buffered bytes, bytes in flight, retransmissions."""

    options: SimTcpOptions
    reno: Reno = field(init=False)
    round_trip: SimTcpRoundTrip = field(default_factory=SimTcpRoundTrip)
    buffer: bytearray = field(default_factory=bytearray)
    una: int = 0  # The first byte not acknowledged.
    nxt: int = 0  # The next to send; goes back to una at a time-out.
    sent_to: int = 0  # Ever sent.
    end: int = 0  # Behind the last byte from the user.
    finishing: bool = False
    retransmit_at_us: int = NEVER
    retransmitted: int = 0

    def __post_init__(self) -> None:
        self.reno = Reno(self.options.mss)

    @property
    def room_bytes(self) -> int:
        """Free space of the send buffer."""
        return self.options.send_buffer_bytes - len(self.buffer)

    @property
    def finished(self) -> bool:
        """Whether the FIN, and so everything, is acknowledged."""
        return self.finishing and self.una > self.end

    @property
    def flight(self) -> int:
        """Bytes sent since the last time-out and not acknowledged."""
        return self.nxt - self.una

    def take(self, data: bytes) -> int:
        """Buffers as many bytes as there is room for, and returns their number."""
        taken = min(len(data), self.room_bytes)
        self.buffer += data[:taken]
        self.end += taken
        return taken

    def due(self, now_us: int) -> list[Piece]:
        """Everything that the windows allow to be sent now."""
        limit = self.una + min(self.reno.allowance(), self.options.receive_window_bytes)
        last = self.end + 1 if self.finishing else self.end
        pieces = []
        while self.nxt < last:
            size = min(self.options.mss, self.end - self.nxt)
            if self.nxt + size > limit and self.flight:
                break
            piece = self._cut(self.nxt, now_us)
            pieces.append(piece)
            self.nxt += len(piece.data) + piece.fin
        return pieces

    def _cut(self, seq: int, now_us: int) -> Piece:
        """The segment that starts there."""
        start = seq - self.una
        data = bytes(self.buffer[start : start + self.options.mss])
        fin = self.finishing and seq + len(data) == self.end
        self.retransmitted += seq < self.sent_to
        self.sent_to = max(self.sent_to, seq + len(data) + fin)
        if self.retransmit_at_us == NEVER or seq == self.una:
            self.retransmit_at_us = now_us + self.round_trip.timeout_us
        return Piece(seq, data, fin)

    def acknowledged(self, ack: int, round_trip_us: int, now_us: int) -> list[Piece]:
        """The other side has everything before `ack`, which is more than it had."""
        acked = ack - self.una
        del self.buffer[:acked]
        self.una = ack
        self.nxt = max(self.nxt, ack)
        self.round_trip.sample(round_trip_us)
        self.round_trip.backoff = 0
        waits = self.una < self.sent_to
        self.retransmit_at_us = now_us + self.round_trip.timeout_us if waits else NEVER
        partial = self.reno.acknowledged(acked, ack, self.flight)
        return [self._cut(self.una, now_us)] if partial else []

    def acknowledged_again(self, now_us: int) -> list[Piece]:
        """The same acknowledgement as before: something came past a gap."""
        hole = self.reno.duplicated(self.una, self.sent_to, self.flight)
        return [self._cut(self.una, now_us)] if hole else []

    def timed_out(self) -> None:
        """Goes back to the first byte that is not acknowledged."""
        self.reno.timed_out(self.sent_to, self.flight, again=self.round_trip.backoff > 1)
        self.nxt = self.una


_STAMP_MASK = 0xFFFF_FFFF


class SimTcpUser(Protocol):
    """The user of a stream, called when something happens to it."""

    def connected(self, stream: "SimTcpStream") -> None:
        """Reports that the connection is established."""

    def received(self, stream: "SimTcpStream", data: bytes) -> None:
        """The next bytes in order have arrived."""

    def writable(self, stream: "SimTcpStream") -> None:
        """After a send that did not take everything: there is room again."""

    def closed(self, stream: "SimTcpStream", reason: str) -> None:
        """The stream has ended; called once. The reason is "closed", or else "reset", "refused", ..."""


class SimTcpCarrier(Protocol):
    """The host's side of a stream: sends its segments, runs its timers, forgets it."""

    @property
    def now_us(self) -> int:
        """The present virtual time, in microseconds."""

    def transmit(self, stream: "SimTcpStream", segment: SimTcpSegment) -> None:
        """Sends a segment to the other side."""

    def wake(self, stream: "SimTcpStream", when_us: int, plan: int) -> None:
        """Calls `stream.look(plan)` at that time."""

    def forget(self, stream: "SimTcpStream") -> None:
        """Removes a stream that has ended."""


class SimTcpState(Enum):
    """The state of a connection."""

    SYN_SENT = "syn sent"
    SYN_RECEIVED = "syn received"
    OPEN = "open"
    OVER = "over"


class SimTcpStream:
    """One end of a connection, created by `SimTcpHost`."""

    def __init__(
        self,
        carrier: SimTcpCarrier,
        user: SimTcpUser,
        ports: tuple[int, int],
        remote: str,
        options: SimTcpOptions,
    ) -> None:
        self.port, self.remote_port = ports
        self.remote = remote
        self.options = options
        self.state = SimTcpState.OVER
        self.out = SimTcpSender(options)
        self.incoming = SimTcpReceiver(options.delayed_ack_us)
        self.timeouts = 0
        self._carrier = carrier
        self._user = user
        self._told_closed = False
        self._wants_room = False
        self._wake_at_us = NEVER
        self._plan = 0  # The number of the timer that counts; older ones are void.

    # ---- For the user ----

    def send(self, data: bytes) -> int:
        """Buffers as many bytes as there is room for, and returns their number."""
        assert not self.out.finishing, "the stream is closing"
        if self.state is SimTcpState.OVER:
            return 0
        taken = self.out.take(data)
        self._wants_room = taken < len(data)
        self._pump()
        return taken

    def close(self) -> None:
        """Ends the stream in an orderly way, behind everything that was sent."""
        self.out.finishing = True
        self._pump()

    def abort(self) -> None:
        """Ends the stream at once and resets the other side."""
        if self.state is not SimTcpState.OVER:
            self._transmit(self.out.nxt, b"", SimTcpFlags.RST | SimTcpFlags.ACK)
            self._end("aborted")

    # ---- Set-up and timers ----

    def open(self, state: SimTcpState) -> None:
        """Sends SYN, or the answer to one."""
        self.state = state
        self.out.retransmit_at_us = self._carrier.now_us + self.out.round_trip.timeout_us
        self._transmit(
            0, b"", SimTcpFlags.SYN if state is SimTcpState.SYN_SENT else SimTcpFlags.SYN | SimTcpFlags.ACK
        )
        self._plan_wake()

    def look(self, plan: int) -> None:
        """Retransmits and acknowledges if that is due."""
        if plan != self._plan or self.state is SimTcpState.OVER:
            return
        self._wake_at_us = NEVER
        if self._carrier.now_us >= self.out.retransmit_at_us:
            self._time_out()
        self._pump()

    def _plan_wake(self) -> None:
        due_us = min(self.incoming.ack_at_us, self.out.retransmit_at_us)
        if due_us < self._wake_at_us and self.state is not SimTcpState.OVER:
            self._wake_at_us = due_us
            self._plan += 1
            self._carrier.wake(self, due_us, self._plan)

    def _time_out(self) -> None:
        self.timeouts += 1
        self.out.round_trip.backoff += 1
        connecting = self.state is not SimTcpState.OPEN
        retries_max = self.options.connect_retries_max if connecting else self.options.retries_max
        if self.out.round_trip.backoff > retries_max:
            self._end("timed out")
        elif connecting:
            self.open(self.state)
        else:
            self.out.timed_out()

    # ---- Receiving ----

    def arrive(self, segment: SimTcpSegment) -> None:
        """Takes a segment from the other side."""
        if SimTcpFlags.RST in segment.flags:
            self._end("refused" if self.state is SimTcpState.SYN_SENT else "reset")
            return
        self.incoming.stamped(segment)
        if SimTcpFlags.SYN in segment.flags:
            self._greet(segment)
        if SimTcpFlags.ACK in segment.flags:
            self._establish(segment)
            self._take_ack(segment)
        if self.state is SimTcpState.OPEN:
            self._take_data(segment)
        self._pump()
        if self.out.finished and self.incoming.finished:
            self._end("closed")

    def _greet(self, segment: SimTcpSegment) -> None:
        if SimTcpFlags.ACK in segment.flags:
            # The answer to our SYN, or its repetition: either way the other side waits for an ACK.
            self.incoming.ack_at_us = self._carrier.now_us
        elif self.state is SimTcpState.SYN_RECEIVED:
            self.open(SimTcpState.SYN_RECEIVED)

    def _establish(self, segment: SimTcpSegment) -> None:
        if self.state is SimTcpState.OPEN:
            return
        self.state = SimTcpState.OPEN
        self.out.round_trip.sample(self._round_trip_us(segment))
        self.out.round_trip.backoff = 0
        self.out.retransmit_at_us = NEVER
        self._user.connected(self)

    def _take_ack(self, segment: SimTcpSegment) -> None:
        now_us = self._carrier.now_us
        if segment.ack > self.out.una:
            self._send(self.out.acknowledged(segment.ack, self._round_trip_us(segment), now_us))
            # A third, as in Linux: a wake-up for every segment would cost more than it brings.
            if self._wants_room and 3 * self.out.room_bytes >= self.options.send_buffer_bytes:
                self._wants_room = False
                self._user.writable(self)
        elif segment.ack == self.out.una and self.out.flight and self._only_acks(segment):
            self._send(self.out.acknowledged_again(now_us))

    def _round_trip_us(self, segment: SimTcpSegment) -> int:
        return (self._carrier.now_us - segment.echo_us) & _STAMP_MASK

    @staticmethod
    def _only_acks(segment: SimTcpSegment) -> bool:
        return not segment.data and segment.flags == SimTcpFlags.ACK

    def _take_data(self, segment: SimTcpSegment) -> None:
        ready = self.incoming.take(segment, self._carrier.now_us)
        if ready:
            self._user.received(self, ready)
        if self.incoming.finished:
            self.out.finishing = True
            self._tell_closed("closed")

    # ---- Sending ----

    def _pump(self) -> None:
        """Sends what the windows allow, and the acknowledgement if it is due and no data carried it."""
        now_us = self._carrier.now_us
        if self.state is SimTcpState.OPEN:
            self._send(self.out.due(now_us))
            if now_us >= self.incoming.ack_at_us:
                self._transmit(self.out.nxt, b"", SimTcpFlags.ACK)
        self._plan_wake()

    def _send(self, pieces: list[Piece]) -> None:
        for seq, data, fin in pieces:
            self._transmit(seq, data, SimTcpFlags.ACK | SimTcpFlags.FIN if fin else SimTcpFlags.ACK)

    def _transmit(self, seq: int, data: bytes, flags: SimTcpFlags) -> None:
        self.incoming.acknowledged()
        stamp_us = self._carrier.now_us & _STAMP_MASK
        ack, echo_us = self.incoming.next, self.incoming.echo_us
        self._carrier.transmit(
            self, SimTcpSegment(self.port, self.remote_port, seq, ack, stamp_us, echo_us, flags, data)
        )

    # ---- The end ----

    def _tell_closed(self, reason: str) -> None:
        if not self._told_closed:
            self._told_closed = True
            self._user.closed(self, reason)

    def _end(self, reason: str) -> None:
        if self.state is not SimTcpState.OVER:
            self.state = SimTcpState.OVER
            self._carrier.forget(self)
            self._tell_closed(reason)
