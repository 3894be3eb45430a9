"""Measures how one Hop link and one TCP flow share a bottleneck.

    python -m tests.netns.fairness --seconds 60 --rtt-ms 40

Needs root. Builds two hosts and a router in network namespaces: the output of the router has a rate and a
queue (tbf), and the link behind it has half the round trip each way. Both flows always have data to send.
Prints JSON: bytes that the applications at the far end received, and the ratio of Hop to TCP.
"""

import argparse
import contextlib
import json
import multiprocessing
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path

from tests.netns.namespace_lab import Lab, die_with_parent, inside

from hopring.daemon.engines.host import LayerDriver
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.shaper import Shape
from hopring.daemon.net.udp import Address, UdpEndpoint
from hopring.errors import PeerError
from hopring.ids import DaemonId, Generation, Incarnation
from hopring.links.events import Deliver, LinkFailed, Submit, Transmit
from hopring.links.events import LinkInput as Input
from hopring.links.events import LinkOutput as Output
from hopring.links.hop.hop import Hop
from hopring.wire.data import Data, Segment
from hopring.wire.header import Family, Header, encode_header
from hopring.wire.hop import Ack, Nack
from hopring.wire.train import decode_train, encode

CLUSTER = 0xFA
NEAR, ROUTER, ROUTER_FAR, FAR = "10.79.1.1", "10.79.1.2", "10.79.2.1", "10.79.2.2"
PORT = 7777
OBJECT_BYTES = 1_000
BACKLOG_BYTES = 500_000
REFILL_US = 2_000
_fork = multiprocessing.get_context("fork")


@dataclass(frozen=True, slots=True)
class FairnessSetting:
    """Bottleneck, duration, and the competing flow."""

    seconds: int = 60
    rtt_ms: int = 40
    rate_mbit: int = 20
    queue_bytes: int = 0  # 0 means one round trip at the full rate.
    congestion: str = ""  # Empty means the kernel's default.
    control: str = ""  # A second TCP flow with this congestion control instead of Hop, for comparison.

    @property
    def queue(self) -> int:
        """The bottleneck's queue in bytes."""
        return self.queue_bytes or self.rate_mbit * self.rtt_ms * 125


@dataclass(slots=True)
class Meter:
    """Bytes that one flow's receiver has handed to its application."""

    total: "Synchronized[int]"

    def add(self, count: int) -> None:
        """Adds bytes; only one process writes the counter."""
        self.total.value += count


def hop_end(namespace: str, me: int, meter: Meter, fill: bool) -> None:
    """Runs one end of a Hop link, with a daemon's socket and loop."""
    loop, link = Loop(), Hop()
    here, there = (NEAR, FAR) if me == 1 else (FAR, NEAR)
    head = encode_header(Header(Family.HOP, CLUSTER, DaemonId(me), Incarnation(me), Generation(1)))

    def receive(buffer: memoryview, segment_bytes: int, _address: Address) -> None:
        for packet in decode_train(buffer, segment_bytes, CLUSTER):
            for frame in () if isinstance(packet, PeerError) else packet.frames:
                assert isinstance(frame, Data | Segment | Ack | Nack), "only Hop frames are expected"
                port.give(frame)

    def carry_out(outputs: Sequence[Output]) -> None:
        for output in outputs:
            match output:
                case Transmit(frames=frames):
                    for train in encode(head, frames, link.options.segment_bytes):
                        endpoint.send(train, (there, PORT))
                case Deliver(payload=payload):
                    meter.add(len(payload))
                case LinkFailed(reason=reason):
                    raise RuntimeError(reason)

    with inside(namespace):
        endpoint = UdpEndpoint(loop, (here, PORT), receive)
    port: LayerDriver[Input, Output] = LayerDriver(loop, link, carry_out)

    def refill() -> None:
        while link.backlog_bytes < BACKLOG_BYTES:
            port.give(Submit(bytes(OBJECT_BYTES)))
        alarm.set(loop.now_us() + REFILL_US)

    alarm = loop.alarm(refill)
    if fill:
        refill()
    loop.run()


def tcp_receiver(namespace: str, port: int, meter: Meter) -> None:
    """Receives the bytes of one connection."""
    with inside(namespace), socket.create_server((FAR, port)) as listener:
        connection, _ = listener.accept()
        buffer = bytearray(1 << 18)
        while size := connection.recv_into(buffer):
            meter.add(size)


def tcp_sender(namespace: str, port: int, congestion: str) -> None:
    """Sends until the process is ended."""
    with inside(namespace), socket.socket() as sock:
        if congestion:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
        while sock.connect_ex((FAR, port)):
            time.sleep(0.01)
        while True:
            sock.sendall(bytes(1 << 16))


