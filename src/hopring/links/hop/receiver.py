"""The receiving half of Hop: which packets arrived, which are missing, when to request them (figure 4.2).

Invariants  a packet is handed up at most once; `missing` has exactly the packets below `next_seq` that are not
            complete, in rising order; aru is one below the first of them.
"""

from dataclasses import dataclass, field
from typing import Final, final

from hopring.errors import Drop, PeerError
from hopring.ids import NEVER
from hopring.links.assembly import Assembly
from hopring.value import Mutable, Value
from hopring.wire.data import MISSING_MAX, Data, Missing, Segment


@final
class RequestLimit(Value):
    """The limit of requests for one packet, by number and by time; beyond both the link fails.

    The number alone would fail a short link in a short outage, the time alone a slow link with many losses.
    """

    def __init__(self, times: int, span_us: int) -> None:
        self.times: Final = times
        self.span_us: Final = span_us

    def exceeded(self, times: int, span_us: int) -> bool:
        """Whether this many requests over this time are beyond the limit."""
        return times > self.times and span_us >= self.span_us


@final
class Wanted(Mutable):
    """A packet that is not complete: when to request it, and how often that was done."""

    def __init__(self, ask_at_us: int, asked: int = 0, first_asked_us: int = NEVER) -> None:
        self.ask_at_us = ask_at_us
        self.asked = asked  # How often in a row, without a segment that arrived.
        self.first_asked_us = first_asked_us


@dataclass(slots=True)
class Receiver:
    """The state of one direction of a link at its receiving end."""

    window_packets: int
    next_seq: int  # One above the highest sequence known to have been sent.
    missing: dict[int, Wanted] = field(default_factory=dict)
    parts: Assembly = field(default_factory=Assembly)
    ask_at_us: int = NEVER  # Never later than the first request is due.
    given_up: bool = False  # The requests for a packet are beyond the limit.
    duplicates: int = 0
    lost: int = 0
    nacks: int = 0

    @property
    def aru(self) -> int:
        """All received up to here."""
        return (next(iter(self.missing)) if self.missing else self.next_seq) - 1

    @property
    def top(self) -> int:
        """The highest sequence known to have been sent."""
        return self.next_seq - 1

    def check(self, seq: int) -> None:
        """Refuses a sequence that a correct sender cannot have reached."""
        if seq > self.aru + self.window_packets:
            raise PeerError(Drop.OUT_OF_WINDOW, f"sequence {seq} is past the window above aru {self.aru}")

    def receive(self, packet: Data | Segment, late_after_us: int, again_at_us: int) -> bytes | None:
        """Handles a packet or a segment; returns the payload if this completes a packet that is new."""
        seq = packet.seq
        self.check(seq)
        if seq < self.next_seq and seq not in self.missing:
            self.duplicates += 1
            return None
        if isinstance(packet, Segment):
            payload = self.parts.add(packet)
        else:
            payload = packet.payload
        self.learn(seq, late_after_us)
        if payload is not None:
            self.parts.forget(seq)
            del self.missing[seq]
        else:
            # The other segments are likely to follow, for the first time or again.
            wanted = self.missing[seq]
            wanted.ask_at_us = again_at_us if wanted.asked else late_after_us
            wanted.asked = min(wanted.asked, 1)
            wanted.first_asked_us = NEVER
        return payload

    def learn(self, seq: int, late_after_us: int) -> None:
        """Notes that packets up to this one were sent; those that do not arrive in time are requested."""
        if seq < self.next_seq:
            return
        for unseen in range(self.next_seq, seq + 1):
            self.missing[unseen] = Wanted(late_after_us)
        self.next_seq = seq + 1
        self.ask_at_us = min(self.ask_at_us, late_after_us)

    def ask(self, now_us: int, answer_us: int, limit: RequestLimit) -> tuple[Missing, ...]:
        """The requests that are due, the oldest first; each is repeated less and less often."""
        if not self.missing:
            self.ask_at_us = NEVER
            return ()
        requests: list[Missing] = []
        for seq, wanted in self.missing.items():
            if wanted.ask_at_us > now_us:
                continue
            if not self._request(seq, requests):
                break
            self.lost += not wanted.asked
            wanted.asked += 1
            wanted.ask_at_us = now_us + answer_us * min(max(1, wanted.asked - 3), 4)
            wanted.first_asked_us = min(wanted.first_asked_us, now_us)
            self.given_up |= limit.exceeded(wanted.asked, now_us - wanted.first_asked_us)
        self.nacks += bool(requests)
        self.ask_at_us = min((wanted.ask_at_us for wanted in self.missing.values()), default=NEVER)
        return tuple(requests)

    def _request(self, seq: int, requests: list[Missing]) -> bool:
        """Adds a packet to the list of requests; returns False if the list is full."""
        segments = self.parts.missing_segments(seq)
        last = requests[-1] if requests else None
        if last is not None and not segments and not last.segments and last.seq + last.count == seq:
            requests[-1] = Missing(last.seq, last.count + 1)
            return True
        if len(requests) == MISSING_MAX:
            return False
        requests.append(Missing(seq, 1, segments))
        return True
