"""Suspicions: links and daemons that failed repeatedly, and until when they are left out of views.

A link between sites may carry small packets and lose large ones, or fail as soon as it is used; two daemons of
a site may not hear each other although both hear the rest. Each new view would include them and break again.
After the second failure in a row, the link, or the higher of the two daemons, is left out for `back_off_us`,
then for twice as long, up to `back_off_us_max`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from hopring.ids import Process
from hopring.routing.trees import Pair

Blamed = TypeVar("Blamed", Pair, Process)


@dataclass(slots=True)
class Suspicion:
    """The failures of one link or process."""

    count: int
    last_us: int
    until_us: int = 0


@dataclass(slots=True)
class Suspicions:
    """All suspicions of one daemon; they outlive attempts and views."""

    back_off_us: int
    back_off_us_max: int
    links: dict[Pair, Suspicion] = field(default_factory=dict)
    processes: dict[Process, Suspicion] = field(default_factory=dict)  # Of the site; may not hear this daemon.
    excluded: dict[Process, Suspicion] = field(default_factory=dict)  # Left out, or were lately.
    cut_at_us: dict[Pair, int] = field(default_factory=dict)  # When a link was last left out.

    def blame(self, link: Pair, now_us: int) -> None:
        """This link made a network fail soon after its start."""
        self._blame(self.links, link, now_us)
        if self.links[link].until_us:
            self.cut_at_us[link] = now_us

    def accuse(self, process: Process, now_us: int) -> None:
        """A ring failed soon after its start because this process was not heard."""
        self._blame(self.processes, process, now_us)

    def suspects(self, now_us: int) -> tuple[Process, ...]:
        """Processes of the site that seem not to hear this daemon."""
        return tuple(sorted(one for one, known in self.processes.items() if now_us < known.until_us))

    def told(self, accuser: Process, suspects: Iterable[Process], now_us: int) -> None:
        """A daemon names suspects: of each pair that does not hear each other, the higher one is left out."""
        self.leave_out([max(accuser, suspect) for suspect in suspects], now_us)

    def leave_out(self, processes: Iterable[Process], now_us: int) -> None:
        """Leaves these out from now on, each time for longer; no effect on those already left out."""
        _forget(self.excluded, now_us - 2 * self.back_off_us_max)
        for one in processes:
            known = self.excluded.get(one)
            if known is None:
                self.excluded[one] = Suspicion(1, now_us, now_us + self.back_off_us)
            elif now_us >= known.until_us:
                known.count += 1
                known.last_us = now_us
                known.until_us = now_us + min(self.back_off_us << (known.count - 1), self.back_off_us_max)

    def left_out(self, now_us: int) -> frozenset[Process]:
        """The processes to leave out now."""
        return frozenset(one for one, known in self.excluded.items() if now_us < known.until_us)

    def _blame(self, among: dict[Blamed, Suspicion], one: Blamed, now_us: int) -> None:
        _forget(among, now_us - self.back_off_us_max)
        known = among.get(one)
        if known is None:
            among[one] = Suspicion(1, now_us)
            return
        known.count += 1
        known.last_us = now_us
        known.until_us = now_us + min(self.back_off_us << (known.count - 2), self.back_off_us_max)

    def remembers(self, link: Pair, for_us: int, now_us: int) -> bool:
        """Whether this link was left out within this time."""
        return link in self.cut_at_us and now_us - self.cut_at_us[link] < for_us

    def cut(self, now_us: int) -> tuple[Pair, ...]:
        """The links to leave out now."""
        return tuple(sorted(link for link, known in self.links.items() if now_us < known.until_us))


def _forget(among: dict[Blamed, Suspicion], before_us: int) -> None:
    """Deletes old suspicions: otherwise every incarnation of a suspected daemon would stay."""
    for one in [one for one, known in among.items() if max(known.last_us, known.until_us) < before_us]:
        del among[one]
