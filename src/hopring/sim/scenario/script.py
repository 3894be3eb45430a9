"""Scenario files: blocks of commands, a line of dashes, and what happened.

    # A lost packet is asked for lazily.
    link a b
    lose a->b DATA 2

    submit a one two three
    ----
    0ms a->b  DATA 1 one

`replay` runs a file's commands and returns the file as it should be; a scenario passes if that is what it is.
"""

from dataclasses import dataclass
from typing import Final

from hopring.errors import HopError
from hopring.sim.scenario.story import Story
from hopring.sim.scenario.values import BadValue

DASHES: Final = "----"
SEED_DEFAULT: Final = 1


class ScriptError(HopError):
    """A command that cannot be carried out, with the file and the line it stands in."""

    def __init__(self, name: str, line: int, problem: str) -> None:
        super().__init__(f"{name}:{line}: {problem}")
        self.name = name
        self.line = line
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Block:
    """Comments and commands that stand together, from this line on."""

    line: int
    lines: tuple[str, ...]


def parse(text: str) -> list[Block]:
    """The blocks of a file, without what they recorded."""
    blocks: list[Block] = []
    current: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], start=1):
        if not line.strip():
            if current:
                blocks.append(Block(number - len(current), tuple(current)))
            current = []
        else:
            current.append(line.rstrip())
    return [_commands_only(block) for block in blocks]


def _commands_only(block: Block) -> Block:
    lines = block.lines
    return Block(block.line, lines[: lines.index(DASHES)] if DASHES in lines else lines)


def replay(text: str, name: str) -> str:
    """The whole file with what happens when its commands are carried out."""
    blocks = parse(text)
    story = Story(_seed(blocks, name))
    return "\n\n".join("\n".join(_play(block, story, name)) for block in blocks) + "\n"


def _play(block: Block, story: Story, name: str) -> list[str]:
    for number, line in enumerate(block.lines, start=block.line):
        command = line.partition("#")[0].strip()
        if command and not command.startswith("seed "):
            try:
                story.do(command)
            except (BadValue, AssertionError) as problem:
                raise ScriptError(name, number, str(problem)) from problem
    happened = story.happened()
    return [*block.lines, DASHES, *happened] if happened else list(block.lines)


def _seed(blocks: list[Block], name: str) -> int:
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
