"""Link: the interface of a link between the representatives of two sites, whatever its protocol.

Below       datagrams, or one connection; a driver sends frames or bytes and hands in those that arrive.
Above       the stack, which submits objects and gets each payload of the other end exactly once, in any order,
            until the link fails.
Invariants  `LinkFailed` comes at most once and is the last output; `wake_at_us` is never later than the next
            time at which the link has to act; a peer's mistake in a datagram raises `PeerError` and changes
            nothing, one in a stream fails the link.

`links/kinds.py` has a row for each kind. A kind may be written outside of the compiled packages.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Final

from hopring.compiled import mypyc_attr
from hopring.config.model import LinkName
from hopring.links.events import LinkCounters, LinkFailed, LinkInput, LinkOutput
from hopring.links.timing import RoundTrip

RESUME_US_MAX: Final = 10_000_000
"""The measurements of a path are forgotten when nothing was heard on it for this long."""


@dataclass(frozen=True, slots=True)
class LearnedPath:
    """The measurements of a path by a link, for the next link between the same two daemons."""

    round_trip: RoundTrip
    at_us: int  # When the link last heard of it.


@mypyc_attr(allow_interpreted_subclasses=True)
class Link(ABC):
    """One end of a link."""

    def __init__(self, kind: LinkName, object_bytes_max: int, backlog_bytes_max: int, silence_us: int) -> None:
        self.kind = kind
        """The name of its kind in the configuration."""
        self.object_bytes_max = object_bytes_max
        """The largest object that may be submitted."""
        self.backlog_bytes_max = backlog_bytes_max
        """The backlog beyond which the link fails."""
        self.silence_us = silence_us
        """The silence of the other end after which the link fails."""
        self.failure = ""
        """The reason why the link has failed; empty as long as it works."""

    @abstractmethod
    def step(self, event: LinkInput, now_us: int) -> list[LinkOutput]:
        """Takes one event; a `Submit` only queues, and the next tick sends."""

    @property
    @abstractmethod
    def wake_at_us(self) -> int:
        """The next time at which the link wants a Tick."""

    @property
    @abstractmethod
    def early_tick_at_us(self) -> int:
        """From this time on a Tick is useful, if the daemon is awake anyway; it saves a later one."""

    @property
    @abstractmethod
    def backlog_bytes(self) -> int:
        """The bytes that were submitted and are not sent yet."""

    @property
    @abstractmethod
    def progress(self) -> int:
        """A number that grows while packets get through, in either direction."""

    @property
    @abstractmethod
    def counters(self) -> LinkCounters:
        """The counters of the link since its start."""

    @property
    def stuck(self) -> bool:
        """Whether a packet was requested or sent again and has not arrived yet."""
        return False

    @property
    def least_round_trip_us(self) -> int:
        """The least round trip that was measured; 0 if there is none."""
        return 0

    @property
    def learned(self) -> LearnedPath | None:
        """The measurements of the path, for the next link; None if there are none."""
        return None

    def resume(self, learned: LearnedPath, now_us: int) -> None:  # noqa: B027
        """Begins with the measurements of an earlier link of the same path."""

    def stalled(self, now_us: int) -> None:  # noqa: B027
        """This host did not run until now: answers to packets sent before give no sample of the round trip."""

    def _fail(self, reason: str, absence: bool = False, silence_us: int = 0) -> list[LinkOutput]:
        """Ends the link; `absence` and `silence_us` as of LinkFailed."""
        self.failure = reason
        return [LinkFailed(reason, absence, silence_us)]
