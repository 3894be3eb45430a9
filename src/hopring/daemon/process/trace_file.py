"""The trace of a running daemon: JSON lines in the schema of `check.trace_files`, written as events happen.

Every batch is written to the kernel before the call returns, so the file has all noted events however the
process ends; only a crash of the machine can lose more. Several runs of a daemon may share a file, one behind
the other: an incomplete line that a full disk left at the end is cut off when the next run begins.

Counters of links are written only when they have changed, so that an idle daemon's trace does not grow.
Links are made anew with every network: the last counts of a network are written when the next one begins.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from hopring.check import trace
from hopring.check.trace_files import Flattener
from hopring.engine import (
    Delivered,
    EngineOutput,
    Installed,
    LinkSnapshot,
    NetworkSnapshot,
    Rift,
    Snapshot,
    Stamped,
    TransitionalSignal,
    Withheld,
)
from hopring.ids import DaemonId, Process, ViewId
from hopring.ordering.entry import OrderedMessage, Position
from hopring.system.kernel import Files, kernel

NUMBER_BYTES: Final = 8

LTS_BITS: Final = 40

Number = Callable[[OrderedMessage, ViewId, Position], int | None]
"""The number of a message in its session; None if it is unknown, and then the message is not in the trace."""


def leading_number(message: OrderedMessage, _view: ViewId, _position: Position) -> int:
    """The number at the beginning of the payload, for a layer above that puts it there."""
    return int.from_bytes(message.payload[:NUMBER_BYTES], "little")


def place_number(message: OrderedMessage, view: ViewId, position: Position) -> int | None:
    """A number made of the place in the order, which rises in each session; Unreliable messages have none."""
    if message.service.loose:
        return None
    return view.counter << LTS_BITS | position.lts & ((1 << LTS_BITS) - 1)


def wall_us() -> int:
    """The wall clock, which machines share; the daemon's own clock counts from the start of its machine."""
    return kernel().wall_ns() // 1_000


PERIOD_US: Final = 5_000_000
"""The least interval between two writes of counters, while a network lasts."""


@dataclass(frozen=True, slots=True)
class LinkNews:
    """The counters of a link since it was made."""

    generation: int
    link: LinkSnapshot


class LinkCountLog:
    """Remembers the counters that were written."""

    def __init__(self) -> None:
        self._generation: int | None = None  # Of the network that was written last.
        self._written: dict[DaemonId, tuple[int, ...]] = {}
        self._next_us = 0

    def due(self, now_us: int) -> bool:
        """Whether it is time to write again."""
        return now_us >= self._next_us

    def news(self, snapshot: Snapshot, now_us: int) -> list[LinkNews]:
        """The links whose counters have changed; also those of the network before, if it was written last."""
        self._next_us = now_us + PERIOD_US
        moved: list[LinkNews] = []
        for network in (snapshot.last_network, snapshot.network):
            if network is not None and network.generation == self._generation:
                moved += self._moved(network)
        network = snapshot.network
        if network is None:
            self.forget()
        elif network.generation != self._generation:
            self._generation, self._written = network.generation, {}
            moved += self._moved(network)
        return moved

    def forget(self) -> None:
        """The network that was written last is over."""
        self._generation, self._written = None, {}

    def _moved(self, network: NetworkSnapshot) -> list[LinkNews]:
        moved = []
        for link in network.links:
            seen = link.counters
            # Not the round trip, which changes all the time.
            counts = seen.sent, seen.received, seen.lost, seen.nacks, seen.retransmissions
            if any(counts) and counts != self._written.get(link.peer):
                self._written[link.peer] = counts
                moved.append(LinkNews(network.generation, link))
        return moved


