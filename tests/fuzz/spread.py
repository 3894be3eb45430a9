"""Fuzzed Spread clients: valid handshakes and frames, and damaged ones.

python -m tests.fuzz.spread [--frames N] [--socket-frames N] [--seed S]
"""

from collections.abc import Iterator
from random import Random
from struct import pack, pack_into
from typing import ClassVar, Final

from tests.fuzz.harness import ClientFuzzer, FuzzedClient, flip_bits, main

from hopring.session.options import SessionOptions

GROUPS: Final = (
    *(b"crowd", b"g", b"h", b"#good#eu1", b"#x#y", b"##", b"", b"x" * 31, b"a b"),
    *("grüße".encode(), b"\xe4\xff", b"x" * 32),
)
BITS: Final = (0x1, 0x2, 0x4, 0x8, 0x10, 0x20, 0x50, 0x40000010, 0x00800001, 0x10000, 0x20000)
VERSIONS: Final = ((3, 1), (3, 14), (3, 15, 0), (3, 16, 0), (4, 4, 0), (5, 0, 1), (255, 255, 255))
MARKER: Final = 0x80000080


def valid_frame(dice: Random, name: str) -> bytes:
    """A frame that a client may send, in either byte order."""
    order = dice.choice("<>")
    marker = MARKER if order == "<" else 0
    service_type = dice.choice(BITS) if dice.random() < 0.99 else 0x40000
    request = bool(service_type & 0x70000)
    groups = [dice.choice(GROUPS) for _ in range(1 if request else dice.randrange(4))]
    body = b"" if request else dice.randbytes(dice.choice((0, 1, 40, 1000)))
    head = pack(
        f"{order}I32sIII",
        service_type | marker,
        name.encode(),
        len(groups),
        marker | dice.randrange(1 << 16) << 8,
        len(body),
    )
    return head + b"".join([one.ljust(32, b"\0") for one in groups]) + body


def damaged(dice: Random, frame: bytes) -> bytes:
    """The frame with bits, header fields, names or lengths changed."""
    data = bytearray(frame or b"\0")
    match dice.randrange(7):
        case 0:
            flip_bits(dice, data)
        case 1:
            del data[dice.randrange(len(data)) :]
        case 2 if len(data) >= 48:  # Type, groups, hint or size.
            value = dice.choice((0, 1, 101, 143_921, 2**31, 2**32 - 1, dice.getrandbits(32)))
            pack_into(dice.choice("<>") + "I", data, dice.choice((0, 36, 40, 44)), value)
        case 3 if len(data) >= 48:
            data[4:36] = dice.choice((b"#good#eu1".ljust(32, b"\0"), b"x" * 32, bytes(32), dice.randbytes(32)))
        case 4:
            data = bytearray(dice.randbytes(dice.randrange(1, 200)))
        case 5:
            at = dice.randrange(len(data) + 1)
            data[at:at] = dice.randbytes(dice.randrange(1, 9))
        case _ if len(data) > 48:
            data[48:80] = b"\xff" * len(data[48:80])
        case _:
            data *= 2
    return bytes(data)


def handshake(dice: Random, user: str) -> bytes:
    """Everything that a client sends before its frames, valid most of the time."""
    version = dice.choice(VERSIONS)
    sent = bytes([*version, dice.choice((0, 1, 0x10, 0x11)), len(user)]) + user.encode()
    if version >= (3, 16, 0):
        sent += b"NULL".ljust(90, b"\0")
    return damaged(dice, sent) if dice.random() < 0.1 else sent


class SpreadFuzzer(ClientFuzzer):
    """Clients of Spread, with small limits at the server."""

    spread: ClassVar = True
    options: ClassVar = SessionOptions(
        backlog_bytes_max=200_000, backlogs_bytes_max=1_000_000, window_bytes=20_000, spread_messages_max=20
    )
    damage_shares: ClassVar = (0.01, 0.3, 1.0)
    fetch_share: ClassVar = 0.5

    def frames(self, dice: Random, client: FuzzedClient, damage: float) -> Iterator[bytes]:
        frames = [valid_frame(dice, f"#{client.name}#eu1") for _ in range(dice.randrange(1, 100))]
        for one in [handshake(dice, client.name), *frames]:
            yield damaged(dice, one) if dice.random() < damage else one


if __name__ == "__main__":
    main(SpreadFuzzer(), "tests.fuzz.spread")
