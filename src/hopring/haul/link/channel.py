"""A channel: the numbered frames of one wide set between two clusters, however often connections come and go.

Implements  Makpangou and Birman, 2.1.3 and 5.1: in order, nothing lost, nothing twice, over connections that
            fail; acknowledgements ride on the frames of the other direction.
Below       connections, which keep an order while they live.
Above       the application manager, which has a `Channel` for each peer and set in its replicated state.
Invariants  a frame keeps its number on every connection. What was taken is numbered 1 to `received` without a
            gap. At most `window_bytes` are under way on one connection, or one frame; frames that arrived and
            that the log has not taken are no more than that.
Deviations  the paper has one channel for all. Here each set has its own: numbers, acknowledgements and
            back-pressure, so that a set that is full stops no other one.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from hopring.errors import Drop, PeerError
from hopring.haul.ids import ClusterMask
from hopring.haul.link.frames import DescriptorsFrame, ParcelFrame, SetFrame
from hopring.haul.order.events import Parcel
from hopring.haul.order.runs import DescriptorRun

WINDOW_BYTES: Final = 4 * 1024 * 1024
"""Bytes of one set under way on a connection."""

FRAME_COST_BYTES: Final = 128
"""What a frame counts without its body."""

NumberedFrame = ParcelFrame | DescriptorsFrame | SetFrame


@dataclass(frozen=True, slots=True)
class ChannelFrame:
    """A frame that was given a number; its body is kept elsewhere, once for all channels."""

    number: int
    cost_bytes: int
    parcel: Parcel | None = None
    descriptors: tuple[DescriptorRun, ...] = ()
    clusters: ClusterMask | None = None  # Of a frame that introduces the set.


@dataclass(slots=True)
class Channel:
    """Both directions between this cluster and another one, for one set: a part of the replicated state."""

    sent: int = 0  # The number of the last frame.
    acked: int = 0  # The peer has logged all frames up to here.
    received: int = 0  # All frames of the peer up to here are logged.
    waiting: deque[ChannelFrame] = field(default_factory=deque)  # From acked + 1 to sent.
    waiting_bytes: int = 0

    def append(
        self,
        body_bytes: int,
        parcel: Parcel | None = None,
        descriptors: tuple[DescriptorRun, ...] = (),
        clusters: ClusterMask | None = None,
    ) -> None:
        """Gives a frame the next number; it waits until the peer has it."""
        self.sent += 1
        frame = ChannelFrame(self.sent, body_bytes + FRAME_COST_BYTES, parcel, descriptors, clusters)
        self.waiting.append(frame)
        self.waiting_bytes += frame.cost_bytes

    def may_acknowledge(self, number: int) -> bool:
        """Whether a peer with the history of this channel can say that it has all frames up to here."""
        return number <= self.sent

    def acknowledge(self, number: int) -> list[ChannelFrame]:
        """The peer has all frames up to here; returns those that are no longer needed."""
        out: list[ChannelFrame] = []
        while self.waiting and self.waiting[0].number <= number:
            out.append(self.waiting.popleft())
            self.waiting_bytes -= out[-1].cost_bytes
        self.acked = max(self.acked, number)
        return out

    def is_next(self, number: int) -> bool:
        """Whether a frame of the peer is the one behind those that are logged."""
        return number == self.received + 1


@dataclass(slots=True)
class ChannelSender:
    """What one connection has sent of a channel; a new connection begins where the peer is."""

    at: int  # The number of the last frame that was sent.
    window_bytes: int = WINDOW_BYTES
    under_way: deque[tuple[int, int]] = field(default_factory=deque)  # Numbers with their bytes.
    under_way_bytes: int = 0

    def take(self, channel: Channel, has: Callable[[ChannelFrame], bool]) -> list[ChannelFrame]:
        """The frames that may be sent now, up to one whose body is not here; they count as sent."""
        while self.under_way and self.under_way[0][0] <= channel.acked:
            self.under_way_bytes -= self.under_way.popleft()[1]
        out: list[ChannelFrame] = []
        self.at = max(self.at, channel.acked)
        while self.at < channel.sent:
            frame = channel.waiting[self.at - channel.acked]
            if self.under_way and self.under_way_bytes + frame.cost_bytes > self.window_bytes:
                break
            if not has(frame):
                break
            out.append(frame)
            self.at = frame.number
            self.under_way.append((frame.number, frame.cost_bytes))
            self.under_way_bytes += frame.cost_bytes
        return out


@dataclass(slots=True)
class ChannelReceiver:
    """Frames of a channel that one connection brought, until the log has taken them."""

    arrived: int  # The number of the last frame.
    window_bytes: int = WINDOW_BYTES
    held: deque[tuple[NumberedFrame, int]] = field(default_factory=deque)  # With their bytes.
    held_bytes: int = 0
    submitted: int = 0  # Up to this number they are on their way into the log.

    def arrive(self, frame: NumberedFrame) -> None:
        """A frame has arrived; raises PeerError if it cannot be the next one, or is too much."""
        if frame.number <= self.arrived:
            return  # It came by an earlier connection, too.
        if frame.number != self.arrived + 1:
            raise PeerError(Drop.OUT_OF_WINDOW, f"frame {frame.number} of {frame.set} behind {self.arrived}")
        cost = cost_of(frame)
        if self.held and self.held_bytes + cost > self.window_bytes:
            raise PeerError(Drop.LIMIT, f"more than {self.window_bytes} bytes of {frame.set} are under way")
        self.arrived = frame.number
        self.held.append((frame, cost))
        self.held_bytes += cost

    def taken(self, received: int) -> None:
        """The log has all frames up to here."""
        while self.held and self.held[0][0].number <= received:
            self.held_bytes -= self.held.popleft()[1]
        self.submitted = max(self.submitted, received)

    def submit(self, bytes_max: int) -> list[NumberedFrame]:
        """The next frames for the log, about as many bytes as these and at least one."""
        out: list[NumberedFrame] = []
        size_bytes = 0
        for frame, cost in self.held:
            if frame.number <= self.submitted:
                continue
            if out and size_bytes + cost > bytes_max:
                break
            out.append(frame)
            size_bytes += cost
            self.submitted = frame.number
        return out

    def submit_again(self, received: int) -> None:
        """The log did not take all that was submitted."""
        self.submitted = received


def cost_of(frame: NumberedFrame) -> int:
    """The bytes that count for a frame, the same at both ends."""
    return FRAME_COST_BYTES + (len(frame.body) if isinstance(frame, ParcelFrame) else 0)
