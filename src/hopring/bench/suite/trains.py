"""Datagrams per second between two processes on loopback: trains against plain sends.

    python -m hopring.bench.suite.trains --seconds 2 --repeats 5

Both ways use the daemon's own endpoint, in turn within one run, so that other load of the machine affects both.
`socket` sends ready-made buffers and only counts what arrives; `link` also encodes DATA frames and decodes
them. The sender stops for the receiver every so often, as a link's window would make it. Prints JSON.
"""

import argparse
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable
from multiprocessing.connection import Connection

from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.udp import Address, UdpEndpoint, UdpOptions
from hopring.errors import PeerError
from hopring.ids import DaemonId, Generation, Incarnation
from hopring.wire.data import SEGMENT_BYTES_DEFAULT, Data, packet_bytes_of
from hopring.wire.header import Family, Header, encode_header
from hopring.wire.train import Train, decode_train, encode

SEGMENT_BYTES = SEGMENT_BYTES_DEFAULT
CLUSTER = 0xBE
WINDOW_TRAINS = 32
GRACE_SECONDS = 10
GO_ON = Train(b"go on", SEGMENT_BYTES)
_HEAD = encode_header(Header(Family.HOP, CLUSTER, DaemonId(1), Incarnation(1), Generation(1)))
_PAYLOAD = bytes(packet_bytes_of(SEGMENT_BYTES))
_fork = multiprocessing.get_context("fork")

Handle = Callable[[memoryview, int], None]


def ignore(_buffer: memoryview, _segment_bytes: int) -> None:
    """A receiver that stops at the socket."""


def decode(buffer: memoryview, segment_bytes: int) -> None:
    """A receiver that decodes, as a link does."""
    for packet in decode_train(buffer, segment_bytes, CLUSTER):
        assert not isinstance(packet, PeerError), packet


def receiver(pipe: Connection, trains: bool, handle: Handle) -> None:
    """Receives datagrams, and lets the sender continue after each window."""
    loop = Loop()
    window = WINDOW_TRAINS * len(make(1).datagrams())
    seen = 0

    def receive(buffer: memoryview, segment_bytes: int, sender: Address) -> None:
        nonlocal seen
        handle(buffer, segment_bytes)
        before = seen
        seen += -(-len(buffer) // segment_bytes)
        if seen // window > before // window:
            endpoint.send(GO_ON, sender)

    endpoint = UdpEndpoint(loop, ("127.0.0.1", 0), receive, UdpOptions(trains=trains))
    pipe.send(endpoint.address)
    loop.run()


def make(seq: int) -> Train:
    """A full train with one packet."""
    (train,) = encode(_HEAD, (Data(seq, _PAYLOAD),), SEGMENT_BYTES)
    return train


def rate(seconds: float, trains: bool, linked: bool) -> float:
    """Datagrams per second of one way, in one short run."""
    ours, theirs = _fork.Pipe()
    process = _fork.Process(target=receiver, args=(theirs, trains, decode if linked else ignore), daemon=True)
    process.start()
    try:
        return _send(seconds, ours.recv(), UdpOptions(trains=trains), linked)
    finally:
        process.terminate()
        process.join()


def _send(seconds: float, address: Address, options: UdpOptions, linked: bool) -> float:
    loop = Loop()
    allowed = 1
    ready = make(1)

    def go_on(_buffer: memoryview, _segment_bytes: int, _sender: Address) -> None:
        nonlocal allowed
        allowed += 1

    def give_up() -> None:
        raise RuntimeError("datagrams were lost: the receiver waits for a window that will not fill")

    endpoint = UdpEndpoint(loop, ("127.0.0.1", 0), go_on, options)
    loop.alarm(give_up).set(loop.now_us() + int((seconds + GRACE_SECONDS) * 1_000_000))
    start = time.perf_counter()
    windows = 0
    while time.perf_counter() - start < seconds:
        while windows == allowed + 1:  # Two windows under way keep both sides busy.
            loop.turn()
        windows += 1
        for seq in range(1, WINDOW_TRAINS + 1):
            endpoint.send(make(seq) if linked else ready, address)
    elapsed = time.perf_counter() - start
    assert not endpoint.traffic.unsent, endpoint.traffic
    return endpoint.traffic.datagrams_sent / elapsed


def run(seconds: float, repeats: int) -> dict[str, object]:
    """All four ways in turn, `repeats` times; medians."""
    rates: dict[tuple[bool, bool], list[float]] = {}
    for _ in range(repeats):
        for linked in (False, True):
            for trains in (True, False):
                rates.setdefault((linked, trains), []).append(rate(seconds, trains, linked))
    result: dict[str, object] = {"segment_bytes": SEGMENT_BYTES, "repeats": repeats}
    for linked, name in ((False, "socket"), (True, "link")):
        with_trains = statistics.median(rates[linked, True])
        plain = statistics.median(rates[linked, False])
        result[name] = {
            "trains_per_s": round(with_trains),
            "plain_per_s": round(plain),
            "ratio": round(with_trains / plain, 2),
        }
    return result


def main() -> None:
    """Reads the command line and prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="length of each short run")
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    print(json.dumps(run(arguments.seconds, arguments.repeats)))


if __name__ == "__main__":
    main()
