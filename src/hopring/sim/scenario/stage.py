"""The commands that build links and use them."""

import re
from typing import Final

from hopring.links.hop import HopOptions
from hopring.links.ring_options import RingOptions
from hopring.links.tcp import TcpOptions
from hopring.sim.ends import End
from hopring.sim.scenario.values import BadValue, settings
from hopring.sim.world import World

_SIZE: Final = re.compile(r"(?:(\d+)x)?(\d+)B")
_LIMIT: Final = re.compile(r"max([+-]\d+)?")


class Stage:
    """Commands on one world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._filled = 0

    def do_link(self, words: list[str]) -> None:
        """`link A B [protocol=hop|tcp] [KEY=VALUE ...]`; again, it is a new generation of the link."""
        if len(words) < 2:
            raise BadValue("a link needs two hosts")
        one, other, *options = words
        protocol = options.pop(0) if options and options[0].startswith("protocol=") else "protocol=hop"
        match protocol.removeprefix("protocol="):
            case "hop":
                self._world.hop(one, other, HopOptions(**settings(options, HopOptions)))
            case "tcp":
                self._world.tcp(one, other, TcpOptions(**settings(options, TcpOptions)))
            case unknown:
                raise BadValue(f"no protocol {unknown!r}; there are hop and tcp")

    def do_ring(self, words: list[str]) -> None:
        """`ring A B C ... [KEY=VALUE ...]`; again, it is a new generation of the ring."""
        hosts = [word for word in words if "=" not in word]
        options = [word for word in words if "=" in word]
        if not hosts:
            raise BadValue("a ring needs hosts")
        self._world.ring(hosts, RingOptions(**settings(options, RingOptions)))

    def do_submit(self, words: list[str]) -> None:
        """`submit HOST OBJECT ...`: words, sizes as 500B or 20x500B, and max, max-1, max+1."""
        if len(words) < 2:
            raise BadValue("submit needs a host and what to submit")
        end = self._end(words[0])
        for word in words[1:]:
            for payload in self._payloads(end, word):
                end.submit(payload)

    def _end(self, where: str) -> End:
        """The end at HOST, or at HOST@LINK where the host has several."""
        host, _at, link = where.partition("@")
        ends = [end for (name, at), end in self._world.ends.items() if at == host and link in ("", name)]
        if len(ends) != 1:
            raise BadValue(f"{where!r} is the end of {len(ends)} links; name one as HOST@LINK")
        return ends[0]

    def _payloads(self, end: End, word: str) -> list[bytes]:
        size, limit = _SIZE.fullmatch(word), _LIMIT.fullmatch(word)
        if limit is not None:
            return [self._fill(end.payload_bytes_max + int(limit.group(1) or 0))]
        if size is None:
            return [word.encode()]
        return [self._fill(int(size.group(2))) for _copy in range(int(size.group(1) or 1))]

    def _fill(self, size: int) -> bytes:
        """So many bytes, different from all others of the story where there is room for it."""
        self._filled += 1
        pattern = b"%08d" % self._filled
        return (pattern * (size // len(pattern) + 1))[:size]
