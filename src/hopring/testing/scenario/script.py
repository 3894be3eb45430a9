"""Scenario files: blocks of commands, a line of dashes, and the events that followed.

    # A lost packet is asked for lazily.
    link a b
    lose a->b DATA 2

    submit a one two three
    ----
    0ms a->b  DATA 1 one

`replay` runs a file's commands and returns the file with the events that they cause; a scenario passes if that
is equal to the file.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from hopring.errors import HopError
from hopring.sim.path import Quality
from hopring.testing.link_world import LinkWorld
from hopring.testing.scenario.daemon_commands import DaemonCommands
from hopring.testing.scenario.network_commands import FaultCommands, LinkCommands, OverlayCommands
from hopring.testing.scenario.render import KINDS, ScenarioLine, WireNames, align, line_of, summary
from hopring.testing.scenario.values import BadValue, duration_us, exactly

DELAY_US_DEFAULT: Final = 1_000


class Scenario:
    """Runs commands: the method `do_NAME` of this class or of one of the command classes."""

    def __init__(self, seed: int) -> None:
        self.world = LinkWorld(seed, Quality(delay_us=DELAY_US_DEFAULT))
        self._overlay = OverlayCommands(self.world)
        self._commanders: tuple[object, ...] = (
            self,
            LinkCommands(self.world),
            self._overlay,
            FaultCommands(self.world),
        )
        self._daemons: DaemonCommands | None = None
        self._shown = 0  # Events of the trace that were rendered or skipped.
        self._summed = 0
        self._hidden: set[str] = set()
        self._summary: list[str] = []

    def do(self, line: str) -> None:
        """Runs one command of the scenario."""
        name, *words = line.split()
        for commander in self._commanders:
            command: Callable[[list[str]], None] | None = getattr(commander, f"do_{name}", None)
            if command is not None:
                command(words)
                return
        raise BadValue(f"no command {name!r}; there are {', '.join(self._commands())}")

    def _commands(self) -> list[str]:
        attributes = [name for commander in self._commanders for name in dir(commander)]
        return sorted(name.removeprefix("do_") for name in attributes if name.startswith("do_"))

    def do_daemons(self, words: list[str]) -> None:
        """`daemons SITE=COUNT ... [KEY=VALUE ...]`: whole daemons, whose commands come before all others."""
        if self._daemons is not None:
            raise BadValue("a scenario has one cluster of daemons")
        self._daemons = DaemonCommands(self.world, words)
        self._commanders = (self._daemons, *self._commanders)

    def happened(self) -> list[str]:
        """Renders the events since the last call, to the end of the present moment."""
        if self._daemons is not None:
            return self._daemons.happened()
        self.world.run_for(0)
        names = WireNames(
            {number: host for host, number in self.world.numbers.items()}, self._overlay.site_names
        )
        lines = [line_of(event, names) for event in self.world.trace[self._shown :]]
        self._shown = len(self.world.trace)
        shown = align([line for line in lines if line is not None and not self._hides(line)])
        counts, self._summary = self._summary, []
        return shown + counts

    def _hides(self, line: ScenarioLine) -> bool:
        """Whether a line has only hidden kinds; losses are always shown."""
        return bool(line.kinds) and line.kinds <= self._hidden and not line.fate

    def do_run(self, words: list[str]) -> None:
        """`run TIME [quiet]`: runs for this time, with `quiet` without showing events."""
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
        """`summary` counts the events since the last one."""
        exactly(words, "")
        self.world.run_for(0)
        self._summary = summary(self.world.trace[self._summed :])
        self._summed = len(self.world.trace)


def _kinds(words: list[str]) -> set[str]:
    kinds = {word.upper() for word in words}
    if not kinds or not kinds <= KINDS:
        raise BadValue(f"name kinds: {', '.join(sorted(KINDS))}")
    return kinds


DASHES: Final = "----"
SEED_DEFAULT: Final = 1


class ScriptError(HopError):
    """A command that cannot be run, with its file and line."""

    def __init__(self, name: str, line: int, problem: str) -> None:
        super().__init__(f"{name}:{line}: {problem}")
        self.name = name
        self.line = line
        self.problem = problem


@dataclass(frozen=True, slots=True)
class ScenarioBlock:
    """Comments and commands that stand together, from this line on."""

    line: int
    lines: tuple[str, ...]


def parse(text: str) -> list[ScenarioBlock]:
    """The blocks of a file, without their recorded events."""
    blocks: list[ScenarioBlock] = []
    current: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        if not line.strip():
            if current:
                blocks.append(ScenarioBlock(number - len(current), tuple(current)))
            current = []
        else:
            current.append(line.rstrip())
    return [_commands_only(block) for block in blocks]


def _commands_only(block: ScenarioBlock) -> ScenarioBlock:
    lines = block.lines
    return ScenarioBlock(block.line, lines[: lines.index(DASHES)] if DASHES in lines else lines)


def replay(text: str, name: str) -> str:
    """Runs the commands of a file and returns the file with the events that they cause."""
    blocks = parse(text)
    story = Scenario(_seed(blocks, name))
    return "\n\n".join("\n".join(_play(block, story, name)) for block in blocks) + "\n"


def _play(block: ScenarioBlock, story: Scenario, name: str) -> list[str]:
    for number, line in enumerate(block.lines, start=block.line):
        command = line.partition("#")[0].strip()
        if command and not command.startswith("seed "):
            try:
                story.do(command)
            except (BadValue, AssertionError) as problem:
                raise ScriptError(name, number, str(problem)) from problem
    happened = story.happened()
    return [*block.lines, DASHES, *happened] if happened else list(block.lines)


def _seed(blocks: list[ScenarioBlock], name: str) -> int:
    """The seed, which has to be the first command if it is given."""
    commands = [
        (number, line)
        for block in blocks
        for number, line in enumerate(block.lines, start=block.line)
        if line.partition("#")[0].strip()
    ]
    for place, (number, line) in enumerate(commands):
        words = line.split()
        if words[0] != "seed":
            continue
        if place > 0 or len(words) != 2 or not words[1].isdecimal():
            raise ScriptError(name, number, "write `seed N` as the first command")
        return int(words[1])
    return SEED_DEFAULT
