"""What differs between programs on daemons and on peers: the URLs of their sessions, and nothing else."""

from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from hopring import Session, connect, sync

SECONDS_MAX = 60.0

Kind = TypeVar("Kind")


class Engine(Protocol):
    """An engine as a test uses it."""

    name: str
    mark: str

    def url(self, number: int = 0, primary: bool = False) -> str:
        """The URL of the session with this number; `primary`: of groups that have a primary view."""
        ...


class DaemonEngine:
    """Daemons: sessions are spread over them."""

    name = "hop"

    def __init__(self, cluster: sync.Cluster, mark: str) -> None:
        self.mark = mark
        self._urls = [cluster.url(name) for name in cluster.daemons]

    def url(self, number: int = 0, primary: bool = False) -> str:
        """Views of the daemons are primary anyway."""
        del primary
        return self._urls[number % len(self._urls)]


class PeerEngine:
    """Peers: each session has its own; the first one of a test founds the rings."""

    name = "rmp"

    def __init__(self, mark: str) -> None:
        self.mark = mark

    def url(self, number: int = 0, primary: bool = False) -> str:
        quorum = "" if not primary else "?minimum=majority&found=yes" if not number else "?minimum=majority"
        return f"rmp:///test-{self.mark}{quorum}"


def group_of(engine: Engine) -> str:
    """The group of a test."""
    return f"g-{engine.mark}"


async def next_of(source: Any, kind: type[Kind], accepts: Callable[[Kind], object] = lambda _: True) -> Kind:
    """The next event of a kind that a session or a group has."""
    while True:
        event = await source.receive()
        if isinstance(event, kind) and accepts(event):
            return event


def names(event: Any) -> list[str]:
    """The names of the members of a view or a signal."""
    return sorted(one.name for one in event.members)


def session(engine: Engine, number: int, primary: bool = False, **options: Any) -> Any:
    """A session with the name of its number: `ann`, `bob`, `cat`."""
    name = ("ann", "bob", "cat", "dan")[number]
    return connect(engine.url(number, primary), name=f"{name}", **options)


__all__ = ["DaemonEngine", "Engine", "PeerEngine", "Session", "group_of", "names", "next_of", "session"]
