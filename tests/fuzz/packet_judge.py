"""Judges the traces of a fuzzed cluster: all properties of daemons and clients, but for those of a table.

A round of an attacker without the key may break nothing. A forgery with a right seal counts as sent by the
daemon that it names; what else it may break is in MAY_BREAK, with the reason. `docs/security.md` has the same
table.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from hopring.check import trace
from hopring.check.judge import check_evs, check_evs_c
from hopring.check.properties.order import FIFO_ORDER
from hopring.check.properties.property import Verdict, broken
from hopring.check.trace_files import TraceRow, events

STAMPS: Final = (
    "a forged stamp or promise that is in its bounds is believed by those who get it, and not by others"
)
STATES: Final = (
    "a forged ARU or state says that a message is everywhere, or nowhere: it is discarded, or given up"
)
VIEWS: Final = "a forged NEWMEMB or state tells two members different things about one attempt"
BUNDLES: Final = "a forged bundle takes the number of a real one at those who get it first"
GROUPS: Final = "a forged group message is believed until the next view"

INTEGRITY: Final = "2.6 delivery integrity"
MAY_BREAK: Final = {
    "definition 2.7 a message has one place in the order, and no other message has it": BUNDLES,
    "2.20 membership agreement": VIEWS,
    "2.4 transitional set": VIEWS,
    "2.19 sane view delivery": BUNDLES,
    "2.18 same view delivery": BUNDLES,
    "2.12 causal messages": STAMPS,
    "2.13(2) agreed messages come in their order": STAMPS,
    "one order for common agreed messages": STAMPS,
    "2.7 virtual synchrony": STATES,
    "2.8 transitional signals": STATES,
    "2.13(3) before the signal, all with a lower stamp": STAMPS,
    "2.13(4) after the signal, all with a lower stamp from those that come along": STAMPS,
    "2.14(2) before the signal, safe for all members": STATES,
    "2.14(3) after the signal, safe for all that come along": STATES,
    "2.15 self delivery": STATES,
    "2.17 termination of delivery": STATES,
}
"""Properties of daemons that a forgery with a right seal may break, and why."""

CLIENTS_MAY_BREAK: Final = {
    **{f"EVS-C {name}": reason for name, reason in MAY_BREAK.items()},
    "EVS-C 2.5 no duplication": BUNDLES,
    "EVS-C 2.11 FIFO messages": BUNDLES,
    "EVS-C 2.6 delivery integrity": BUNDLES,
    "EVS-C 2.16 membership precision": GROUPS,
    "EVS-C what a session asks for is carried out": GROUPS,
    "EVS-C 2.1 initial view event": GROUPS,
}
"""The same of clients, whose order and groups follow from those of daemons."""

Forged = set[tuple[str, int, int]]
"""Daemon, stamp and service of forged bundles."""


class TraceSlices:
    """Reads the growing traces of daemons piece by piece, each from one quiet moment to the next.

    A daemon that goes on through a quiet moment begins the next piece as if it had started in its present view.
    """

    def __init__(self, files: dict[str, Path]) -> None:
        self._files = files
        self._read_bytes = dict.fromkeys(files, 0)
        self._rows: dict[str, list[TraceRow]] = {name: [] for name in files}
        self._begun: dict[str, list[TraceRow]] = {name: [] for name in files}
        self._floors: dict[str, int] = {}  # By view: the highest stamp of the pieces before.

    def history(self, living: Iterable[str]) -> list[trace.Event]:
        """The present piece, up to now."""
        out: list[trace.Event] = []
        for name, file in self._files.items():
            self._rows[name] += self._new_rows(name, file)
            rows = [*self._begun[name], *[row for row in self._rows[name] if self._is_of_piece(row)]]
            of_daemon = list(events(_numbered(rows)))
            out += of_daemon
            if of_daemon and name not in living and not isinstance(of_daemon[-1], trace.Crash):
                out.append(trace.Crash(of_daemon[-1].process, of_daemon[-1].at_us))
        return out

    def next_piece(self) -> None:
        """Begins another piece; everything that was sent has been delivered everywhere."""
        for rows in self._rows.values():
            for row in rows:
                if row.kind in ("send", "deliver") and row.view is not None and row.ord_lts is not None:
                    self._floors[row.view] = max(self._floors.get(row.view, 0), row.ord_lts)
        for name, rows in self._rows.items():
            every = [*self._begun[name], *rows]
            recovers = [row for row in every if row.kind == "recover"]
            if not recovers or every[-1].kind == "crash":
                self._begun[name] = []
            else:
                views = [row for row in every if row.kind == "view" and row.process == recovers[-1].process]
                alone = [msgspec.structs.replace(row, transitional_set=[row.process]) for row in views[-1:]]
                self._begun[name] = [recovers[-1], *alone]
            self._rows[name] = []
        last = {row.view for rows in self._begun.values() for row in rows if row.kind == "view"}
        self._floors = {view: floor for view, floor in self._floors.items() if view in last}

    def _new_rows(self, name: str, file: Path) -> list[TraceRow]:
        if not file.exists():
            return []
        with file.open("rb") as data:
            data.seek(self._read_bytes[name])
            whole, newline, _torn = data.read().rpartition(b"\n")
        self._read_bytes[name] += len(whole + newline)
        return [_DECODER.decode(line) for line in (whole + newline).splitlines()]

    def _is_of_piece(self, row: TraceRow) -> bool:
        if row.kind == "counters":
            return False
        if row.kind not in ("send", "deliver") or row.view is None or row.ord_lts is None:
            return True
        return row.ord_lts > self._floors.get(row.view, -1)


_DECODER: Final = msgspec.json.Decoder(TraceRow)


def _numbered(rows: Iterable[TraceRow]) -> list[TraceRow]:
    positions: dict[str, int] = {}
    out: list[TraceRow] = []
    for row in rows:
        position = positions.get(row.process, 0)
        positions[row.process] = position + 1
        out.append(msgspec.structs.replace(row, position=position))
    return out


def judge(
    daemons: Sequence[trace.Event],
    clients: Sequence[trace.Event],
    living: Sequence[str],
    forged: Forged | None,
) -> tuple[list[Verdict], list[Verdict]]:
    """The broken properties: those that must hold, and those that may break because something is forged.

    `forged` is None where nothing was: then everything must hold.
    """
    # FIFO order is that of a session, and daemons' traces do not name sessions: it is judged among clients.
    verdicts = [
        one for one in check_evs(daemons, True, [living]) if not one and one.property != FIFO_ORDER.name
    ]
    verdicts += [one for one in check_evs_c(clients, True, [living]) if not one]
    if forged is None:
        return verdicts, []
    excused = MAY_BREAK | CLIENTS_MAY_BREAK
    wrong = [one for one in verdicts if one.property not in excused and one.property != INTEGRITY]
    return wrong + integrity(daemons, forged), [one for one in verdicts if one.property in excused]


def integrity(daemons: Sequence[trace.Event], forged: Forged) -> list[Verdict]:
    """2.6 with forgeries: a delivered message was sent by the daemon that it names, or forged in its name."""
    sent = {(one.message, one.service) for one in daemons if isinstance(one, trace.MessageSent)}
    members = dict[tuple[trace.ProcessName, trace.ViewName], frozenset[trace.ProcessName]]()
    for one in daemons:
        if isinstance(one, trace.ViewInstalled):
            members[one.process, one.view] = frozenset(one.members)
    for one in daemons:
        if not isinstance(one, trace.MessageDelivered):
            continue
        if one.message.sender not in members.get((one.process, one.view), ()):
            return [broken(INTEGRITY, f"{one} is of no member")]
        known = (one.message, one.service) in sent
        if not known and (one.message.daemon, one.ord.lts, int(one.service)) not in forged:
            return [broken(INTEGRITY, f"{one} was neither sent nor forged")]
    return []
