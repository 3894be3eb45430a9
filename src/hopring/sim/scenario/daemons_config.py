"""The command that names a cluster: `daemons eu=3 us=2 delay=200us wide=40ms`, and what may be tuned in it.

All links are Hop; `tcp=eu-us,us-ap` makes these TCP, `tcp=all` every one.
"""

from dataclasses import dataclass, fields, replace
from typing import Any, Final

from hopring.config.local import local_config
from hopring.config.model import Config, Link, LinkProtocol, LinkTuning
from hopring.links.ring_options import RingOptions
from hopring.membership.options import MembershipOptions
from hopring.sim.scenario.values import BadValue, duration_us, number, settings
from hopring.stack_events import StackOptions

DELAY_US_DEFAULT: Final = 200
WIDE_US_DEFAULT: Final = 20_000
_TUNABLE: Final = (MembershipOptions, RingOptions, LinkTuning, StackOptions)


@dataclass(frozen=True, slots=True)
class Ground:
    """All that a cluster of a story is made of."""

    config: Config
    delay_us: int
    wide_us: int
    membership: MembershipOptions
    stack: StackOptions


def ground(words: list[str]) -> Ground:
    """The cluster of these words: sites with their number of daemons, delays, options of any layer."""
    delay_us, wide_us = DELAY_US_DEFAULT, WIDE_US_DEFAULT
    counts: dict[str, int] = {}
    tcp: list[str] = []
    tuned: dict[type[Any], dict[str, Any]] = {kind: {} for kind in _TUNABLE}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals:
            raise BadValue(f"{word!r} is not KEY=VALUE")
        if key == "delay":
            delay_us = duration_us(value)
        elif key == "wide":
            wide_us = duration_us(value)
        elif key == "tcp":
            tcp = value.split(",")
        elif (kind := _tunes(word)) is not None:
            tuned[kind].update(settings([word], kind))
        else:
            counts[key] = _count(word, value)
    if not counts:
        raise BadValue("daemons need sites, as in daemons eu=3 us=2")
    config = _linked(local_config(counts), wide_us, LinkTuning(**tuned[LinkTuning]), tcp)
    stack = replace(StackOptions(ring=RingOptions(**tuned[RingOptions])), **tuned[StackOptions])
    return Ground(config, delay_us, wide_us, MembershipOptions(**tuned[MembershipOptions]), stack)


def _tunes(word: str) -> type[Any] | None:
    """The first layer that has an option of that name."""
    for kind in _TUNABLE:
        try:
            settings([word], kind)
        except BadValue:
            continue
        return kind
    return None


def _count(word: str, value: str) -> int:
    count = number(value)
    if not isinstance(count, int) or count < 1:
        names = [field.name for kind in _TUNABLE for field in fields(kind)]
        raise BadValue(f"{word!r} is neither a site with its daemons nor one of {', '.join(names)}")
    return count


def _linked(config: Config, wide_us: int, tuning: LinkTuning, tcp: list[str]) -> Config:
    names = [site.name for site in config.sites]
    pairs = [(one, other) for at, one in enumerate(names) for other in names[at + 1 :]]
    streams = {"-".join(ends): ends for ends in pairs if tcp == ["all"] or "-".join(ends) in tcp}
    if tcp != ["all"] and len(streams) != len(tcp):
        raise BadValue(f"tcp={','.join(tcp)} names a pair that is not there; write tcp=eu-us, or tcp=all")
    hop_or_tcp = dict.fromkeys(streams.values(), LinkProtocol.TCP)
    links = [Link(ends, max(1, wide_us), hop_or_tcp.get(ends, LinkProtocol.HOP), tuning) for ends in pairs]
    return Config(config.cluster, config.sites, tuple(links))
