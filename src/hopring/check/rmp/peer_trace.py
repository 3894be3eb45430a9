"""Traces of real peers: the files of all of them become one history for each group, as R1 to R16 judge it.

Below       lines of JSON that peers write (peer/recorder.py); each names processes, members and epochs as its
            peer knows them.
Above       the checks of this package; the demonstration and tests of real peers.
Invariants  all peers are on one machine: their events are put together by its monotonic clock.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, Any, Final

import msgspec

from hopring.check.rmp import peer_events
from hopring.check.rmp.peer_events import PeerEvent
from hopring.errors import HopError
from hopring.wire.rmp.ids import ListMembership, PeerProcess

_MEMBERS: Final = frozenset({"members", "together"})
_MESSAGES: Final = frozenset({"messages"})
_PROCESSES: Final = frozenset({"process", "next"})
_JOINED: Final = "+"
NONCE_SIGN: Final = "/"


class PeerTraceError(HopError, ValueError):
    """A trace of peers that cannot be read."""


class PeerTraceRow(msgspec.Struct, frozen=True):
    """A line of a trace."""

    group: str
    kind: str  # A class of `peer_events`, or `EpochNamed`.
    event: dict[str, Any]


class EpochNamed(msgspec.Struct, frozen=True):
    """The ballot of an epoch, which events name by its generation."""

    epoch: int
    version: int
    initiator: str


def process_text(process: PeerProcess) -> str:
    """A process in a trace: `host:port/nonce`."""
    return f"{process}{NONCE_SIGN}{process.nonce:016x}"


def member_text(membership: ListMembership) -> str:
    """A member in a trace: its process, and the number of its join."""
    return f"{process_text(membership.process)}{_JOINED}{membership.joined}"


def read_peer_rows(file: IO[bytes]) -> Iterator[PeerTraceRow]:
    """The rows of a file; a line that a kill has cut off at the end is left out."""
    decoder = msgspec.json.Decoder(PeerTraceRow)
    for number, line in enumerate(file, start=1):
        if not line.endswith(b"\n"):
            return
        try:
            yield decoder.decode(line)
        except msgspec.DecodeError as error:
            raise PeerTraceError(f"line {number}: {error}") from error


def peer_histories(
    rows: Iterable[PeerTraceRow], names: Mapping[str, str] | None = None
) -> dict[str, list[PeerEvent]]:
    """The history of each group, of the rows of all peers; `names` has names of `host:port`."""
    by_group: defaultdict[str, list[PeerTraceRow]] = defaultdict(list)
    for row in rows:
        by_group[row.group].append(row)
    return {group: _Names(some, names or {}).history() for group, some in sorted(by_group.items())}


class _Names:
    """The names of one group, made of all that its peers have written."""

    def __init__(self, rows: list[PeerTraceRow], names: Mapping[str, str]) -> None:
        self._rows, self._places = rows, names
        self._processes: dict[str, str] = {}
        self._lives: defaultdict[str, int] = defaultdict(int)
        joins: defaultdict[str, set[int]] = defaultdict(set)
        ballots: dict[int, tuple[int, str]] = {}
        for row in sorted(rows, key=_started):
            if row.kind == EpochNamed.__name__:
                ballots[row.event["epoch"]] = (row.event["version"], row.event["initiator"])
                continue
            self._process(row.event["process"])
            for field in _MEMBERS & row.event.keys():
                for member in row.event[field]:
                    process, _, joined = member.partition(_JOINED)
                    joins[process].add(int(joined))
        self._joins = {process: sorted(numbers) for process, numbers in joins.items()}
        ranked = sorted((ballot, epoch) for epoch, ballot in ballots.items())
        self._epochs = {epoch: rank for rank, (_, epoch) in enumerate(ranked, start=1)}

    def _process(self, text: str) -> str:
        """The name of a process: that of its place, with a number from its second life on."""
        if text not in self._processes:
            place = text.partition(NONCE_SIGN)[0]
            name = self._places.get(place, place.replace(".", "-").replace(":", "-"))
            self._lives[name] += 1
            life = self._lives[name]
            self._processes[text] = name if life == 1 else f"{name}.{life}"
        return self._processes[text]

    def _member(self, text: str) -> str:
        process, _, joined = text.partition(_JOINED)
        return self._process(process) + "'" * self._joins[process].index(int(joined))

    def _message(self, text: str) -> str:
        process, _, number = text.rpartition(":")
        return f"{self._process(process)}:{number}"

    def history(self) -> list[PeerEvent]:
        """All events with their names, by their times."""
        events = [row for row in self._rows if row.kind != EpochNamed.__name__]
        return [self._named(row) for row in sorted(events, key=lambda row: int(row.event["at_us"]))]

    def _named(self, row: PeerTraceRow) -> PeerEvent:
        fields = dict(row.event)
        for name, value in row.event.items():
            if name in _PROCESSES:
                fields[name] = self._process(value)
            elif name in _MEMBERS:
                fields[name] = [self._member(one) for one in value]
            elif name in _MESSAGES:
                fields[name] = [self._message(one) for one in value]
            elif name == "message":
                fields[name] = self._message(value)
            elif name == "who" and value:
                fields[name] = self._member(value)
            elif name == "epoch":
                fields[name] = self._epochs.get(value, 0)
        try:
            return msgspec.convert(fields, getattr(peer_events, row.kind))  # type: ignore[no-any-return]
        except (AttributeError, msgspec.ValidationError) as error:
            raise PeerTraceError(f"not a {row.kind} event: {error}") from error


def _started(row: PeerTraceRow) -> int:
    return int(row.event.get("at_us", 2**62))
