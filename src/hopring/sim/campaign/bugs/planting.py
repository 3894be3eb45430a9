"""Plants bugs: replaces functions of the real code by wrong ones, to see whether the campaign notices.

A bug replaces one function, or a few that make one mistake together, while it is planted, and everything is put
back afterwards. The product does not know of it. A place that does not exist any more is an error: a bug that
is planted nowhere would silently never be caught.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import wraps
from importlib import import_module
from inspect import Parameter, signature
from typing import Any, Final

from hopring import compiled
from hopring.errors import HopError
from hopring.sim.campaign.world import DAEMONS_WORLD, DEPLOYMENT_WORLD, RMP_WORLD, WIDE_WORLD


class MisplacedBug(HopError):
    """The place where a bug is to be planted has changed: the code has moved, and the bug must move with it."""

    def __init__(self, place: str, problem: str = "is not there") -> None:
        super().__init__(f"no bug can be planted in {place}: it {problem}")
        self.place = place
        self.problem = problem

    def __reduce__(self) -> tuple[Any, ...]:
        """Lets the error be pickled between processes."""
        return MisplacedBug, (self.place, self.problem)


@dataclass(frozen=True, slots=True)
class Patch:
    """One function to replace: its place as `module:Class.name`, and the maker of its replacement."""

    place: str
    make: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Bug:
    """A plausible mistake in the code."""

    name: str
    breaks: str  # Which rule or trap of the protocol notes it ignores.
    story: str  # What goes wrong, in one line.
    patches: tuple[Patch, ...]
    clients: bool = False  # Whether only a world with clients can show it.
    sealed: bool = False  # Whether only a world with sealed datagrams can show it.
    resilient: bool = False  # Whether only a world with resilient messages can show it.
    block: str = ""  # The kind of agents that a world needs to show it.
    world: str = DAEMONS_WORLD  # The kind of world that shows it.
    aim: str = ""  # What the schedules aim at that show it soonest; a campaign begins with these seeds.


@dataclass(slots=True)
class Planted:
    """A planted bug, with the number of its runs."""

    runs: int = 0  # How often the wrong code ran; a bug that never runs proves nothing.


def bug(name: str, breaks: str, story: str, *patches: tuple[str, Callable[[Any], Any]]) -> Bug:
    """A bug with its patches given as pairs of place and maker."""
    return Bug(name, breaks, story, tuple(Patch(place, make) for place, make in patches))


def client_bug(name: str, breaks: str, story: str, *patches: tuple[str, Callable[[Any], Any]]) -> Bug:
    """A bug that only a world with clients can show."""
    return replace(bug(name, breaks, story, *patches), clients=True)


def block_bug(
    block: str, name: str, breaks: str, story: str, *patches: tuple[str, Callable[[Any], Any]]
) -> Bug:
    """A bug that only a world with agents of this kind can show."""
    return replace(bug(name, breaks, story, *patches), block=block)


def ring_bug(
    name: str, breaks: str, story: str, *patches: tuple[str, Callable[[Any], Any]], aim: str = ""
) -> Bug:
    """A bug of rings of RMP."""
    return replace(bug(name, breaks, story, *patches), world=RMP_WORLD, aim=aim)


def wide_bug(name: str, breaks: str, story: str, *patches: tuple[str, Callable[[Any], Any]]) -> Bug:
    """A bug of the long-haul service."""
    return replace(bug(name, breaks, story, *patches), world=WIDE_WORLD)


def deployment_bug(name: str, breaks: str, story: str, *patches: tuple[str, Callable[[Any], Any]]) -> Bug:
    """A bug of what only a deployment has: processes, sockets, files and the library of clients."""
    return replace(bug(name, breaks, story, *patches), world=DEPLOYMENT_WORLD)


@contextmanager
def plant(one: Bug | None) -> Iterator[Planted]:
    """Plants a bug for the duration of the block; None plants nothing."""
    planted = Planted()
    with ExitStack() as undo:
        for patch in one.patches if one is not None else ():
            undo.enter_context(_replaced(patch, planted))
        yield planted


@contextmanager
def _replaced(patch: Patch, planted: Planted) -> Iterator[None]:
    if compiled.active():
        # Compiled code does not look up the functions it calls: the bug would silently have no effect.
        raise MisplacedBug(patch.place, "is compiled; HOPRING_PURE=1 runs the sources")
    owner, name = _find(patch.place)
    original = vars(owner)[name]
    made = patch.make(original)
    if not _takes_the_same(original, made):
        raise MisplacedBug(patch.place, "takes other arguments now")
    setattr(owner, name, _counted(made, planted))
    try:
        yield
    finally:
        setattr(owner, name, original)


def _find(place: str) -> tuple[Any, str]:
    """The module or class that holds the function itself, not by inheritance, and the function's name there."""
    module, _, path = place.partition(":")
    *classes, name = path.split(".")
    try:
        owner: Any = import_module(module)
        for one in classes:
            owner = vars(owner)[one]
        vars(owner)[name]
    except (ModuleNotFoundError, KeyError):
        raise MisplacedBug(place) from None
    return owner, name


def _takes_the_same(original: Any, made: Any) -> bool:
    """Whether the wrong code can be called as the right one is: a bug that only crashes would prove nothing."""
    if isinstance(original, property) or isinstance(made, property):
        return isinstance(original, property) and isinstance(made, property)
    given = signature(original).parameters.values()
    by_name = [one.name for one in given if one.kind is Parameter.KEYWORD_ONLY]
    by_place = [one.name for one in given if one.kind is Parameter.POSITIONAL_OR_KEYWORD]
    try:
        signature(made).bind(*by_place, **dict.fromkeys(by_name))
    except TypeError:
        return False
    return True


def _counted(made: Any, planted: Planted) -> Any:
    if isinstance(made, property):
        assert made.fget is not None, "a property that can be read"
        return property(_counted(made.fget, planted))

    @wraps(made)
    def run(*args: Any, **named: Any) -> Any:
        planted.runs += 1
        return made(*args, **named)

    return run


def all_bugs() -> dict[str, Bug]:
    """All planted bugs by name, in the order in which they are listed."""
    bugs = [one for module in BUG_MODULES for one in import_module(module).BUGS]
    assert len({one.name for one in bugs}) == len(bugs), "every bug has a name of its own"
    return {one.name: one for one in bugs}


_PARTS: Final = (
    "order",
    "membership",
    "primary",
    "resilience",
    "group",
    "sealing",
    "call",
    "flush",
    "state",
    "lock",
    "minimum",
    "value",
    "log",
    "wide",
    "haul",
    "file",
    "deployment",
    "rings.ring",
    "rings.ring_recovery",
    "rings.ring_call",
)
BUG_MODULES: Final = tuple(f"{__package__}.{part}_bugs" for part in _PARTS)
