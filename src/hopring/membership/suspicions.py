"""Suspicions: links between sites that failed again and again, and for how long they are left out.

A link may carry small words and lose large packets, or die as soon as it is used: each new view would take it
up and break on it. After the second failure in a row it is left out for a while, then for twice as long.
"""

from dataclasses import dataclass, field

from hopring.routing.trees import Pair


@dataclass(slots=True)
class Suspicion:
    """One link's record."""

    count: int
    last_us: int
    until_us: int = 0


@dataclass(slots=True)
class Suspicions:
    """What a daemon remembers of its links; it survives all attempts."""

    back_off_us: int
    back_off_us_max: int
    links: dict[Pair, Suspicion] = field(default_factory=dict)

    def blame(self, link: Pair, now_us: int) -> None:
        """A network that had hardly begun failed on this link."""
        known = self.links.get(link)
        if known is None or now_us - known.last_us > self.back_off_us_max:
            self.links[link] = Suspicion(1, now_us)
            return
        known.count += 1
        known.last_us = now_us
        known.until_us = now_us + min(self.back_off_us << (known.count - 2), self.back_off_us_max)

    def cut(self, now_us: int) -> tuple[Pair, ...]:
        """The links to leave out now."""
        return tuple(sorted(link for link, known in self.links.items() if now_us < known.until_us))
