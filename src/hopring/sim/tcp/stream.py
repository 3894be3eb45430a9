"""One end of a simulated TCP connection: bytes in order over the lossy datagram network.

Implements  connection set-up in one round trip, cumulative and delayed acknowledgements (RFC 1122, 5681),
            time stamps for round trips (RFC 7323), orderly close, reset, giving up after too many time-outs;
            congestion control is in `reno.py`.
Below       datagrams of the simulated network, one segment each.
Above       a link or a test, as a `StreamUser`.
Deviations  no selective acknowledgements, a receive window of fixed size, no Nagle (links switch it off), no
            TIME-WAIT; a FIN from the other side closes this side too.
"""

from enum import Enum
from typing import Protocol

from hopring.ids import NEVER
from hopring.sim.tcp.incoming import Incoming
from hopring.sim.tcp.outgoing import Outgoing, Piece
from hopring.sim.tcp.segment import Flags, StreamOptions, TcpSegment

_STAMP_MASK = 0xFFFF_FFFF


class StreamUser(Protocol):
    """Whoever uses a stream; told at the moment things happen."""

    def connected(self, stream: "Stream") -> None:
        """The other side has answered."""

    def received(self, stream: "Stream", data: bytes) -> None:
        """The next bytes have come."""

    def writable(self, stream: "Stream") -> None:
        """After a send that did not take everything: there is room again."""

    def closed(self, stream: "Stream", reason: str) -> None:
        """The stream is over; said once. "closed" is the good end, the others are "reset", "refused", ..."""


class Carrier(Protocol):
    """The host's side of a stream: sends its segments, runs its timers, forgets it."""

    @property
    def now_us(self) -> int:
        """The present."""

    def transmit(self, stream: "Stream", segment: TcpSegment) -> None:
        """Sends a segment to the other side."""

    def wake(self, stream: "Stream", when_us: int, plan: int) -> None:
        """Calls `stream.look(plan)` at that time."""

    def forget(self, stream: "Stream") -> None:
        """The stream is over."""


class State(Enum):
    """How far a connection is."""

    SYN_SENT = "syn sent"
    SYN_RECEIVED = "syn received"
    OPEN = "open"
    OVER = "over"


