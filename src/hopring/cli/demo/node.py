"""One daemon of the demonstration, a process of its own: `python -m hopring.cli.demo.node FILE NAME`.

Commands come as lines on stdin, events leave as lines on stdout. The process ends with its stdin, so it never
outlives whoever started it, and on SIGTERM.
"""

import os
import secrets
import signal
import sys
from collections import Counter
from random import Random
from typing import Final

from hopring.cli.demo.bundles import identify, make_bundle
from hopring.cli.demo.words import (
    Command,
    Count,
    Counted,
    Ended,
    Event,
    Lines,
    LinkCount,
    Ready,
    Received,
    Send,
    Sent,
    Shape,
    Start,
    Started,
    Unable,
    decode_commands,
    encode_line,
)
from hopring.config import Config, load_config
from hopring.daemon import shaper
from hopring.daemon.loop import Loop
from hopring.daemon.node import Node
from hopring.daemon.udp_socket import Address
from hopring.daemon.unusable import Unusable
from hopring.ids import NEVER, DaemonId, Generation, Incarnation, mask_of
from hopring.routing.network import NetworkFailed
from hopring.routing.trees import pair
from hopring.stack_events import Receive
from hopring.wire.train import Train

FLUSH_US: Final = 20_000
"""Events wait so long for company: writing each by itself would show in the latencies."""

UDP_IP_BYTES: Final = 28


class Meter(shaper.DatagramShaper):
    """A shaper that counts by destination."""

    def __init__(self, node: Node, loop: Loop, random: Random) -> None:
        super().__init__(loop, node.wires.datagrams.endpoint.send, random)
        self.datagrams: Counter[Address] = Counter()
        self.bytes: Counter[Address] = Counter()
        self.thrown: Counter[Address] = Counter()

    def send(self, train: Train, address: Address) -> None:
        """Counts, then sends."""
        datagrams = train.datagrams()
        self.datagrams[address] += len(datagrams)
        self.bytes[address] += sum(map(len, datagrams)) + UDP_IP_BYTES * len(datagrams)
        before = self.lost
        super().send(train, address)
        self.thrown[address] += self.lost - before


class DemoNode:
    """A node that does as it is told and tells what it sees."""

    def __init__(self, loop: Loop, config: Config, name: str) -> None:
        self._loop = loop
        self._config = config
        self._name = name
        self._said: list[bytes] = []
        self._flush_alarm = loop.alarm(self.flush)
        self._send_alarm = loop.alarm(self._send_next)
        self._job: Send | None = None
        self._lines = Lines()
        incarnation = Incarnation(secrets.randbits(64))
        self.node = Node(loop, config, name, incarnation, self._up)
        self._meter = self.node.wires.datagrams.shaper = Meter(self.node, loop, Random(name))
        loop.register(sys.stdin.fileno(), self._read)
        self._say(Ready(incarnation))

    def flush(self) -> None:
        """Writes what was said."""
        text, self._said = b"".join(self._said), []
        while text:
            text = text[os.write(sys.stdout.fileno(), text) :]

    def _say(self, event: Event) -> None:
        if not self._said:
            self._flush_alarm.set(self._loop.now_us() + FLUSH_US)
        self._said.append(encode_line(event))

    def _read(self, _events: int) -> None:
        chunk = os.read(sys.stdin.fileno(), 1 << 16)
        if not chunk:
            self._loop.stop()
        for command in decode_commands(self._lines.add(chunk)):
            self._obey(command)

    def _obey(self, command: Command) -> None:
        match command:
            case Start():
                self._start(command)
            case Shape(towards, delay_us, loss):
                self.node.wires.shape(towards, shaper.Shape(delay_us=delay_us, loss=loss))
            case Send():
                self._job = command
                self._send_alarm.set(self._loop.now_us() + command.in_us)
            case Count():
                self._say(self._count())

    def _start(self, command: Start) -> None:
        config = self._config
        self._stop_sending()
        self._say(Started(self._loop.now_us(), self._name, command.generation, sorted(command.members)))
        self.node.start(
            Generation(command.generation),
            {config.daemon_id(name): Incarnation(nonce) for name, nonce in command.members.items()},
            frozenset(pair(config.site_id(one), config.site_id(other)) for one, other in command.cut),
        )

    def _send_next(self) -> None:
        job = self._job
        assert job is not None, "the alarm rings only while there is something to send"
        self._stop_sending()
        if job.count > 1:
            # Time that was lost on a busy machine is not caught up.
            self._job = Send(job.first + 1, job.count - 1, job.every_us, job.in_us, job.sites)
            self._send_alarm.set(self._loop.now_us() + job.every_us)
        self._multicast(job.first, job.sites)

    def _multicast(self, number: int, names: list[str]) -> None:
        sites = [site for site in self._config.sites if site.name in names]
        wanted_by = sorted(daemon.name for site in sites for daemon in site.daemons)
        identity, bundle = make_bundle(self._name, number)
        self._say(Sent(self._loop.now_us(), self._name, identity, wanted_by))
        self.node.multicast(mask_of(*[self._config.site_id(name) for name in names]), bundle)

    def _stop_sending(self) -> None:
        self._job = None
        self._send_alarm.set(NEVER)

    def _up(self, event: Receive | NetworkFailed) -> None:
        match event:
            case Receive(bundle=bytes(bundle)):
                self._say(Received(self._loop.now_us(), self._name, identify(bundle)))
            case NetworkFailed(reason):
                self._stop_sending()
                self._say(Ended(self._loop.now_us(), self._name, reason))

    def _count(self) -> Counted:
        assert self.node.stack is not None, "start a network first"
        counters = self.node.stack.counters()
        links: dict[str, LinkCount] = {}
        for number, link in counters.items():
            peer = self._config.daemons[DaemonId(number)]
            address = (peer.address, peer.port)
            links[peer.name] = LinkCount(
                datagrams=self._meter.datagrams[address],
                lost=self._meter.thrown[address],
                bytes=self._meter.bytes[address],
                nacks=link.nacks,
                retransmissions=link.retransmissions,
            )
        return Counted(links)


def run(file: str, name: str) -> int:
    """The life of a node."""
    loop = Loop()
    try:
        demo = DemoNode(loop, load_config(file), name)
    except Unusable as error:
        sys.stdout.buffer.write(encode_line(Unable(str(error))))
        return 1
    loop.on_signals(lambda _number: loop.stop(), [signal.SIGTERM])
    try:
        loop.run()
        demo.flush()
    except BrokenPipeError:
        pass  # Nobody listens any more.
    demo.node.close()
    loop.close()
    return 0


if __name__ == "__main__":
    sys.exit(run(*sys.argv[1:]))
