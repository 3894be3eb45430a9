"""The sessions that resilient messages are promised to: those whose daemons go on with enough others.

The views of daemons decide that, so the rows of daemons are read as well, if any message is resilient.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from hopring.ordering.holders import MAJORITY
from hopring.spark.audit.clients.stays import TracedGroup
from hopring.spark.audit.daemons import lives
from hopring.spark.audit.reading import Ends

LEVELS: Final = f"SELECT DISTINCT resilience FROM audit_sends WHERE resilience BETWEEN 1 AND {MAJORITY}"

DAEMON_MOVES: Final = lives.SMALL.replace("audit_trace", "audit_daemon_trace")

Row = Mapping[str, Any]


def steady_rows(
    groups: Iterable[TracedGroup],
    moves: Sequence[Row],
    levels: Iterable[int],
    ends: Mapping[str, Ends],
    otherwise: Ends,
) -> Iterator[tuple[Any, ...]]:
    """In the order of the columns of `STEADY`: by group, view of daemons and resilience, the sessions."""
    by_run: dict[str, list[lives.DaemonStay]] = {}
    for stay in _stays(moves, ends, otherwise):
        by_run.setdefault(stay.life.run, []).append(stay)
    for group in groups:
        sessions: dict[str, int] = {}  # By daemon: the bits of its sessions.
        for process, number in group.numbers.items():
            daemon = f"{process.rpartition('/')[0]}/0"
            sessions[daemon] = sessions.get(daemon, 0) | 1 << number
        for level in levels:
            found: dict[str, int] = {}
            for stay in by_run.get(group.run, ()):
                if stay.view is not None and lives.is_promised(stay, level):
                    found[stay.view] = found.get(stay.view, 0) | sessions.get(stay.life.process, 0)
            for view, steady in found.items():
                yield group.id, view, level, steady


def _stays(moves: Sequence[Row], ends: Mapping[str, Ends], otherwise: Ends) -> list[lives.DaemonStay]:
    """The stays of daemons in which they did not end, each only the first time."""
    highs: dict[tuple[str, str, str], int] = {}
    for row in moves:
        who = row["run"], row["process"], row["daemon"]
        highs[who] = max(highs.get(who, 0), row["position"])
    columns = ("run", "process", "daemon")
    extent = [{**dict(zip(columns, who, strict=True)), "high": high} for who, high in highs.items()]
    numbers = lives.number_processes(extent, moves)
    lived = lives.lives_of(extent, moves, numbers, ends, otherwise)
    found = lives.stays_of(lived, numbers)
    return [stay for stay in found if stay.stay > 0 and stay.nth == 1 and not stay.ended]
