"""Flow: how many bytes one sender has in flight, how many it may have, and how long an answer takes.

Implements  Whetten, Montgomery, Kaplan, 4.6: a window in bytes, of which a send takes and the first copy of its
            ACK gives back; round-trip-time variance estimation (Jacobson); packet sizes of figure 4.2.
Below       a window policy.
Above       a ring or a stranger, which asks before it sends, and tells what became of each packet.
Invariants  bytes in flight are at most the window when a packet is sent, except that one packet may always be
            in flight alone. A packet gives back once, whatever comes for it. Round trips are never measured
            with a packet that was sent again (Karn). Only a window that is used grows.
Deviations  none in the window. What has no ACK (Unreliable) is sent beside it, and only rates count it.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from hopring.ids import NEVER
from hopring.links.timing import RoundTrip, clamp, stamp_of
from hopring.rmp.flow.policies import (
    AckedPacket,
    FlowOptions,
    FlowPolicy,
    LostPacket,
    WindowPolicy,
    policy_of,
)
from hopring.rmp.flow.sizes import packet_bytes

FIRST_TIMER_US_MIN: Final = 5_000
"""The least first timer (trap 29): with shorter ones all tries end before a busy host has answered."""


@dataclass(frozen=True, slots=True)
class FlowSnapshot:
    """The state of a flow, for metrics and tests."""

    policy: FlowPolicy
    window_bytes: int
    flight_bytes: int
    flight_packets: int
    round_trip_us: int
    timer_us: int
    shrunk: int  # How often the window has shrunk.


@dataclass(slots=True)
class _InFlight:
    """A packet without an ACK."""

    size_bytes: int
    sent_at_us: int
    again: bool = False  # It was sent more than once.


@dataclass(slots=True)
class SenderFlow:
    """The flow of one sender to one group."""

    options: FlowOptions = field(default_factory=FlowOptions)
    first_us: int = FIRST_TIMER_US_MIN  # The timer until a round trip is measured, and its least.
    clamp_us: int = 2_000_000
    policy: WindowPolicy = field(init=False)
    round_trip: RoundTrip = field(init=False)
    flight_bytes: int = 0
    _flight: dict[int, _InFlight] = field(default_factory=dict)
    _highest: int = 0
    _used_to: int = 0  # The last packet that was sent when half of the window or more was in flight.
    _shrunk: int = 0
    _expired_us: int = 0  # A timer that was too short, doubled; until a round trip is measured again (Karn).

    def __post_init__(self) -> None:
        self.first_us = max(self.first_us, FIRST_TIMER_US_MIN)
        self.policy = policy_of(self.options)
        self.round_trip = RoundTrip(self.first_us)

    # What may be done.

    @property
    def window_bytes(self) -> int:
        """How many bytes may be in flight; never less than one packet that is."""
        longest = max([one.size_bytes for one in self._flight.values()], default=0)
        return max(self.policy.window_bytes, longest if len(self._flight) == 1 else 0)

    @property
    def available_bytes(self) -> int:
        """What is left of the window."""
        return max(0, self.policy.window_bytes - self.flight_bytes)

    def may_send(self, size_bytes: int, now_us: int) -> bool:
        """Whether a packet of this size may be sent now."""
        if now_us < self.policy.ready_at_us:
            return False
        return not self._flight or self.flight_bytes + size_bytes <= self.policy.window_bytes

    def may_send_loose(self, now_us: int) -> bool:
        """Whether a packet may be sent that nobody acknowledges."""
        return now_us >= self.policy.ready_at_us

    @property
    def ready_at_us(self) -> int:
        """When the next packet may be sent, as far as rates go."""
        return self.policy.ready_at_us

    def wake_at_us(self, size_bytes: int, now_us: int) -> int:
        """When a packet of this size may be sent, if only time is missing; NEVER if an ACK is."""
        ready_us = self.policy.ready_at_us
        return max(now_us, ready_us) if self.may_send(size_bytes, max(now_us, ready_us)) else NEVER

    def next_packet_bytes(self, offered_bytes: int) -> int:
        """How much of what is offered to put into the next packet; 0: wait for an ACK."""
        one = self.options
        window_bytes = max(self.policy.window_bytes, one.packet_bytes_min)
        left = window_bytes - self.flight_bytes
        return packet_bytes(
            offered_bytes, window_bytes, max(0, left), one.packet_bytes_min, one.packet_bytes_max
        )

    @property
    def timer_us(self) -> int:
        """The first timer of the next packet: the round trip and four times its deviation, within bounds.

        Three round trips at least: with each packet more in flight, the next one's takes longer.
        """
        trip_us = self.round_trip.smoothed_us
        measured = max(trip_us + 4 * self.round_trip.deviation_us, 3 * trip_us)
        return clamp(max(measured, self._expired_us), self.first_us, max(self.clamp_us, self.first_us))

    # What has happened.

    def sent(self, seq: int, size_bytes: int, now_us: int) -> None:
        """A packet was sent for the first time; they are numbered upwards."""
        assert seq > self._highest, "a packet is sent for the first time once"
        self._highest = seq
        self._flight[seq] = _InFlight(size_bytes, now_us)
        self.flight_bytes += size_bytes
        if 2 * self.flight_bytes >= self.policy.window_bytes:
            self._used_to = seq
        self.policy.sent(size_bytes, now_us)

    def sent_loose(self, size_bytes: int, now_us: int) -> None:
        """A packet was sent that nobody acknowledges."""
        self.policy.sent(size_bytes, now_us)

    def resent(self, seq: int, now_us: int) -> None:
        """A packet was sent again, by this sender."""
        one = self._flight.get(seq)
        if one is not None:
            one.again = True
            self.policy.sent(one.size_bytes, now_us)

    def acknowledged(self, seq: int, now_us: int) -> None:
        """An ACK names a packet; further copies of it change nothing."""
        one = self._flight.get(seq)
        if one is None:
            return
        del self._flight[seq]
        self.flight_bytes -= one.size_bytes
        # What this site orders itself says nothing of the network.
        if not one.again and now_us > one.sent_at_us:
            self.round_trip.sample(stamp_of(one.sent_at_us), 0, now_us)
            self._expired_us = 0
        used = seq <= self._used_to
        self.policy.acknowledged(AckedPacket(one.size_bytes, used, self.round_trip, now_us))

    def forget(self, seq: int) -> None:
        """A packet has its place, but its ACK was not seen: gives back, and grows nothing."""
        one = self._flight.pop(seq, None)
        if one is not None:
            self.flight_bytes -= one.size_bytes

    def nacked(self, seqs: Iterable[int], now_us: int) -> None:
        """A NACK names packets of this sender, which it or another site sends again."""
        for seq in seqs:
            if not 0 < seq <= self._highest:
                continue
            one = self._flight.get(seq)
            if one is not None:
                one.again = True
            self._shrunk += self.policy.lost(LostPacket(seq, False, self._highest, now_us))

    def timed_out(self, seq: int, now_us: int) -> None:
        """The timer of a packet has expired; late copies of its ACK give no sample."""
        one = self._flight.get(seq)
        if one is not None:
            one.again = True
            self._expired_us = min(2 * self.timer_us, self.clamp_us)
            self._shrunk += self.policy.lost(LostPacket(seq, True, self._highest, now_us))

    def stalled(self, now_us: int) -> None:
        """This process did not run: what it sent before gives no sample of the network."""
        self.round_trip.since_us = now_us

    def clear(self) -> None:
        """The ring is left: nothing is in flight any more."""
        self._flight.clear()
        self.flight_bytes = 0

    def snapshot(self) -> FlowSnapshot:
        """The state, for metrics and tests."""
        return FlowSnapshot(
            self.options.policy,
            self.window_bytes,
            self.flight_bytes,
            len(self._flight),
            self.round_trip.smoothed_us,
            self.timer_us,
            self._shrunk,
        )
