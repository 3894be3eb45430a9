"""Scenario commands for faults: path qualities, faults aimed at single datagrams, cuts, pauses, crashes."""

import re
from collections.abc import Callable
from typing import Any, Final

from hopring.sim.host import HostState
from hopring.sim.network import Delay, Duplicate, Effect, Flight, Lose, TargetedFault
from hopring.sim.path import Quality
from hopring.sim.tcp.stream import SimTcpSegment
from hopring.testing.link_world import LinkWorld
from hopring.testing.scenario.render import INNER_KINDS, KINDS, frames_of, inside, kind
from hopring.testing.scenario.values import BadValue, duration_us, exactly, number, probability, settings
from hopring.wire.data import Data, Segment
from hopring.wire.train import Frame


class FaultCommands:
    """Scenario commands for faults; WHERE is A->B for one direction, or A B for both."""

    def __init__(self, world: LinkWorld) -> None:
        self._world = world
        self._network = world.network

    def do_path(self, words: list[str]) -> None:
        """`path WHERE KEY=VALUE ...`, as in `path a->b delay=30ms rate=1.5Mbit queue=64KB`."""
        pairs, rest = _where(words)
        self._shape(pairs, settings(rest, Quality))

    def do_mtu(self, words: list[str]) -> None:
        """`mtu WHERE BYTES`: larger IP packets vanish; 0 ends it."""
        pairs, rest = _where(words)
        (size,) = exactly(rest, "BYTES")
        self._shape(pairs, {"mtu_bytes": number(size)})

    def do_loss(self, words: list[str]) -> None:
        """`loss [WHERE] 10%`: random loss, there or everywhere."""
        self._weather("loss", words)

    def do_reorder(self, words: list[str]) -> None:
        """`reorder [WHERE] 5%`: random reordering, there or everywhere."""
        self._weather("reorder", words)

    def do_duplicate(self, words: list[str]) -> None:
        """`duplicate [WHERE] 5%`, or `duplicate [A->B] KIND [TURNS] [seq=S]`."""
        if words and words[-1].endswith("%"):
            self._weather("duplicate", words)
        else:
            self._network.interfere(aimed(words, Duplicate()))

    def _weather(self, quality: str, words: list[str]) -> None:
        if not words:
            raise BadValue(f"{quality} needs a probability, as in {quality} 5%")
        change: dict[str, Any] = {quality: probability(words[-1])}
        if len(words) == 1:
            self._network.shape_all(**change)
        else:
            self._shape(_where(words[:-1])[0], change)

    def _shape(self, pairs: list[tuple[str, str]], changes: dict[str, Any]) -> None:
        for one, other in pairs:
            self._network.shape(one, other, **changes)

    def do_lose(self, words: list[str]) -> None:
        """`lose [A->B] KIND [TURNS] [seq=S]`: the first such datagram, or the turns 2 or 2..4."""
        self._network.interfere(aimed(words, Lose()))

    def do_delay(self, words: list[str]) -> None:
        """`delay TIME [A->B] KIND [TURNS] [seq=S]`."""
        if not words:
            raise BadValue("delay needs a time and what to delay")
        self._network.interfere(aimed(words[1:], Delay(duration_us(words[0]))))

    def do_cut(self, words: list[str]) -> None:
        """`cut WHERE`: drops all datagrams there."""
        pairs, rest = _where(words)
        exactly(rest, "")
        for one, other in pairs:
            self._network.cut(one, other)

    def do_partition(self, words: list[str]) -> None:
        """`partition A,B C,D`: hosts of different words hear nothing of each other."""
        self._network.partition(*(word.split(",") for word in words))

    def do_heal(self, words: list[str]) -> None:
        """`heal` ends all cuts and partitions."""
        exactly(words, "")
        self._network.heal()

    def do_pause(self, words: list[str]) -> None:
        """`pause HOST TIME`: stops it for this time."""
        host, span = exactly(words, "HOST TIME")
        self._check(host, HostState.RUNNING)
        self._world.pause(host, duration_us(span))

    def do_crash(self, words: list[str]) -> None:
        """`crash HOST`: takes it down with its memory."""
        (host,) = exactly(words, "HOST")
        self._check(host, HostState.RUNNING, HostState.PAUSED)
        self._world.crash(host)

    def do_restart(self, words: list[str]) -> None:
        """`restart HOST`: it has no links until `link` or `ring` makes new ones."""
        (host,) = exactly(words, "HOST")
        self._check(host, HostState.DOWN)
        self._world.restart(host)

    def _check(self, host: str, *states: HostState) -> None:
        if host not in self._network.hosts:
            raise BadValue(f"there is no host {host!r}")
        if self._network.host(host).state not in states:
            raise BadValue(f"host {host} is {self._network.host(host).state.value}")


def _where(words: list[str]) -> tuple[list[tuple[str, str]], list[str]]:
    """The directions that the first words name, and the words behind them."""
    if words and "->" in words[0]:
        one, _arrow, other = words[0].partition("->")
        return [(one, other)], words[1:]
    if len(words) < 2:
        raise BadValue("name the paths as A->B, or as A B for both directions")
    return [(words[0], words[1]), (words[1], words[0])], words[2:]


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


def _is(frame: Frame | SimTcpSegment, wanted: str, seq: int | None) -> bool:
    if wanted in INNER_KINDS:
        return any(name == wanted and seq in (None, its) for name, its in inside(frame))
    if kind(frame) != wanted:
        return False
    return seq is None or (isinstance(frame, Data | Segment) and frame.seq == seq)
