"""GoBackN: a link kind outside the product, written against `Link` alone.

Implements  go-back-N: cumulative acknowledgements, and one timer that resends all unacknowledged packets.
Below       datagrams that may be lost, reordered or duplicated; DATA, ACK and LOOSE frames.
Above       the stack, which gets each payload of the other end exactly once, in any order.
Invariants  those of `Link`; a payload is delivered at most once; a packet is sent only inside the window.
Deviations  the receiver delivers packets above a gap at once and remembers their numbers: the stack needs no
            order, and on paths that reorder, a receiver that drops them would cause every burst to be resent.
Limit       no congestion control: this link is for tests.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Final

from hopring.config.model import LinkProtocol, LinkTuning
from hopring.errors import Drop, PeerError
from hopring.ids import NEVER, NUMBER_MAX
from hopring.links.assembly import Assembly
from hopring.links.events import (
    Deliver,
    LinkCounters,
    LinkInput,
    LinkOutput,
    Submit,
    Tick,
    Transmit,
)
from hopring.links.kinds import KINDS, LinkKind, LinkSetup
from hopring.links.link import RESUME_US_MAX, LearnedPath, Link
from hopring.links.queues import LooseQueue, SendQueue
from hopring.links.timing import RoundTrip, beat_us, silence_limit_us, stamp_of
from hopring.wire.data import SEGMENT_BYTES_DEFAULT, Data, Segment, chunk_bytes_of, packet_bytes_of
from hopring.wire.hop import STAMP_MASK, Ack
from hopring.wire.train import Frame
from hopring.wire.unreliable import loose_bytes_of

DOUBLINGS_MAX: Final = 6


@dataclass(frozen=True, slots=True)
class GoBackNOptions:
    """Settings of a link, under the names of the configuration where it has them."""

    segment_bytes: int = SEGMENT_BYTES_DEFAULT
    window_packets: int = 64  # For data; urgent objects have a second window of this size.
    backlog_bytes_max: int = 64 * 1024 * 1024
    lazy_us: int = 5_000
    heartbeat_us: int = 0  # 0: derived from the silence.
    silence_us: int = 1_200_000
    initial_round_trip_us: int = 100_000


@dataclass(slots=True)
class GoBackNState:
    """State of one end of a link."""

    sent: int
    peer_aru: int
    aru: int  # Everything up to here has arrived.
    round_trip: RoundTrip
    loose: LooseQueue
    queue: SendQueue = field(default_factory=SendQueue)
    unacked: dict[int, bytes] = field(default_factory=dict)  # Oldest first; ends at `sent`.
    ahead: set[int] = field(default_factory=set)  # Arrived above a gap; never contains aru + 1.
    assembly: Assembly = field(default_factory=Assembly)
    resend_at_us: int = NEVER
    timeouts: int = 0  # Since the last acknowledgement of new data.
    ack_at_us: int = 0  # The first tick introduces this end.
    heard_at_us: int = -1  # -1 until the first step, which counts as a reception.
    stamp_us: int = 0  # The last stamp of the other end.
    stamped_at_us: int = 0  # When that stamp arrived.
    received: int = 0
    duplicates: int = 0
    resends: int = 0


class GoBackN(Link):
    """One end of a go-back-N link."""

    def __init__(self, options: GoBackNOptions, initial_seq: int = 1) -> None:
        # Hop's name, because the kind takes Hop's row of the table.
        object_bytes_max = packet_bytes_of(options.segment_bytes)
        super().__init__("hop", object_bytes_max, options.backlog_bytes_max, options.silence_us)
        self.options = options
        self.initial_seq = initial_seq
        last = initial_seq - 1
        trip = RoundTrip(options.initial_round_trip_us)
        loose = LooseQueue(loose_bytes_of(options.segment_bytes))
        self.state = GoBackNState(sent=last, peer_aru=last, aru=last, round_trip=trip, loose=loose)
        self._beat_us = beat_us(options.heartbeat_us, options.silence_us)

    @property
    def backlog_bytes(self) -> int:
        return self.state.queue.size_bytes

    @property
    def progress(self) -> int:
        return self.state.peer_aru + self.state.received

    @property
    def stuck(self) -> bool:
        return self.state.timeouts > 0

    @property
    def least_round_trip_us(self) -> int:
        return self.state.round_trip.least_us

    @property
    def counters(self) -> LinkCounters:
        """The counters; a receiver that requests nothing does not know what was lost."""
        s = self.state
        return LinkCounters(
            sent=s.sent - self.initial_seq + 1,
            received=s.received,
            lost=0,
            nacks=0,
            retransmissions=s.resends,
            duplicates=s.duplicates,
            round_trip_us=s.round_trip.smoothed_us,
            loose_dropped=s.loose.dropped,
        )

    @property
    def learned(self) -> LearnedPath | None:
        s = self.state
        known = s.round_trip.measured and s.stamped_at_us > 0  # Otherwise the value was only resumed.
        return LearnedPath(s.round_trip, s.stamped_at_us) if known else None

    def resume(self, learned: LearnedPath, now_us: int) -> None:
        assert now_us - learned.at_us <= RESUME_US_MAX, "that was too long ago"
        self.state.round_trip.resume(learned.round_trip)

    def stalled(self, now_us: int) -> None:
        self.state.round_trip.since_us = now_us

    @property
    def wake_at_us(self) -> int:
        s = self.state
        if self.failure:
            return NEVER
        send_at_us = 0 if s.loose.objects else self._pack_at_us
        return min(s.ack_at_us, s.resend_at_us, send_at_us, self._silent_at_us)

    @property
    def early_tick_at_us(self) -> int:
        return NEVER if self.failure else self.state.ack_at_us

    def step(self, event: LinkInput, now_us: int) -> list[LinkOutput]:
        if self.failure:
            return []
        if self.state.heard_at_us < 0:
            self.state.heard_at_us = now_us
        match event:
            case Submit():
                return self._submit(event, now_us)
            case Data() | Segment():
                return self._receive(event, now_us)
            case Ack():
                return self._acknowledged(event, now_us)
            case Tick():
                return self._tick(now_us)
            case _:
                raise PeerError(Drop.UNKNOWN_TYPE, f"{type(event).__name__} on a go-back-N link")

    # Inputs.

    def _submit(self, event: Submit, now_us: int) -> list[LinkOutput]:
        s = self.state
        if event.loose:
            s.loose.put(event.payload)
            return []
        assert 0 < len(event.payload) <= self.object_bytes_max, "cut an object before it is submitted"
        if s.queue.size_bytes + len(event.payload) > self.options.backlog_bytes_max:
            return self._fail(f"more than {self.options.backlog_bytes_max} bytes wait for the neighbour")
        s.queue.put(event, now_us + self.options.lazy_us)
        return []

    def _receive(self, packet: Data | Segment, now_us: int) -> list[LinkOutput]:
        s = self.state
        if packet.seq > s.aru + self._window_max:
            raise PeerError(Drop.OUT_OF_WINDOW, f"DATA {packet.seq} is past the window above aru {s.aru}")
        known = packet.seq <= s.aru or packet.seq in s.ahead
        payload = None if known else self._whole(packet)
        s.heard_at_us = s.ack_at_us = now_us
        s.duplicates += known
        if payload is None:
            return []
        s.ahead.add(packet.seq)
        while s.aru + 1 in s.ahead:
            s.aru += 1
            s.ahead.remove(s.aru)
        s.received += 1
        return [Deliver(payload)]

    def _whole(self, packet: Data | Segment) -> bytes | None:
        """The payload, if nothing of its packet is missing."""
        if isinstance(packet, Segment):
            return self.state.assembly.add(packet)
        self.state.assembly.forget(packet.seq)
        return packet.payload

    def _acknowledged(self, ack: Ack, now_us: int) -> list[LinkOutput]:
        s = self.state
        if max(ack.aru, ack.top) > s.sent:
            raise PeerError(
                Drop.OUT_OF_WINDOW, f"ACK of {max(ack.aru, ack.top)}, and {s.sent} was the last sent"
            )
        if ack.max_sent > s.aru + self._window_max:
            raise PeerError(Drop.OUT_OF_WINDOW, f"{ack.max_sent} sent, past the window above aru {s.aru}")
        s.heard_at_us = s.stamped_at_us = now_us
        s.stamp_us = ack.stamp_us
        if ack.echo_us:
            s.round_trip.sample(ack.echo_us, ack.echo_delay_us, now_us)
        if not ack.echo_us or ack.echo_delay_us > self._uneasy_after_us:
            s.ack_at_us = now_us  # The other end has not heard from this one for long.
        if ack.aru > s.peer_aru:
            s.peer_aru = ack.aru
            s.unacked = {seq: payload for seq, payload in s.unacked.items() if seq > ack.aru}
            s.timeouts = 0
            s.resend_at_us = now_us + self._timeout_us if s.unacked else NEVER
        return []

    # Outputs.

    def _tick(self, now_us: int) -> list[LinkOutput]:
        s = self.state
        late_us = now_us - self._silent_at_us
        if late_us > self.options.silence_us // 4:
            # The tick itself is late: this host did not run, and the neighbour is not to blame.
            s.heard_at_us = now_us - self.options.silence_us // 2
        elif late_us >= 0:
            return self._fail(f"nothing heard for {(now_us - s.heard_at_us) // 1_000} ms", absence=True)
        if s.sent > NUMBER_MAX:
            return self._fail("no packet numbers are left")
        frames: list[Frame] = [*self._again(now_us), *self._packets(now_us)]
        while s.loose.objects:
            frames.append(s.loose.pack()[0])
        if frames or now_us >= s.ack_at_us:
            frames.append(self._report(now_us))
        return [Transmit(tuple(frames))] if frames else []

    def _again(self, now_us: int) -> list[Data]:
        """Goes back to the first unacknowledged packet when the timer has expired."""
        s = self.state
        if now_us < s.resend_at_us:
            return []
        s.timeouts += 1
        s.resends += len(s.unacked)
        s.resend_at_us = now_us + self._timeout_us
        return [Data(seq, payload) for seq, payload in s.unacked.items()]

    def _packets(self, now_us: int) -> list[Data]:
        s = self.state
        packets: list[Data] = []
        while self._pack_at_us <= now_us:
            urgent_only = len(s.unacked) >= self.options.window_packets
            s.sent += 1
            s.unacked[s.sent] = s.queue.pack(chunk_bytes_of(self.options.segment_bytes), urgent_only)
            packets.append(Data(s.sent, s.unacked[s.sent]))
        if packets and s.resend_at_us == NEVER:
            s.resend_at_us = now_us + self._timeout_us
        return packets

    def _report(self, now_us: int) -> Ack:
        s = self.state
        uneasy = now_us - s.heard_at_us > self._uneasy_after_us
        s.ack_at_us = now_us + (self._beat_us // 8 if uneasy else self._beat_us)
        delay_us = min(now_us - s.stamped_at_us, STAMP_MASK)
        return Ack(s.aru, max(s.ahead, default=s.aru), s.sent, stamp_of(now_us), s.stamp_us, delay_us)

    # Deadlines and limits.

    @property
    def _window_max(self) -> int:
        return 2 * self.options.window_packets

    @property
    def _pack_at_us(self) -> int:
        """The time at which the queue has something that fits the window."""
        s = self.state
        if s.queue.urgent and len(s.unacked) < self._window_max:
            return 0
        return s.queue.send_at_us if len(s.unacked) < self.options.window_packets else NEVER

    @property
    def _timeout_us(self) -> int:
        """An expected round trip, doubled by each timeout in a row up to half of the silence."""
        answer_us = self.state.round_trip.answer_us
        doubled_us = answer_us << min(self.state.timeouts, DOUBLINGS_MAX)
        return max(answer_us, min(doubled_us, self.options.silence_us // 2))

    @property
    def _uneasy_after_us(self) -> int:
        """The silence after which an end reports more often."""
        return 3 * self._beat_us // 2

    @property
    def _silent_at_us(self) -> int:
        s = self.state
        if s.heard_at_us < 0:
            return NEVER
        return s.heard_at_us + silence_limit_us(s.round_trip.smoothed_us, self.options.silence_us)


def make(setup: LinkSetup) -> GoBackN:
    """Makes a link: the first column of the kind's row."""
    known = {name: value for name, value in setup.tuning.given().items() if hasattr(GoBackNOptions(), name)}
    options = replace(GoBackNOptions(), **known)
    backlog = max(options.backlog_bytes_max, setup.backlog_bytes_min)
    return GoBackN(replace(options, backlog_bytes_max=backlog), setup.initial_seq)


def object_bytes_max(tuning: LinkTuning) -> int:
    """The largest object: the second column of the kind's row."""
    return packet_bytes_of(tuning.segment_bytes or SEGMENT_BYTES_DEFAULT)


@contextmanager
def in_place_of_hop() -> Iterator[list[GoBackN]]:
    """Gives Hop's row of the table to this kind; yields the list of links made meanwhile in this process."""
    made: list[GoBackN] = []

    def make_and_note(setup: LinkSetup) -> Link:
        made.append(make(setup))
        return made[-1]

    before = KINDS[LinkProtocol.HOP]
    KINDS[LinkProtocol.HOP] = LinkKind(make_and_note, object_bytes_max)
    try:
        yield made
    finally:
        KINDS[LinkProtocol.HOP] = before
