"""CPU time of encoding values to bytes and of decoding them.

    python -m hopring.bench.suite.wire

Prints one JSON object per line: the case, and microseconds of processor time for one call, the best of
several rounds, since noise only adds. Nothing is sent; the network and the links have benches of their own.
"""

import json
import time
import timeit
from collections.abc import Callable
from random import Random

from hopring.ids import DaemonId, Generation, GroupName, Incarnation
from hopring.services import Service
from hopring.wire.builder import BundleBuilder
from hopring.wire.bundle import BundleKey, decode_bundle, encode_bundle
from hopring.wire.data import SEGMENT_BYTES_DEFAULT, Data, packet_bytes_of
from hopring.wire.header import Family, Header, encode_header
from hopring.wire.hop import Ack
from hopring.wire.train import Frame, decode, decode_train, encode

CLUSTER = 7
ROUNDS = 50
ROUND_SECONDS = 0.01
HEAD = encode_header(Header(Family.HOP, CLUSTER, DaemonId(3), Incarnation(2**60), Generation(2**50)))
KEY = BundleKey(DaemonId(3), 17, Service.AGREED, (GroupName("orders"),))


def best_us(call: Callable[[], object]) -> float:
    """The best CPU time of one call, in microseconds."""
    timer = timeit.Timer(call, timer=time.process_time)
    number, seconds = timer.autorange()
    number = max(1, int(number * ROUND_SECONDS / seconds))
    return min(timer.repeat(ROUNDS, number)) / number * 1e6


def report(case: str, call: Callable[[], object]) -> None:
    """Measures one case and prints it."""
    print(json.dumps({"bench": "wire", "case": case, "us": round(best_us(call), 2)}), flush=True)


def trains() -> None:
    """The longest packet, as a train of 46 datagrams that arrives in one read."""
    payload = Random(1).randbytes(packet_bytes_of(SEGMENT_BYTES_DEFAULT))
    [train] = encode(HEAD, [Data(1, payload)], SEGMENT_BYTES_DEFAULT)
    buffer = memoryview(bytearray(train.buffer))
    torn = buffer[SEGMENT_BYTES_DEFAULT:]
    report("train of 62 KB, encode", lambda: encode(HEAD, [Data(1, payload)], SEGMENT_BYTES_DEFAULT))
    report("train of 62 KB, decode", lambda: decode_train(buffer, SEGMENT_BYTES_DEFAULT, CLUSTER))
    report(
        "train without its first segment, decode", lambda: decode_train(torn, SEGMENT_BYTES_DEFAULT, CLUSTER)
    )


def packets() -> None:
    """The data of one message and an acknowledgement in one datagram."""
    frames: tuple[Frame, ...] = (Data(1, Random(1).randbytes(1_000)), Ack(1, 2, 3, 4, 5, 6))
    datagram = encode(HEAD, frames, SEGMENT_BYTES_DEFAULT)[0].buffer
    report("DATA of 1 KB and ACK, encode", lambda: encode(HEAD, frames, SEGMENT_BYTES_DEFAULT))
    report("DATA of 1 KB and ACK, decode", lambda: decode(datagram, CLUSTER))


def bundles() -> None:
    """A full client buffer of small messages."""
    bodies = [Random(seed).randbytes(100) for seed in range(320)]
    types, hints = [1] * 320, [0] * 320
    encoded = encode_bundle(KEY, bodies, types, hints)
    bundle = decode_bundle(encoded)
    report("bundle of 320 x 100 B, append and finish", lambda: build(bodies))
    report("bundle of 320 x 100 B, encode", lambda: encode_bundle(KEY, bodies, types, hints))
    report("bundle of 320 x 100 B, decode", lambda: decode_bundle(encoded))
    report("bundle of 320 x 100 B, all bodies", bundle.messages)


def build(bodies: list[bytes]) -> bytes:
    """Builds a bundle message by message, as a client does."""
    builder = BundleBuilder(KEY)
    for body in bodies:
        builder.append(body, 1)
    return b"".join(builder.finish().parts)


def main() -> None:
    """Prints the figures of all cases."""
    trains()
    packets()
    bundles()


if __name__ == "__main__":
    main()
