"""Valid values of every format, drawn from a seeded generator; sequences are often at the edges."""

from random import Random
from typing import Final

from hopring.ids import DaemonId, Generation, GroupName, Incarnation, SiteId, SiteMask
from hopring.services import Service
from hopring.wire.bundle import BundleKey, encode_bundle
from hopring.wire.control import Control, Update
from hopring.wire.data import SEGMENTS_MAX, Data, Missing, Segment, cut
from hopring.wire.header import Family, Header, encode_header
from hopring.wire.hop import Ack, Nack
from hopring.wire.ring import Held, Hurry, Token
from hopring.wire.routed import Meta, Routed
from hopring.wire.stream import encode_greeting, encode_packet
from hopring.wire.train import Frame, MembershipFrame, encode
from hopring.wire.unreliable import Loose, Unreliable, encode_unreliable

CLUSTER: Final = 0x5EED_CAFE
EDGES: Final = [
    *(0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF),
    *(2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1),
]


def a_seq(rng: Random) -> int:
    return rng.choice([rng.getrandbits(8), rng.getrandbits(64), *EDGES])


def a_header(rng: Random, *families: Family) -> Header:
    return Header(
        rng.choice(families or tuple(Family)),
        CLUSTER,
        DaemonId(rng.getrandbits(16)),
        Incarnation(rng.getrandbits(64)),
        Generation(rng.getrandbits(64)),
    )


def a_missing_list(rng: Random, most: int) -> tuple[Missing, ...]:
    return tuple(
        Missing(a_seq(rng), 1, rng.getrandbits(SEGMENTS_MAX))
        if rng.random() < 0.5
        else Missing(a_seq(rng), 1 + rng.getrandbits(15))
        for _ in range(rng.randint(1, most))
    )


def a_data(rng: Random) -> Data | Segment:
    segment = rng.choice(cut(a_seq(rng), rng.randbytes(rng.randrange(200)), rng.randint(5, 200)))
    return segment if segment.count > 1 else Data(segment.seq, segment.chunk)


def an_ack(rng: Random) -> Ack:
    aru, top = sorted((a_seq(rng), a_seq(rng)))
    return Ack(aru, top, a_seq(rng), rng.getrandbits(32), rng.getrandbits(32), rng.getrandbits(32))


def a_token(rng: Random) -> Token:
    link_aru, link_seq = sorted((a_seq(rng), a_seq(rng)))
    return Token(
        number=a_seq(rng),
        link_seq=link_seq,
        link_aru=link_aru,
        link_aru_modifier=DaemonId(rng.getrandbits(16)),
        flow_control=rng.getrandbits(32),
        site_seq=a_seq(rng),
        site_lts=a_seq(rng),
        site_aru=a_seq(rng),
        site_aru_modifier=DaemonId(rng.getrandbits(16)),
        missing=a_missing_list(rng, 3),
        quiet=rng.getrandbits(16),
    )


def a_meta(rng: Random) -> Meta:
    mask = SiteMask(rng.getrandbits(64))
    return Meta(SiteId(rng.randrange(64)), a_seq(rng), a_seq(rng), mask, a_seq(rng))


def a_routed(rng: Random) -> Routed:
    meta = a_meta(rng)
    count = rng.choice([1, rng.randint(1, 16), 0xFFFF])
    chunk = rng.randbytes(rng.randrange(60))
    index = rng.randrange(count)
    return Routed(meta.source, meta.seq, meta.lts, meta.mask, index, count, chunk, meta.prev)


def an_update(rng: Random) -> Update:
    return Update(SiteId(rng.randrange(64)), a_seq(rng), a_seq(rng), a_seq(rng))


def a_control(rng: Random) -> Control:
    count = rng.choice([1, rng.randint(1, 16), 0xFFFF])
    return Control(
        SiteId(rng.randrange(64)),
        DaemonId(rng.getrandbits(16)),
        rng.getrandbits(32),
        rng.randrange(count),
        count,
        rng.randbytes(rng.randrange(60)),
    )


def an_unreliable(rng: Random) -> Unreliable:
    count = rng.choice([1, rng.randint(1, 16), 0xFFFF])
    return Unreliable(
        SiteId(rng.randrange(64)),
        DaemonId(rng.randrange(4096)),
        a_seq(rng) or 1,
        SiteMask(rng.getrandbits(64)),
        rng.randrange(count),
        count,
        rng.randbytes(rng.randint(1, 60)),
    )


def a_loose(rng: Random) -> Loose:
    return Loose(b"".join([encode_unreliable(an_unreliable(rng)) for _ in range(rng.randint(1, 3))]))


def a_run(rng: Random) -> BundleKey:
    names = ["orders", "a", "grüße", "#sally#york", "x" * 128]
    return BundleKey(
        DaemonId(rng.randrange(4096)),
        rng.getrandbits(32),
        rng.choice(list(Service)),
        tuple(GroupName(name) for name in rng.sample(names, rng.randint(1, 4))),
        rng.random() < 0.5,
        rng.randrange(8),
        enveloped=rng.random() < 0.2,
    )


def a_bundle(rng: Random) -> bytes:
    bodies = [rng.randbytes(rng.choice([0, 1, 30])) for _ in range(rng.randint(1, 8))]
    types = [rng.getrandbits(16) for _ in bodies]
    hints = [rng.getrandbits(8) for _ in bodies]
    return encode_bundle(a_run(rng), bodies, types, hints)


def a_stream(rng: Random) -> bytes:
    packets = [rng.randbytes(rng.choice([0, 1, 40])) for _ in range(rng.randrange(5))]
    return encode_greeting(a_header(rng, Family.TCP)) + b"".join(map(encode_packet, packets))


def some_frames(rng: Random) -> list[Frame]:
    frames: list[Frame] = [a_data(rng), an_ack(rng), Nack(a_missing_list(rng, 3)), a_token(rng), Hurry()]
    return rng.sample(
        [*frames, Held(a_seq(rng)), MembershipFrame(rng.randbytes(20)), a_loose(rng)], rng.randint(1, 5)
    )


def a_datagram(rng: Random) -> bytes:
    head = encode_header(a_header(rng, Family.HOP, Family.RING))
    return encode(head, some_frames(rng), 65_000)[0].buffer


def a_train(rng: Random, segment_bytes: int) -> bytes:
    """A receive buffer: one train as it was sent, with or without other frames after it."""
    head = encode_header(a_header(rng, Family.HOP, Family.RING))
    payload = rng.randbytes(rng.randint(1, 10 * (segment_bytes - 44)))
    frames: list[Frame] = [Data(a_seq(rng), payload)]
    if rng.random() < 0.5:
        frames.append(an_ack(rng))
    return encode(head, frames, segment_bytes)[0].buffer
