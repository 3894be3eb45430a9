"""A wide-area link between two namespaces, in user space: for kernels without netem.

Usage: wan_emulator NAMESPACE:DEVICE NAMESPACE:DEVICE SHAPE SHAPE

Each end is a TUN device, which hands over whole IP packets with finished checksums, cut to the MTU. What is
read from one is written to the other when the lane of that direction says so. A line on stdin with two shapes,
a tab between them, changes both. Ends on SIGTERM.
"""

import contextlib
import fcntl
import heapq
import os
import signal
import struct
import sys
from random import Random

from tests.netns.namespace_lab import die_with_parent, inside

from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.shaper import Lane, Shape
from hopring.ids import NEVER

_TUNSETIFF = 0x400454CA
_IFF_TUN = 0x0001
_IFF_NO_PI = 0x1000
_PACKET_BYTES_MAX = 1 << 16
_READS_MAX = 64


def open_tun(end: str) -> int:
    """A new TUN device, named as NAMESPACE:DEVICE."""
    namespace, device = end.split(":")
    with inside(namespace):
        descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
        fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", device.encode(), _IFF_TUN | _IFF_NO_PI))
    return descriptor


class Direction:
    """One direction through the emulator."""

    def __init__(self, loop: Loop, source: int, target: int, lane: Lane) -> None:
        self._loop = loop
        self._source = source
        self._target = target
        self.lane = lane
        self._held: list[tuple[int, int, bytes]] = []
        self._count = 0
        self._alarm = loop.alarm(self._release)
        loop.register(source, self._ready)

    def _ready(self, _events: int) -> None:
        for _ in range(_READS_MAX):
            try:
                packet = os.read(self._source, _PACKET_BYTES_MAX)
            except OSError:  # No packet is available, or the device is down.
                break
            for at_us in self.lane.enter(len(packet), self._loop.now_us()):
                self._count += 1
                heapq.heappush(self._held, (at_us, self._count, packet))
        self._release()

    def _release(self) -> None:
        now_us = self._loop.now_us()
        while self._held and self._held[0][0] <= now_us:
            packet = heapq.heappop(self._held)[2]
            with contextlib.suppress(OSError):  # A device that is down loses packets.
                os.write(self._target, packet)
        self._alarm.set(self._held[0][0] if self._held else NEVER)


def shape_of(text: str) -> Shape:
    """The inverse of a shape's repr."""
    fields = dict(word.split("=") for word in text.removeprefix("Shape(").removesuffix(")").split(", "))
    ints = {name: int(value) for name, value in fields.items() if name not in ("loss", "duplicates")}
    return Shape(**ints, loss=float(fields["loss"]), duplicates=float(fields["duplicates"]))


def main() -> None:
    """Carries packets in both directions until SIGTERM."""
    loop = Loop()
    loop.on_signals(lambda _number: loop.stop(), (signal.SIGTERM, signal.SIGINT))
    die_with_parent()
    one, other = (open_tun(end) for end in sys.argv[1:3])
    there, back = (Lane(shape_of(text), Random(seed)) for seed, text in enumerate(sys.argv[3:5]))
    directions = Direction(loop, one, other, there), Direction(loop, other, one, back)

    def listen(_events: int) -> None:
        said = os.read(sys.stdin.fileno(), _PACKET_BYTES_MAX).decode()
        if not said:
            loop.unregister(sys.stdin.fileno())
        for line in said.splitlines():
            for direction, text in zip(directions, line.split("\t"), strict=True):
                direction.lane = Lane(shape_of(text), direction.lane.random)
            print("shaped", flush=True)

    loop.register(sys.stdin.fileno(), listen)
    print("ready", flush=True)
    loop.run()


if __name__ == "__main__":
    main()
