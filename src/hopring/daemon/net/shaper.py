"""A link shaper in front of the sockets: delay, jitter, loss, duplicates, rate and queue, without root.

`Lane` computes, for one direction of one link, when a packet leaves, or that it is lost. The shapers put lanes
before a datagram endpoint or a connection. Randomness comes from the generator that is passed in.
"""

import heapq
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.udp import Address, Send
from hopring.ids import NEVER
from hopring.wire.train import Train

HELD_BYTES_MAX: Final = 64 << 20
"""Limit of the bytes that a shaper holds back; packets beyond it are lost, as in any queue."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The treatment of packets by a lane; the default lets them pass."""

    delay_us: int = 0
    jitter_us: int = 0  # Added to the delay, uniformly; jittered packets may overtake each other.
    loss: float = 0.0
    duplicates: float = 0.0
    rate_bits_per_second: int = 0  # 0 is no limit.
    queue_bytes_max: int = 1 << 18  # Only with a rate: packets that do not fit are lost.


CLEAR: Final = Shape()
CUT: Final = Shape(loss=1.0)


@dataclass(slots=True)
class Lane:
    """One direction of a link, with the state of its bottleneck."""

    shape: Shape
    random: Random
    free_at_us: int = 0  # When the bottleneck will have sent everything that is queued.

    def enter(self, size: int, now_us: int) -> list[int]:
        """The times at which copies of a packet leave: none if it is lost, two if it is doubled."""
        shape = self.shape
        if shape.loss and self.random.random() < shape.loss:
            return []
        through_us = self._pass_bottleneck(size, now_us)
        if through_us == NEVER:
            return []
        copies = 2 if shape.duplicates and self.random.random() < shape.duplicates else 1
        return [through_us + shape.delay_us + self._jitter_us() for _ in range(copies)]

    def _pass_bottleneck(self, size: int, now_us: int) -> int:
        rate = self.shape.rate_bits_per_second
        if not rate:
            return now_us
        start_us = max(now_us, self.free_at_us)
        if (start_us - now_us) * rate // 8_000_000 + size > self.shape.queue_bytes_max:
            return NEVER
        self.free_at_us = start_us + size * 8_000_000 // rate
        return self.free_at_us

    def _jitter_us(self) -> int:
        return self.random.randrange(self.shape.jitter_us) if self.shape.jitter_us else 0


class DatagramShaper:
    """Sends trains through their destination's lane, datagram by datagram, so that each is lost by itself.

    Has the `send` of an endpoint and stands in its place. Destinations without a lane are not touched.
    """

    def __init__(self, loop: Loop, onward: Send, random: Random) -> None:
        self.lost = 0
        self._loop = loop
        self._onward = onward
        self._random = random
        self._lanes: dict[Address, Lane] = {}
        self._shapes: dict[Address, Shape] = {}
        self._cut: frozenset[Address] = frozenset()
        self._held: list[
            tuple[int, int, bytes, Address]
        ] = []  # A heap of time, serial number, datagram, address.
        self._held_bytes = 0
        self._count = 0
        self._alarm = loop.alarm(self._release)

    def shape(self, address: Address, shape: Shape) -> None:
        """Delays or loses packets to this address from now on; packets already held keep their time."""
        self._shapes[address] = shape
        self._lay(address)

    def cut(self, addresses: Collection[Address]) -> None:
        """Sends nothing more to these addresses, and to all others as before."""
        before, self._cut = self._cut, frozenset(addresses)
        for address in before | self._cut:
            self._lay(address)

    def _lay(self, address: Address) -> None:
        shape = CUT if address in self._cut else self._shapes.get(address, CLEAR)
        if shape == CLEAR:
            self._lanes.pop(address, None)
        else:
            self._lanes[address] = Lane(shape, self._random)

    def send(self, train: Train, address: Address) -> None:
        """Sends now, later, twice or not at all."""
        lane = self._lanes.get(address)
        if lane is None:
            self._onward(train, address)
            return
        now_us = self._loop.now_us()
        for datagram in train.datagrams():
            moments = lane.enter(len(datagram), now_us)
            self.lost += not moments
            for at_us in moments:
                self._hold(at_us, datagram, address)
        self._release()

    def _hold(self, at_us: int, datagram: bytes, address: Address) -> None:
        if self._held_bytes + len(datagram) > HELD_BYTES_MAX:
            self.lost += 1
            return
        self._count += 1
        self._held_bytes += len(datagram)
        heapq.heappush(self._held, (at_us, self._count, datagram, address))

    def _release(self) -> None:
        now_us = self._loop.now_us()
        while self._held and self._held[0][0] <= now_us:
            _, _, datagram, address = heapq.heappop(self._held)
            self._held_bytes -= len(datagram)
            self._onward(Train(datagram, len(datagram)), address)
        self._alarm.set(self._held[0][0] if self._held else NEVER)


class StreamShaper:
    """Delays the writes of one connection, in their order; a stream loses nothing."""

    def __init__(self, loop: Loop, onward: Callable[[bytes], None], shape: Shape, random: Random) -> None:
        assert not shape.loss, "bytes of a stream are not lost"
        assert not shape.duplicates, "bytes of a stream are not doubled"
        self._loop = loop
        self._onward = onward
        self._random = random
        self.shape(shape)
        self._held: deque[tuple[int, bytes]] = deque()
        self._last_us = 0
        self._alarm = loop.alarm(self._release)

    def shape(self, shape: Shape) -> None:
        """Applies another shape from now on; loss and duplicates do not apply to a stream."""
        self._lane = Lane(replace(shape, loss=0.0, duplicates=0.0, queue_bytes_max=NEVER), self._random)

    def write(self, data: bytes) -> None:
        """Writes these bytes when their delay is over."""
        (at_us,) = self._lane.enter(len(data), self._loop.now_us())
        self._last_us = max(self._last_us, at_us)
        self._held.append((self._last_us, data))
        self._alarm.set(self._held[0][0])

    def _release(self) -> None:
        now_us = self._loop.now_us()
        while self._held and self._held[0][0] <= now_us:
            self._onward(self._held.popleft()[1])
        self._alarm.set(self._held[0][0] if self._held else NEVER)