class Stream:
    """One end of a connection; `StreamHost` makes them."""

    def __init__(
        self, carrier: Carrier, user: StreamUser, ports: tuple[int, int], remote: str, options: StreamOptions
    ) -> None:
        self.port, self.remote_port = ports
        self.remote = remote
        self.options = options
        self.state = State.OVER
        self.out = Outgoing(options)
        self.incoming = Incoming(options.delayed_ack_us)
        self.timeouts = 0
        self._carrier = carrier
        self._user = user
        self._told_closed = False
        self._wants_room = False
        self._wake_at_us = NEVER
        self._plan = 0  # The number of the timer that counts; older ones are void.

    # ---- For the user ----

    def send(self, data: bytes) -> int:
        """Takes as much as there is room for, and returns how much that was."""
        assert not self.out.finishing, "the stream is closing"
        if self.state is State.OVER:
            return 0
        taken = self.out.take(data)
        self._wants_room = taken < len(data)
        self._pump()
        return taken

    def close(self) -> None:
        """Ends the stream in good order, behind everything that was sent."""
        self.out.finishing = True
        self._pump()

    def abort(self) -> None:
        """Ends the stream at once and resets the other side."""
        if self.state is not State.OVER:
            self._transmit(self.out.nxt, b"", Flags.RST | Flags.ACK)
            self._end("aborted")

    # ---- Set-up and timers ----

    def open(self, state: State) -> None:
        """Sends SYN, or the answer to one."""
        self.state = state
        self.out.retransmit_at_us = self._carrier.now_us + self.out.round_trip.timeout_us
        self._transmit(0, b"", Flags.SYN if state is State.SYN_SENT else Flags.SYN | Flags.ACK)
        self._plan_wake()

    def look(self, plan: int) -> None:
        """Does what has come due."""
        if plan != self._plan or self.state is State.OVER:
            return
        self._wake_at_us = NEVER
        if self._carrier.now_us >= self.out.retransmit_at_us:
            self._time_out()
        self._pump()

    def _plan_wake(self) -> None:
        due_us = min(self.incoming.ack_at_us, self.out.retransmit_at_us)
        if due_us < self._wake_at_us and self.state is not State.OVER:
            self._wake_at_us = due_us
            self._plan += 1
            self._carrier.wake(self, due_us, self._plan)

    def _time_out(self) -> None:
        self.timeouts += 1
        self.out.round_trip.backoff += 1
        connecting = self.state is not State.OPEN
        retries_max = self.options.connect_retries_max if connecting else self.options.retries_max
        if self.out.round_trip.backoff > retries_max:
            self._end("timed out")
        elif connecting:
            self.open(self.state)
        else:
            self.out.timed_out()

    # ---- Receiving ----

    def arrive(self, segment: TcpSegment) -> None:
        """Takes a segment from the other side."""
        if Flags.RST in segment.flags:
            self._end("refused" if self.state is State.SYN_SENT else "reset")
            return
        self.incoming.stamped(segment)
        if Flags.SYN in segment.flags:
            self._greet(segment)
        if Flags.ACK in segment.flags:
            self._establish(segment)
            self._take_ack(segment)
        if self.state is State.OPEN:
            self._take_data(segment)
        self._pump()
        if self.out.finished and self.incoming.finished:
            self._end("closed")

    def _greet(self, segment: TcpSegment) -> None:
        if Flags.ACK in segment.flags:
            # The answer to our SYN, or its repetition: either way the other side waits for an ACK.
            self.incoming.ack_at_us = self._carrier.now_us
        elif self.state is State.SYN_RECEIVED:
            self.open(State.SYN_RECEIVED)

    def _establish(self, segment: TcpSegment) -> None:
        if self.state is State.OPEN:
            return
        self.state = State.OPEN
        self.out.round_trip.sample(self._round_trip_us(segment))
        self.out.round_trip.backoff = 0
        self.out.retransmit_at_us = NEVER
        self._user.connected(self)

    def _take_ack(self, segment: TcpSegment) -> None:
        now_us = self._carrier.now_us
        if segment.ack > self.out.una:
            self._send(self.out.acknowledged(segment.ack, self._round_trip_us(segment), now_us))
            # A third, as in Linux: a wake-up for every segment would cost more than it brings.
            if self._wants_room and 3 * self.out.room_bytes >= self.options.send_buffer_bytes:
                self._wants_room = False
                self._user.writable(self)
        elif segment.ack == self.out.una and self.out.flight and self._only_acks(segment):
            self._send(self.out.acknowledged_again(now_us))

    def _round_trip_us(self, segment: TcpSegment) -> int:
        return (self._carrier.now_us - segment.echo_us) & _STAMP_MASK

    @staticmethod
    def _only_acks(segment: TcpSegment) -> bool:
        return not segment.data and segment.flags == Flags.ACK

    def _take_data(self, segment: TcpSegment) -> None:
        ready = self.incoming.take(segment, self._carrier.now_us)
        if ready:
            self._user.received(self, ready)
        if self.incoming.finished:
            self.out.finishing = True
            self._tell_closed("closed")

    # ---- Sending ----

    def _pump(self) -> None:
        """Sends what the windows allow, and the acknowledgement if it is due and found no ride."""
        now_us = self._carrier.now_us
        if self.state is State.OPEN:
            self._send(self.out.due(now_us))
            if now_us >= self.incoming.ack_at_us:
                self._transmit(self.out.nxt, b"", Flags.ACK)
        self._plan_wake()

    def _send(self, pieces: list[Piece]) -> None:
        for seq, data, fin in pieces:
            self._transmit(seq, data, Flags.ACK | Flags.FIN if fin else Flags.ACK)

    def _transmit(self, seq: int, data: bytes, flags: Flags) -> None:
        self.incoming.acknowledged()
        stamp_us = self._carrier.now_us & _STAMP_MASK
        ack, echo_us = self.incoming.next, self.incoming.echo_us
        self._carrier.transmit(
            self, TcpSegment(self.port, self.remote_port, seq, ack, stamp_us, echo_us, flags, data)
        )

    # ---- The end ----

    def _tell_closed(self, reason: str) -> None:
        if not self._told_closed:
            self._told_closed = True
            self._user.closed(self, reason)

    def _end(self, reason: str) -> None:
        if self.state is not State.OVER:
            self.state = State.OVER
            self._carrier.forget(self)
            self._tell_closed(reason)
