"""Time to seal and to open packets, beside their encoding and decoding in the clear.

    python -m hopring.bench.suite.seal

Prints one JSON object per line: the case, and microseconds of processor time for one call, the median of
several rounds. A packet of 64 B and one of 1,400 B are one datagram each; 62 KB are a train of 46 datagrams,
sealed once, as for the first sending of a packet. Nothing is sent.
"""

import json
import time
import timeit
from collections.abc import Callable
from random import Random
from statistics import median
from typing import Final

from hopring.errors import PeerError
from hopring.ids import DaemonId, Generation, Incarnation, Process
from hopring.sealing.keys import ClusterKey, KeyRing
from hopring.sealing.sealer import SealedCluster
from hopring.sealing.sealing import SECRET_BYTES, Opened, Sealing
from hopring.wire.data import SEGMENT_BYTES_DEFAULT, Data, packet_bytes_of
from hopring.wire.header import Family, Header, encode_header
from hopring.wire.train import Train, decode_train, decoded, encode

CLUSTER: Final = SealedCluster("bench", 7, 2)
ROUNDS: Final = 30
OPENED: Final = 200
"""Packets that are opened in a round: each can be opened once only."""

_HEAD_BYTES: Final = len(encode(b"", [Data(1, b"")], SEGMENT_BYTES_DEFAULT)[0].buffer)


class SealedPair:
    """A sender and a receiver that have met."""

    def __init__(self) -> None:
        ring = KeyRing([key := ClusterKey(b"k" * 32)], key.id)
        ends = [Process(DaemonId(at), Incarnation(2**60 + at)) for at in range(2)]
        self.sender, self.receiver = (Sealing(one, CLUSTER, ring, bytes(SECRET_BYTES)) for one in ends)
        header = Header(Family.HOP, CLUSTER.hash, *ends[0], Generation(1))
        self.head = encode_header(header)
        self._seq = 0
        # The first packet is answered by a challenge, the response to it makes the sender known.
        self.open(self.seal(b""))
        _answer(self.receiver, self.sender)
        _answer(self.sender, self.receiver)
        assert self.receiver.met == [ends[0]], "the receiver knows the sender"

    def seal(self, payload: bytes) -> Train:
        """Seals the next packet of the link."""
        self._seq += 1
        frames = (Data(self._seq, payload),)
        (train,) = self.sender.seal_frames(self.head, Family.HOP, frames, SEGMENT_BYTES_DEFAULT, DaemonId(1))
        return train

    def open(self, train: Train) -> list[Opened]:
        """Opens all datagrams of a train, as one read brings them."""
        return self.receiver.open(memoryview(train.buffer), train.segment_bytes, 1)


def _answer(one: Sealing, other: Sealing) -> None:
    replies, one.replies = one.replies, []
    for _, train in replies:
        other.open(memoryview(train.buffer), train.segment_bytes, 1)


def median_us(call: Callable[[], object]) -> float:
    """The median CPU time of one call, in microseconds."""
    timer = timeit.Timer(call, timer=time.process_time)
    return median(timer.repeat(ROUNDS, OPENED)) / OPENED * 1e6


def opening_us(pair: SealedPair, payload: bytes) -> float:
    """The median CPU time to open and decode a packet, in microseconds."""
    rounds = []
    for _ in range(ROUNDS):
        trains = [pair.seal(payload) for _ in range(OPENED)]
        begin = time.process_time()
        for train in trains:
            for clear in pair.open(train):
                assert not isinstance(clear, PeerError), clear
                decoded(clear, CLUSTER.hash)
        rounds.append((time.process_time() - begin) / OPENED * 1e6)
    return median(rounds)


def report(case: str, us: float) -> None:
    """Prints the time of one case."""
    print(json.dumps({"bench": "seal", "case": case, "us": round(us, 2)}), flush=True)


def measure(size: str, payload: bytes) -> None:
    """Prints the four cases of one size."""
    pair = SealedPair()
    frames = (Data(1, payload),)
    (train,) = encode(pair.head, frames, SEGMENT_BYTES_DEFAULT)
    buffer = memoryview(train.buffer)
    report(f"{size}, encode", median_us(lambda: encode(pair.head, frames, SEGMENT_BYTES_DEFAULT)))
    report(f"{size}, encode and seal", median_us(lambda: pair.seal(payload)))
    report(
        f"{size}, decode",
        median_us(lambda: decode_train(buffer, SEGMENT_BYTES_DEFAULT, CLUSTER.hash)),
    )
    report(f"{size}, open and decode", opening_us(pair, payload))


def main() -> None:
    """Prints the figures of all sizes."""
    pair_head_bytes = len(SealedPair().head)
    dice = Random(1)
    for size in (64, 1_400):
        measure(f"datagram of {size:,} B", dice.randbytes(size - pair_head_bytes - _HEAD_BYTES))
    measure("train of 62 KB", dice.randbytes(packet_bytes_of(SEGMENT_BYTES_DEFAULT)))


if __name__ == "__main__":
    main()