def build(lab: Lab, setting: FairnessSetting) -> None:
    """Builds a host, a router with the bottleneck, and a remote host."""
    lab.host("near", "far")
    lab.host("router", forwarding=True)
    lab.cable(("near", "eth0", f"{NEAR}/24"), ("router", "eth0", f"{ROUTER}/24"))
    delay = Shape(delay_us=setting.rtt_ms * 500)
    lab.wan(("router", "wan0", f"{ROUTER_FAR}/24"), ("far", "wan0", f"{FAR}/24"), delay, delay)
    lab.limit("router", "wan0", setting.rate_mbit * 1_000_000, setting.queue)
    lab.ip("near", "route", "add", "default", "via", ROUTER)
    lab.ip("far", "route", "add", "default", "via", ROUTER_FAR)


def start(lab: Lab, setting: FairnessSetting, hop: Meter, tcp: Meter) -> "list[multiprocessing.Process]":
    """Starts both ends of both flows."""
    near, far = lab.namespace("near"), lab.namespace("far")
    jobs: list[tuple[Callable[..., None], tuple[object, ...]]] = [
        (tcp_receiver, (far, PORT, tcp)),
        (tcp_sender, (near, PORT, setting.congestion)),
    ]
    if setting.control:
        jobs.append((tcp_receiver, (far, PORT + 1, hop)))
        jobs.append((tcp_sender, (near, PORT + 1, setting.control)))
    else:
        jobs.append((hop_end, (far, 2, hop, False)))
        jobs.append((hop_end, (near, 1, hop, True)))
    processes = [_fork.Process(target=_quiet, args=(job, arguments)) for job, arguments in jobs]
    for process in processes:
        process.start()
    return processes  # type: ignore[return-value]


def _quiet(job: Callable[..., None], arguments: tuple[object, ...]) -> None:
    """Runs one end of a flow until it is interrupted."""
    die_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with contextlib.suppress(ConnectionError):
        job(*arguments)


def measure(setting: FairnessSetting, hop: Meter, tcp: Meter) -> tuple[float, float]:
    """Mbit/s of both flows from the time at which both run; prints a line on stderr every five seconds."""
    deadline = time.monotonic() + 10
    while not (hop.total.value and tcp.total.value):
        if time.monotonic() > deadline:
            raise RuntimeError("the flows did not start")
        time.sleep(0.01)
    start_s, start_bytes = time.monotonic(), (hop.total.value, tcp.total.value)
    last_s, last_bytes = start_s, start_bytes
    for second in range(1, setting.seconds + 1):
        time.sleep(max(0.0, start_s + second - time.monotonic()))
        if second % 5 == 0 or second == setting.seconds:
            now_s, now_bytes = time.monotonic(), (hop.total.value, tcp.total.value)
            hop_now, tcp_now = _rates(last_bytes, now_bytes, now_s - last_s)
            print(f"{second:3d} s  hop {hop_now:5.2f}  tcp {tcp_now:5.2f} Mbit/s", file=sys.stderr)
            last_s, last_bytes = now_s, now_bytes
    return _rates(start_bytes, last_bytes, last_s - start_s)


def _rates(before: tuple[int, int], after: tuple[int, int], seconds: float) -> tuple[float, float]:
    hop, tcp = ((late - early) * 8e-6 / seconds for early, late in zip(before, after, strict=True))
    return hop, tcp


def run(setting: FairnessSetting) -> dict[str, object]:
    """Builds the network, runs both flows and returns their rates."""
    hop = Meter(_fork.Value("q", 0))
    tcp = Meter(_fork.Value("q", 0))
    with Lab() as lab:
        build(lab, setting)
        processes = start(lab, setting, hop, tcp)
        try:
            hop_mbit, tcp_mbit = measure(setting, hop, tcp)
        finally:
            for process in processes:
                process.terminate()
                process.join()
    default = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    return asdict(setting) | {
        "queue_bytes": setting.queue,
        "congestion": setting.congestion or default,
        "hop_mbit_per_s": round(hop_mbit, 2),
        "tcp_mbit_per_s": round(tcp_mbit, 2),
        "total_mbit_per_s": round(hop_mbit + tcp_mbit, 2),
        "ratio": round(hop_mbit / tcp_mbit, 3) if tcp_mbit else None,
    }


def main() -> None:
    """Reads the command line and prints the result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--rtt-ms", type=int, default=40)
    parser.add_argument("--rate-mbit", type=int, default=20)
    parser.add_argument("--queue-bytes", type=int, default=0, help="default: one round trip at the full rate")
    parser.add_argument("--congestion", default="", help="TCP's congestion control; default: the kernel's")
    parser.add_argument("--control", default="", help="instead of Hop, a TCP flow with this congestion control")
    arguments = parser.parse_args()
    print(json.dumps(run(FairnessSetting(**vars(arguments)))))


if __name__ == "__main__":
    main()
