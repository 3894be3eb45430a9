"""Rings and tokens for tests of the Ring protocol."""

from hopring.ids import NOBODY, DaemonId
from hopring.links.ring.events import Release, TransmitTo
from hopring.links.ring.options import RingOptions
from hopring.links.ring.ring import Output, Ring, open_ring
from hopring.wire.ring import Token

A, B, C, STRANGER = DaemonId(1), DaemonId(2), DaemonId(3), DaemonId(9)


NOTHING_NEW = Release(site_seq=0, site_lts=0, local_aru=0)


def make_ring(me: DaemonId = B, options: RingOptions | None = None, initial_seq: int = 0) -> Ring:
    return open_ring(me, (A, B, C), options or RingOptions(), initial_seq, now_us=0)


def token(number: int, link_seq: int = 0, link_aru: int = 0, **fields: object) -> Token:
    plain = Token(
        number=number,
        link_seq=link_seq,
        link_aru=link_aru,
        link_aru_modifier=NOBODY,
        flow_control=0,
        site_seq=0,
        site_lts=0,
        site_aru=0,
        site_aru_modifier=NOBODY,
    )
    return plain.replace(**fields)


def passed_token(outputs: list[Output]) -> Token:
    [frame] = [out.frames[0] for out in outputs if isinstance(out, TransmitTo)]
    assert isinstance(frame, Token)
    return frame