class TraceFile:
    """The trace of one run of a daemon; `problem` is the reason, if there is one, why no more is written."""

    def __init__(
        self,
        path: Path,
        me: Process,
        names: Mapping[DaemonId, str],
        now_us: Callable[[], int],
        snapshot: Callable[[], Snapshot],
        number: Number = leading_number,
        wall: Callable[[], int] = wall_us,
    ) -> None:
        """Opens the file; raises OSError."""
        self.problem = ""
        self._path = path
        self._names = names
        self._now_us = now_us
        self._snapshot = snapshot
        self._number = number
        self._me = self._process(me)
        self._links = LinkCountLog()
        self._flattener = Flattener()
        self._encoder = msgspec.json.Encoder()
        self._files = kernel().files
        self._fd = self._files.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        _cut_torn_end(self._files, self._fd)
        self._write([trace.Recover(self._me, now_us(), wall())])

    def rename(self, names: Mapping[DaemonId, str]) -> None:
        """Applies other numbers of daemons from now on."""
        self.count(at_once=True)
        self._links.forget()
        self._names = names

    def note(self, events: Sequence[EngineOutput]) -> None:
        """Writes these events to the trace."""
        told = [self._event(event) for event in events]
        self._write([event for event in told if event is not None])

    def count(self, *, at_once: bool = False) -> None:
        """Writes the counters of links that have changed, if that is due.

        Call it with `at_once` when another network begins: otherwise the last counts of the old one are lost.
        """
        now_us = self._now_us()
        if at_once or self._links.due(now_us):
            self._write(self._counters(now_us))

    def close(self) -> None:
        """Writes the last counters and the end, and closes the file."""
        self.count(at_once=True)
        self._write([trace.Crash(self._me, self._now_us())])
        self._files.close(self._fd)
        self.problem = "closed"

    def _write(self, events: Sequence[trace.Event]) -> None:
        if self.problem:
            return
        text = b"".join([self._encoder.encode(self._flattener.row(event)) + b"\n" for event in events])
        try:
            while text:
                text = text[self._files.write(self._fd, text) :]
        except OSError as error:
            # A gap would make every verdict wrong, so the trace ends here, and the daemon continues.
            self.problem = f"cannot write {self._path} ({error.strerror}): the trace ends here"

    def _counters(self, now_us: int) -> list[trace.Event]:
        told: list[trace.Event] = []
        for news in self._links.news(self._snapshot(), now_us):
            peer, seen = self._names[news.link.peer], news.link.counters
            counts = seen.sent, seen.received, seen.lost, seen.nacks, seen.retransmissions, seen.round_trip_us
            told.append(trace.Counters(self._me, now_us, f"{peer}@{news.generation:016x}", *counts, peer))
        return told

    def _event(self, event: EngineOutput) -> trace.Event | None:
        me, at_us, view = self._me, self._now_us(), _view(event.view)
        match event:
            case Stamped(message=message, position=position):
                number, place = self._number(message, event.view, position), _place(view, position)
                if number is None:
                    return None
                name = self._name(me, number)
                size = len(message.payload)
                return trace.MessageSent(
                    me, at_us, view, name, message.service, place, size, message.resilience
                )
            case (
                Delivered(message=message, sender=sender, position=position)
                | Withheld(message=message, sender=sender, position=position)
            ):
                number = self._number(message, event.view, position)
                if number is None:
                    return None
                name = self._name(self._process(sender), number)
                parts = me, at_us, view, name, message.service, _place(view, position)
                return trace.MessageDelivered(*parts, isinstance(event, Withheld))
            case Rift():
                return None  # Only groups use it.
            case TransitionalSignal(together=together):
                return trace.Signalled(me, at_us, view, self._processes(together))
            case Installed(members=members, together=together, cause=cause, primary=primary):
                both = self._processes(members), self._processes(together)
                return trace.ViewInstalled(me, at_us, view, *both, cause, primary.value)

    def _name(self, sender: trace.ProcessName, number: int) -> trace.MessageId:
        # The trace is of daemons: a message of any session counts as one of its daemon.
        return trace.MessageId(sender.daemon, sender.incarnation, number)

    def _process(self, process: Process) -> trace.ProcessName:
        return trace.ProcessName(self._names[process.daemon], process.incarnation)

    def _processes(self, processes: tuple[Process, ...]) -> tuple[trace.ProcessName, ...]:
        return tuple([self._process(process) for process in processes])


def _view(view: ViewId) -> trace.ViewName:
    return trace.ViewName(*view)


def _place(view: trace.ViewName, position: Position) -> trace.Ord:
    return trace.Ord(position.lts, position.site, view)


def _cut_torn_end(files: Files, fd: int) -> None:
    """Cuts off an incomplete last line."""
    end = size = files.lseek(fd, 0, os.SEEK_END)
    while end and files.pread(fd, 1, end - 1) != b"\n":
        end -= 1
    if end < size:
        files.ftruncate(fd, end)
