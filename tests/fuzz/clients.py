"""Fuzzed clients of the native protocol: valid frames and damaged ones.

python -m tests.fuzz.clients [--frames N] [--socket-frames N] [--seed S]
"""

from collections.abc import Iterator
from random import Random
from typing import ClassVar, Final

from tests.fuzz.harness import ClientFuzzer, FuzzedClient, flip_bits, main

from hopring.ids import DaemonId, GroupName
from hopring.services import Service
from hopring.session.frames import FRAME_HEAD_BYTES, PREAMBLE, FrameKind, encode_frame
from hopring.session.options import SessionOptions, SlowPolicy
from hopring.session.protocol import (
    Credit,
    HelloRequest,
    JoinRequest,
    LeaveRequest,
    QuitRequest,
    encode_control,
)
from hopring.wire.bundle import BundleKey, encode_bundle

GROUPS: Final = ("crowd", "g", "h", "#good#eu1", "#x#y", "", "a\0b", "x" * 129)


def valid_frame(dice: Random, session: int) -> bytes:
    """A frame that a client may send."""
    match dice.randrange(8):
        case 0:
            return encode_control(JoinRequest(dice.choice(GROUPS)))
        case 1:
            return encode_control(LeaveRequest(dice.choice(GROUPS)))
        case 2:
            return encode_control(Credit(0 if dice.random() < 0.95 else dice.choice((1, 200, 2**62))))
        case 3 if dice.random() < 0.1:
            return encode_control(QuitRequest())
        case 4 if dice.random() < 0.1:
            return encode_control(HelloRequest("eve", 1 << 16))
        case _:
            key = BundleKey(
                DaemonId(0), session, dice.choice(list(Service)), (GroupName(dice.choice(GROUPS[:5])),)
            )
            bodies = [dice.randbytes(dice.randrange(40)) for _ in range(dice.randrange(1, 4))]
            return encode_frame(
                FrameKind.SEND, encode_bundle(key, bodies, [7] * len(bodies), [0] * len(bodies))
            )


def damaged(dice: Random, frame: bytes) -> bytes:
    """The frame with bits, lengths, types or bodies changed."""
    data = bytearray(frame)
    match dice.randrange(7):
        case 0:
            flip_bits(dice, data)
        case 1:
            del data[dice.randrange(len(data)) :]
        case 2:
            data[:4] = dice.choice((0, 1, 4096, 4097, 2**31, 2**32 - 1, len(data))).to_bytes(4, "little")
        case 3:
            data[4] = dice.randrange(256)
        case 4:
            body = dice.randbytes(dice.randrange(60))
            data = bytearray(encode_frame(dice.choice(list(FrameKind)), body))
        case 5:
            data = bytearray(dice.randbytes(dice.randrange(1, 100)))
        case _:
            at = dice.randrange(FRAME_HEAD_BYTES, len(data) + 1)
            data[at:at] = dice.randbytes(dice.randrange(1, 9))
    return bytes(data)


def handshake(dice: Random, name: str) -> bytes:
    """Preamble and HELLO of a client, valid most of the time."""
    policies: tuple[SlowPolicy, ...] = ("kick", "drop", "block", "spill")
    membership, policy, priority = dice.random() < 0.5, dice.choice(policies), dice.random() < 0.2
    hello = encode_control(HelloRequest(name, 1 << 14, membership, policy, priority))
    if dice.random() < 0.05:
        hello = damaged(dice, hello)
    return (PREAMBLE if dice.random() < 0.98 else dice.randbytes(8)) + hello


class NativeFuzzer(ClientFuzzer):
    """Clients of the native protocol, with small limits at the server."""

    spread: ClassVar = False
    options: ClassVar = SessionOptions(
        backlog_bytes_max=200_000,
        backlogs_bytes_max=1_000_000,
        spill_memory_bytes=50_000,
        spill_bytes_max=1_000_000,
    )
    damage_shares: ClassVar = (0.02, 0.3, 1.0)
    fetch_share: ClassVar = 0.3

    def frames(self, dice: Random, client: FuzzedClient, damage: float) -> Iterator[bytes]:
        if not client.welcome:
            yield handshake(dice, client.name)
        for _ in range(dice.randrange(1, 100)):
            frame = valid_frame(dice, client.session)
            yield damaged(dice, frame) if dice.random() < damage else frame


if __name__ == "__main__":
    main(NativeFuzzer(), "tests.fuzz.clients")
