"""Which datagrams an aimed fault is meant for: `a->b DATA 2`, `token 3`, `NACK 1..3`, `BUNDLE seq=7`."""

import re
from collections.abc import Callable
from typing import Final

from hopring.sim.faults import Effect, Flight, TargetedFault
from hopring.sim.scenario.insight import INNER_KINDS, inside
from hopring.sim.scenario.show import KINDS, frames_of, kind
from hopring.sim.scenario.values import BadValue
from hopring.sim.tcp.segment import TcpSegment
from hopring.wire.data import Data, Segment
from hopring.wire.train import Frame

_TURNS: Final = re.compile(r"(\d+)(?:\.\.(\d+))?")


def aimed(words: list[str], effect: Effect) -> TargetedFault:
    """A fault for the first such datagram, or for those of the given turns, counted from now."""
    rest = list(words)
    source, target = _direction(rest)
    if not rest or rest[0].upper() not in KINDS | INNER_KINDS:
        raise BadValue(f"name a kind: {', '.join(sorted(KINDS | INNER_KINDS))}")
    wanted = rest.pop(0).upper()
    seq = _seq(rest)
    first, last = _turns(rest)
    return TargetedFault(_matcher(source, target, wanted, seq), effect, first, last)


def _direction(rest: list[str]) -> tuple[str, str]:
    if rest and "->" in rest[0]:
        source, _arrow, target = rest.pop(0).partition("->")
        return source, target
    return "", ""


def _seq(rest: list[str]) -> int | None:
    named = [word for word in rest if word.startswith("seq=")]
    for word in named:
        rest.remove(word)
    return int(named[0].removeprefix("seq=")) if named else None


def _turns(rest: list[str]) -> tuple[int, int]:
    if not rest:
        return 1, 1
    match = _TURNS.fullmatch(rest[0])
    if match is None or len(rest) > 1:
        raise BadValue(f"{' '.join(rest)!r} is no turn; write 2 for the second, or 2..4")
    first = int(match.group(1))
    return first, int(match.group(2) or first)


def _matcher(source: str, target: str, wanted: str, seq: int | None) -> Callable[[Flight], bool]:
    def matches(flight: Flight) -> bool:
        if source and (flight.source.host, flight.target.host) != (source, target):
            return False
        return any(_is(frame, wanted, seq) for frame in frames_of(flight.source, flight.datagram))

    return matches


def _is(frame: Frame | TcpSegment, wanted: str, seq: int | None) -> bool:
    if wanted in INNER_KINDS:
        return any(name == wanted and seq in (None, its) for name, its in inside(frame))
    if kind(frame) != wanted:
        return False
    return seq is None or (isinstance(frame, Data | Segment) and frame.seq == seq)
