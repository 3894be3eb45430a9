"""The sending half of a stream: what waits, what is in flight, what goes again.

Invariants  una <= nxt <= sent_to <= last; the buffer holds the bytes from una to end.
"""

from dataclasses import dataclass, field
from typing import NamedTuple

from hopring.ids import NEVER
from hopring.sim.tcp.reno import Reno, RoundTrip
from hopring.sim.tcp.segment import StreamOptions


class Piece(NamedTuple):
    """Bytes to send in one segment; `fin` ends the stream behind them."""

    seq: int
    data: bytes
    fin: bool


@dataclass(slots=True)
class Outgoing:
    """The bytes on their way to the other side."""

    options: StreamOptions
    reno: Reno = field(init=False)
    round_trip: RoundTrip = field(default_factory=RoundTrip)
    buffer: bytearray = field(default_factory=bytearray)
    una: int = 0  # The first byte not acknowledged.
    nxt: int = 0  # The next to send; goes back to una at a time-out.
    sent_to: int = 0  # Ever sent.
    end: int = 0  # Behind the last byte the user has given.
    finishing: bool = False
    retransmit_at_us: int = NEVER
    retransmitted: int = 0

    def __post_init__(self) -> None:
        self.reno = Reno(self.options.mss)

    @property
    def room_bytes(self) -> int:
        """How much more the buffer takes."""
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
        """Buffers as much as there is room for, and returns how much that was."""
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
        """Nothing came in time: back to the first byte that is not acknowledged."""
        self.reno.timed_out(self.sent_to, self.flight, again=self.round_trip.backoff > 1)
        self.nxt = self.una
