"""Hop: a reliable, unordered link between two neighbouring daemons.

Implements  the Hop protocol: thesis 4.3 with figures 4.1 and 4.2, technical report 3.2 with figure 3.2.
Below       datagrams that may be lost, reordered or duplicated.
Above       the overlay, which wants each packet at once, in any order.
Invariants  a payload is delivered at most once, and exactly once unless the link fails; the
            unacknowledged packets never exceed the window; `wake_at_us` is never later than the next time at
            which the link has to act.
Deviations  a range of missing packets goes from the expected one to the one before the packet that arrived, and
            the ARU of a receiver without gaps is next - 1 (the figures are off by one); a NACK may name single
            segments of a train; every ACK carries both the receiver's aru and the sender's highest sequence,
            and is the heartbeat too, because a dead link shows no gap; all waiting times follow from the
            measured round trip; a packet number is never reused, since a link of another generation is another
            link. Objects of Unreliable bundles have no numbers and share only the pace (queues.py).
"""

from dataclasses import dataclass

from hopring.errors import Drop, PeerError
from hopring.ids import NEVER, NUMBER_MAX
from hopring.links.events import (
    Deliver,
    LinkCounters,
    LinkInput,
    LinkOutput,
    Submit,
    Tick,
    Transmit,
)
from hopring.links.hop.pacing import Bucket, Congestion
from hopring.links.hop.receiver import Receiver, RequestLimit
from hopring.links.hop.sender import RESERVE_PACKETS, Crossing, Sender
from hopring.links.link import RESUME_US_MAX, LearnedPath, Link
from hopring.links.queues import LOOSE_BYTES_MAX, LooseQueue
from hopring.links.timing import RoundTrip, beat_us, clamp, early_us, silence_limit_us, stamp_of
from hopring.wire.data import SEGMENT_BYTES_DEFAULT, Data, Segment, chunk_bytes_of, packet_bytes_of
from hopring.wire.hop import STAMP_MASK, Ack, Nack
from hopring.wire.train import Frame
from hopring.wire.unreliable import loose_bytes_of

_REPORT_BYTES = 96  # Left free in a packet of one datagram, for an ACK and a short NACK.
_PACKET_SPAN_US = 1_000  # A packet is no longer than the bytes that the rate allows in this time.
_BURST_SPAN_US = 1_500


@dataclass(frozen=True, slots=True)
class HopOptions:
    """Options of one Hop link."""

    segment_bytes: int = SEGMENT_BYTES_DEFAULT
    window_packets: int = 4_096
    window_bytes: int = 16 * 1024 * 1024
    backlog_bytes_max: int = 64 * 1024 * 1024
    loose_bytes_max: int = LOOSE_BYTES_MAX
    rate_bytes_per_second: int | None = None  # None: congestion control, fair to TCP.
    burst_bytes: int = 64 * 1024  # With a fixed rate only.
    ack_every_segments: int = 16
    nacks_max: int = 16
    lazy_us: int = 5_000
    heartbeat_us: int = 0  # 0: follows from the silence (timing.py).
    silence_us: int = 1_200_000
    initial_round_trip_us: int = 100_000


@dataclass(frozen=True, slots=True)
class HopLearned(LearnedPath):
    """The measurements of a path, with the congestion window that it had."""

    congestion: Congestion | None


@dataclass(slots=True)
class HopState:
    """The state of one end of a Hop link."""

    sender: Sender
    receiver: Receiver
    round_trip: RoundTrip
    bucket: Bucket
    congestion: Congestion | None
    ack_at_us: int = 0  # When the next ACK is due.
    reported_at_us: int = 0  # When the last ACK was sent.
    unreported_segments: int = 0  # Received since the last ACK was sent.
    heard_at_us: int = -1  # -1 until the first step.
    stamp_us: int = 0  # The stamp of the neighbour's last ACK.
    stamped_at_us: int = 0  # When that ACK was received.
    received: int = 0
    early_us: int = 0  # How much earlier than `ack_at_us` the next ACK may be sent.


