"""A scenario as it unfolds: a world, the commands carried out in it, and what is shown of the trace."""

from collections.abc import Callable
from typing import Final

from hopring.sim.path import Quality
from hopring.sim.scenario.columns import align
from hopring.sim.scenario.daemons import Daemons
from hopring.sim.scenario.mischief import Mischief
from hopring.sim.scenario.overlay_stage import OverlayStage
from hopring.sim.scenario.show import KINDS, Line, Names, line_of
from hopring.sim.scenario.stage import Stage
from hopring.sim.scenario.summary import summary
from hopring.sim.scenario.values import BadValue, duration_us, exactly
from hopring.sim.world import World

DELAY_US_DEFAULT: Final = 1_000


class Story:
    """Finds the method `do_NAME` of a command here, on the stage, or among the mischief."""

    def __init__(self, seed: int) -> None:
        self.world = World(seed, Quality(delay_us=DELAY_US_DEFAULT))
        self._overlay = OverlayStage(self.world)
        self._tellers: tuple[object, ...] = (self, Stage(self.world), self._overlay, Mischief(self.world))
        self._daemons: Daemons | None = None
        self._shown = 0  # Events of the trace that were shown or passed over.
        self._summed = 0
        self._hidden: set[str] = set()
        self._summary: list[str] = []

    def do(self, line: str) -> None:
        """Carries out one command."""
        name, *words = line.split()
        for teller in self._tellers:
            command: Callable[[list[str]], None] | None = getattr(teller, f"do_{name}", None)
            if command is not None:
                command(words)
                return
        raise BadValue(f"no command {name!r}; there are {', '.join(self._commands())}")

    def _commands(self) -> list[str]:
        attributes = [name for teller in self._tellers for name in dir(teller)]
        return sorted(name.removeprefix("do_") for name in attributes if name.startswith("do_"))

    def do_daemons(self, words: list[str]) -> None:
        """`daemons SITE=COUNT ... [KEY=VALUE ...]`: whole daemons, whose commands come before all others."""
        if self._daemons is not None:
            raise BadValue("a story has one cluster of daemons")
        self._daemons = Daemons(self.world, words)
        self._tellers = (self._daemons, *self._tellers)

    def happened(self) -> list[str]:
        """What has happened since this was last asked, to the end of the present moment."""
        if self._daemons is not None:
            return self._daemons.happened()
        self.world.run_for(0)
        names = Names({number: host for host, number in self.world.numbers.items()}, self._overlay.site_names)
        lines = [line_of(event, names) for event in self.world.trace[self._shown :]]
        self._shown = len(self.world.trace)
        shown = align([line for line in lines if line is not None and not self._hides(line)])
        counts, self._summary = self._summary, []
        return shown + counts

    def _hides(self, line: Line) -> bool:
        """Whether a line says nothing but what is hidden; losses are always told."""
        return bool(line.kinds) and line.kinds <= self._hidden and not line.fate

    def do_run(self, words: list[str]) -> None:
        """`run TIME [quiet]`."""
        if not words or words[1:] not in ([], ["quiet"]):
            raise BadValue("run needs a time, and perhaps quiet")
        self.world.run_for(duration_us(words[0]))
        if words[1:]:
            self._shown = len(self.world.trace)

    def do_hide(self, words: list[str]) -> None:
        """`hide KIND ...`: sendings of nothing but these kinds are shown only if they are lost."""
        self._hidden |= _kinds(words)

    def do_show(self, words: list[str]) -> None:
        """`show KIND ...` undoes `hide`."""
        self._hidden -= _kinds(words)

    def do_summary(self, words: list[str]) -> None:
        """`summary` counts what has happened since the last one."""
        exactly(words, "")
        self.world.run_for(0)
        self._summary = summary(self.world.trace[self._summed :])
        self._summed = len(self.world.trace)


def _kinds(words: list[str]) -> set[str]:
    kinds = {word.upper() for word in words}
    if not kinds or not kinds <= KINDS:
        raise BadValue(f"name kinds: {', '.join(sorted(KINDS))}")
    return kinds
