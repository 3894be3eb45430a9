"""The commands that make trouble: weather on the paths, aimed faults, cuts, pauses and crashes."""

from typing import Any

from hopring.sim.faults import Delay, Duplicate, Lose
from hopring.sim.host import HostState
from hopring.sim.path import Quality
from hopring.sim.scenario.aim import aimed
from hopring.sim.scenario.values import BadValue, duration_us, exactly, number, probability, settings
from hopring.sim.world import World


class Mischief:
    """Commands on one world; WHERE is A->B for one direction, or A B for both."""

    def __init__(self, world: World) -> None:
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
        """`loss [WHERE] 10%`."""
        self._weather("loss", words)

    def do_reorder(self, words: list[str]) -> None:
        """`reorder [WHERE] 5%`."""
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
        """`cut WHERE`."""
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
        """`pause HOST TIME`."""
        host, span = exactly(words, "HOST TIME")
        self._check(host, HostState.RUNNING)
        self._world.pause(host, duration_us(span))

    def do_crash(self, words: list[str]) -> None:
        """`crash HOST`."""
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