class Hop(Link):
    """One end of a Hop link; its state is in `sender` and `receiver`."""

    def __init__(self, options: HopOptions = HopOptions(), initial_seq: int = 1) -> None:  # noqa: B008  # Frozen.
        self.options = o = options
        super().__init__("hop", packet_bytes_of(o.segment_bytes), o.backlog_bytes_max, o.silence_us)
        self.initial_seq = initial_seq
        self._request_limit = RequestLimit(o.nacks_max, o.silence_us)
        self._beat_us = beat_us(o.heartbeat_us, o.silence_us)
        last = initial_seq - 1
        chunk_bytes = chunk_bytes_of(o.segment_bytes)
        congestion = Congestion(o.segment_bytes) if o.rate_bytes_per_second is None else None
        loose = LooseQueue(loose_bytes_of(o.segment_bytes), o.loose_bytes_max)
        self.state = HopState(
            sender=Sender(chunk_bytes, o.window_packets, o.window_bytes, last, last, loose=loose),
            receiver=Receiver(o.window_packets + RESERVE_PACKETS, next_seq=initial_seq),
            round_trip=RoundTrip(o.initial_round_trip_us),
            bucket=Bucket(o.rate_bytes_per_second or 1, o.burst_bytes),
            congestion=congestion,
        )
        self._set_pace()

    @property
    def progress(self) -> int:
        """A number that grows while packets get through, in either direction."""
        return self.state.sender.peer_aru + self.state.received

    @property
    def stuck(self) -> bool:
        """Whether a packet was requested or sent again and has not arrived yet."""
        s = self.state
        return bool(s.receiver.missing) or any(one.resends for one in s.sender.unacked.values())

    @property
    def least_round_trip_us(self) -> int:
        """The least round trip that was measured; 0 if there is none."""
        return self.state.round_trip.least_us

    def stalled(self, now_us: int) -> None:
        """This host did not run until now: answers to packets sent before give no sample of the round trip."""
        self.state.round_trip.since_us = now_us

    @property
    def backlog_bytes(self) -> int:
        """The bytes that were submitted and are not sent yet."""
        return self.state.sender.queue.size_bytes

    @property
    def counters(self) -> LinkCounters:
        """The counters of the link since its start."""
        s = self.state
        return LinkCounters(
            sent=s.sender.sent - self.initial_seq + 1,
            received=s.received,
            lost=s.receiver.lost,
            nacks=s.receiver.nacks,
            retransmissions=s.sender.resends,
            duplicates=s.receiver.duplicates,
            round_trip_us=s.round_trip.smoothed_us,
            loose_dropped=s.sender.loose.dropped,
        )

    @property
    def wake_at_us(self) -> int:
        """The next time at which the link wants a Tick."""
        s = self.state
        if self.failure:
            return NEVER
        wake_us = min(s.ack_at_us, s.receiver.ask_at_us)  # By twos: compiled, these are comparisons.
        wake_us = min(wake_us, self._send_at_us)
        return min(wake_us, self._silent_at_us)

    @property
    def early_tick_at_us(self) -> int:
        """From this time on a Tick is useful, if the daemon is awake anyway; it saves a later one."""
        s = self.state
        if self.failure:
            return NEVER
        idle = not s.sender.unacked and not s.unreported_segments
        return s.ack_at_us - s.early_us if idle else s.ack_at_us

    def step(self, event: LinkInput, now_us: int) -> list[LinkOutput]:
        """Takes one event; returns payloads, frames to send, or the failure of the link."""
        if self.failure:
            return []
        if self.state.heard_at_us < 0:
            self.state.heard_at_us = now_us
        if isinstance(event, Submit):
            return self._submit(event, now_us)
        if isinstance(event, (Data, Segment)):
            return self._receive(event, now_us)
        if isinstance(event, Ack):
            return self._acknowledged(event, now_us)
        if isinstance(event, Nack):
            return self._asked(event, now_us)
        if isinstance(event, Tick):
            return self._tick(now_us)
        raise PeerError(Drop.UNKNOWN_TYPE, f"{type(event).__name__} on a Hop link")

    @property
    def learned(self) -> LearnedPath | None:
        """The measurements of the path, for the next link; None before a round trip was measured."""
        s = self.state
        if not s.round_trip.measured or not s.stamped_at_us:
            return None
        return HopLearned(s.round_trip, s.stamped_at_us, s.congestion)

    def resume(self, learned: LearnedPath, now_us: int) -> None:
        """Begins with the measurements of an earlier link between the same two daemons."""
        s = self.state
        assert s.heard_at_us < 0, "the link has begun"
        assert now_us - learned.at_us <= RESUME_US_MAX, "that was too long ago"
        s.round_trip.resume(learned.round_trip)
        if s.congestion is not None and isinstance(learned, HopLearned) and learned.congestion is not None:
            s.congestion.resume(learned.congestion, now_us)
        self._set_pace()

    # Input.

    def _submit(self, event: Submit, now_us: int) -> list[LinkOutput]:
        if event.loose:
            self.state.sender.loose.put(event.payload)
            return []
        assert 0 < len(event.payload) <= self.object_bytes_max, "cut an object before it is submitted"
        queue = self.state.sender.queue
        if queue.size_bytes + len(event.payload) > self.options.backlog_bytes_max:
            return self._fail(f"more than {self.options.backlog_bytes_max} bytes wait for the neighbour")
        queue.put(event, now_us + self.options.lazy_us)
        return []

    def _receive(self, packet: Data | Segment, now_us: int) -> list[LinkOutput]:
        s = self.state
        trip = s.round_trip
        payload = s.receiver.receive(packet, now_us + trip.nack_delay_us, now_us + self._answer_us)
        s.heard_at_us = now_us
        if isinstance(packet, Segment):
            s.unreported_segments += 1
        else:
            s.unreported_segments += 1 + len(packet.payload) // self.options.segment_bytes
        due = s.unreported_segments >= self.options.ack_every_segments
        self._report_by(now_us if due else now_us + s.round_trip.report_delay_us)
        if payload is None:
            return []
        s.received += 1
        return [Deliver(payload)]

    def _acknowledged(self, ack: Ack, now_us: int) -> list[LinkOutput]:
        s = self.state
        s.sender.check_report(ack.aru, ack.top)
        s.receiver.check(ack.max_sent)
        s.heard_at_us = now_us
        s.stamp_us, s.stamped_at_us = ack.stamp_us, now_us
        if ack.echo_us:
            s.round_trip.sample(ack.echo_us, ack.echo_delay_us, now_us)
        self._reported(ack, now_us)
        s.receiver.learn(ack.max_sent, now_us + s.round_trip.nack_delay_us)
        if not ack.echo_us or ack.echo_delay_us > self._uneasy_after_us:
            self._report_by(now_us)  # The neighbour has not heard this end for too long.
        elif not s.sender.unacked and not s.unreported_segments:
            # On an idle link the two ends send ACKs alternately: each ACK that comes delays the own one. The
            # delay is limited to two heartbeats, because several ACKs may come at once out of a queue.
            alternate_us = max(s.reported_at_us + self._beat_us, now_us + self._beat_us // 2)
            s.ack_at_us = min(alternate_us, s.reported_at_us + 2 * self._beat_us)
        return []

    def _reported(self, ack: Ack, now_us: int) -> None:
        s = self.state
        flight_bytes = s.sender.flight_bytes
        news_bytes = s.sender.reported(ack.aru, ack.top)
        if s.congestion is None or not news_bytes or not s.round_trip.measured:
            return
        # The window grows only while it is used: otherwise its size was not tested.
        if 2 * flight_bytes >= s.congestion.window_bytes:
            trip = s.round_trip
            s.congestion.delivered(news_bytes, trip.smoothed_us, trip.least_us, trip.last_us, now_us)
        self._set_pace()

    def _asked(self, nack: Nack, now_us: int) -> list[LinkOutput]:
        s = self.state
        s.sender.check_missing(nack.missing)
        s.heard_at_us = now_us
        fresh = s.sender.requested(nack.missing, now_us, self._request_limit)
        if s.sender.given_up:
            return self._fail(f"the neighbour asked more than {self.options.nacks_max} times for one packet")
        if s.congestion is not None and fresh:
            s.congestion.lost(max(fresh), s.sender.sent, now_us)
            self._set_pace()
        return []

    # Output.

    def _tick(self, now_us: int) -> list[LinkOutput]:
        s = self.state
        silent_at_us = self._silent_at_us
        if now_us - silent_at_us > self.options.silence_us // 4:
            # The tick itself is late: this daemon did not run, and the neighbour may not have been silent.
            s.heard_at_us = now_us - self.options.silence_us // 2
        elif now_us >= silent_at_us:
            silence_us = now_us - s.heard_at_us
            return self._fail(f"nothing heard for {silence_us // 1_000} ms", True, silence_us)
        if s.sender.sent > NUMBER_MAX:
            return self._fail("no packet numbers are left")
        frames: list[Frame] = self._packets(now_us)
        requests = s.receiver.ask(now_us, self._answer_us, self._request_limit)
        if s.receiver.given_up:
            return self._fail(f"asked more than {self.options.nacks_max} times for one packet")
        if requests:
            frames.append(Nack(requests))
        if now_us >= self.early_tick_at_us or (frames and self._report_may_share(now_us)):
            frames.append(self._report(now_us))
        return [Transmit(tuple(frames))] if frames else []

    def _packets(self, now_us: int) -> list[Frame]:
        """Retransmissions, then new packets, within rate and windows; Unreliable objects when they are due."""
        s = self.state
        loose = s.sender.loose
        frames: list[Frame] = []
        s.bucket.fill(now_us)
        crossing = Crossing(now_us, s.round_trip.least_us, s.bucket.rate_bytes_per_second)
        while s.bucket.credit > 0:
            if s.sender.to_resend:
                parts, size = s.sender.resend(crossing)
                frames.extend(parts)
            elif loose.objects and (loose.due or not self._may_pack(now_us)):
                frame, size = loose.pack()
                frames.append(frame)
            elif self._may_pack(now_us):
                urgent_only = not s.sender.window_open
                data = s.sender.pack(self._packet_bytes, urgent_only, crossing)
                frames.append(data)
                size = s.sender.wire_bytes(len(data.payload))
                if loose.objects:
                    loose.waited_bytes += size
                self._report_by(now_us + s.round_trip.report_delay_us)
            else:
                break
            s.bucket.spend(size)
        return frames

    def _may_pack(self, now_us: int) -> bool:
        return self._queue_at_us <= now_us

    @property
    def _queue_at_us(self) -> int:
        """When a new packet may be packed: the queue has objects, and the windows are open."""
        s = self.state
        wanted_at_us = s.sender.queue.send_at_us
        if wanted_at_us == NEVER:
            return NEVER
        if s.sender.queue.urgent and s.sender.reserve_open:
            return 0
        if not s.sender.window_open:
            return NEVER
        if s.congestion is not None and s.sender.flight_bytes >= s.congestion.window_bytes:
            return NEVER
        return wanted_at_us

    @property
    def _send_at_us(self) -> int:
        s = self.state
        wanted_at_us = 0 if s.sender.to_resend or s.sender.loose.objects else self._queue_at_us
        return wanted_at_us if wanted_at_us == NEVER else max(wanted_at_us, s.bucket.ready_at_us)

    @property
    def _packet_bytes(self) -> int:
        """Packets of one datagram on a slow link, long trains on a fast one."""
        one = chunk_bytes_of(self.options.segment_bytes) - _REPORT_BYTES
        span = self.state.bucket.rate_bytes_per_second * _PACKET_SPAN_US // 1_000_000
        return one if span < 2 * self.options.segment_bytes else min(span, self.object_bytes_max)

    def _report(self, now_us: int) -> Ack:
        s = self.state
        again_us = self._beat_us
        uneasy_in_us = s.heard_at_us + self._uneasy_after_us - now_us
        if uneasy_in_us < 0:
            again_us //= 8
        elif s.sender.unacked:
            # Less and less often while the neighbour does not answer.
            again_us = min(again_us, max(self._answer_us, (now_us - s.heard_at_us) // 4))
        else:
            again_us = min(again_us, uneasy_in_us + 1)
        s.ack_at_us = now_us + again_us
        s.early_us = early_us(again_us)
        s.reported_at_us = now_us
        s.unreported_segments = 0
        echo_delay_us = min(now_us - s.stamped_at_us, STAMP_MASK)
        stamp_us = stamp_of(now_us)
        return Ack(s.receiver.aru, s.receiver.top, s.sender.sent, stamp_us, s.stamp_us, echo_delay_us)

    def _report_by(self, at_us: int) -> None:
        self.state.ack_at_us = min(self.state.ack_at_us, at_us)

    def _report_may_share(self, now_us: int) -> bool:
        """Whether an ACK is due soon enough to be added to a packet that is sent now."""
        return self.state.ack_at_us - now_us <= self.state.round_trip.report_delay_us // 2

    # Pace and silence.

    def _set_pace(self) -> None:
        s = self.state
        if s.congestion is None:
            return
        rate = s.congestion.rate_bytes_per_second(s.round_trip.estimate_us)
        s.bucket.rate_bytes_per_second = rate
        burst = rate * _BURST_SPAN_US // 1_000_000
        s.bucket.burst_bytes = clamp(burst, 4 * self.options.segment_bytes, 128 * 1024)

    @property
    def _uneasy_after_us(self) -> int:
        """After this silence an end sends more ACKs; their old echo makes the other end answer at once."""
        return 3 * self._beat_us // 2

    @property
    def _answer_us(self) -> int:
        """How long an answer may take; bounded like the silence, since a pause looks like a long round trip."""
        trip = self.state.round_trip
        return min(trip.answer_us, max(self.options.silence_us, 2 * trip.least_us))

    @property
    def _silent_at_us(self) -> int:
        s = self.state
        if s.heard_at_us < 0:
            return NEVER
        return s.heard_at_us + silence_limit_us(s.round_trip.smoothed_us, self.options.silence_us)
