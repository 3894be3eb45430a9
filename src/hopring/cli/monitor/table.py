"""The table of daemons: one row each, with counters for pipes and rates for the screen."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hopring.cli.monitor.admin_client import Fleet
from hopring.config.units import SIZE
from hopring.printable import printable

HEADS: Final = (
    "DAEMON",
    "SITE",
    "STATE",
    "VIEW",
    "SIZE",
    "SENT",
    "RECEIVED",
    "RESENT",
    "ROUNDS",
    "DELIVERED",
    "SESSIONS",
    "GROUPS",
    "WINDOW",
    "RING",
    "KEY",
    "CUT",
)
RIGHT: Final = frozenset({"SIZE", "SENT", "RECEIVED", "RESENT", "ROUNDS", "DELIVERED", "SESSIONS", "GROUPS"})
DISPENSABLE: Final = (
    "RING",
    "GROUPS",
    "KEY",
    "ROUNDS",
    "SITE",
    "RECEIVED",
    "WINDOW",
    "SESSIONS",
    "VIEW",
    "CUT",
)
"""Columns that a narrow screen drops, the first one first."""

_GROUPS_SETTLED: Final = "GOP"
_GAP: Final = 2  # Between two columns.


@dataclass(frozen=True, slots=True)
class StatusCounters:
    """Counters of which a screen shows the rates."""

    at_s: float
    view: str
    values: tuple[int, ...]


def counts_of(status: Mapping[str, Any], at_s: float) -> StatusCounters:
    """The counters of one daemon; those of links and of the ring begin again with each view."""
    values = (
        status["packets"]["sent"],
        status["packets"]["received"],
        status["retransmissions"],
        status["ring"]["rounds"],
        status["delivered"]["messages"],
    )
    return StatusCounters(at_s, status["view"], values)


def rates(now: StatusCounters, before: StatusCounters | None) -> list[str]:
    """Rates per second since the last status; `-` where the view changed in between."""
    if before is None or before.view != now.view or now.at_s <= before.at_s:
        return ["-"] * len(now.values)
    passed_s = now.at_s - before.at_s
    return [f"{(new - old) / passed_s:.0f}/s" for new, old in zip(now.values, before.values, strict=True)]


def state_of(status: Mapping[str, Any]) -> str:
    """The phase of the membership, followed by that of the groups if they are not settled."""
    groups = status.get("groups_state", _GROUPS_SETTLED)
    word: str = status["phase"] if groups == _GROUPS_SETTLED else f"{status['phase']}/{groups}"
    return f"{word} reload" if status.get("reloading") else word


def cut_of(status: Mapping[str, Any]) -> str:
    """The daemons it has cut off, and the seconds left if the cut ends by itself."""
    left_us = status.get("cut_left_us")
    left = "" if left_us is None else f" {-(-left_us // 1_000_000)}s"
    return ",".join(status["cut"]) + left if status["cut"] else "-"


def key_of(status: Mapping[str, Any]) -> str:
    """The id of the key in use, with + if another one is live; `insecure` or `none` without keys."""
    keys = status.get("keys", {})
    if keys.get("in_use") is None:
        return "insecure" if keys.get("insecure") else "none"
    return f"{keys['in_use']}{'+' * (len(keys['live']) > 1)}"


KEY_HEADS: Final = ("DAEMON", "IN USE", "WANTED", "LIVE", "LACK IT", "REFUSED")


def key_rows(fleet: Fleet) -> list[list[str]]:
    """One row for each daemon: its keys, the daemons of its view that lack the wanted one, refused packets."""
    rows = []
    for one in fleet.seen:
        keys = one.status.get("keys", {})
        refused = [f"{reason}={count}" for reason, count in keys.get("refused", {}).items() if count]
        cells = [
            one.name,
            key_of(one.status).rstrip("+"),
            keys.get("wanted") or "-",
            ",".join(keys.get("live", [])) or "-",
            ",".join(lacking(one.status)) or "-",
            " ".join(refused) or "-",
        ]
        rows.append([printable(cell) for cell in cells])
    return rows


def lacking(status: Mapping[str, Any]) -> list[str]:
    """The daemons of its view that have not announced the key that the daemon is to use."""
    keys = status.get("keys", {})
    if keys.get("wanted") is None:
        return []
    others = [name for name in status["members"] if name != status["daemon"]]
    return [name for name in others if keys["wanted"] not in keys["announced"].get(name, ())]


def row_of(status: Mapping[str, Any], counts: Sequence[str]) -> list[str]:
    """One row of the table."""
    window = status["window"]
    used = SIZE.write(window["used_bytes"])
    counter, representative, _ = status["view"].split(".")
    cells = [
        status["daemon"],
        status["site"],
        state_of(status),
        f"{counter}.{representative}",
        str(len(status["members"])),
        *counts,
        str(status.get("sessions", "-")),
        str(status.get("groups", "-")),
        f"{used}/{SIZE.write(window['bytes'])}",
        f"{window['personal_segments']}/{window['global_segments']}",
        key_of(status),
        cut_of(status),
    ]
    return [printable(cell) for cell in cells]


def heads_that_fit(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """The columns that fit a screen of this width."""
    widths = {head: max([len(head), *[len(row[at]) for row in rows]]) for at, head in enumerate(HEADS)}
    heads = list(HEADS)
    for head in DISPENSABLE:
        if sum([widths[one] + _GAP for one in heads]) <= width:
            break
        heads.remove(head)
    return heads


def plain_rows(fleet: Fleet) -> list[list[str]]:
    """One row for each daemon, with counters."""
    return [row_of(one.status, list(map(str, counts_of(one.status, 0.0).values))) for one in fleet.seen]


def plain_table(rows: Sequence[Sequence[str]], heads: Sequence[str] = HEADS) -> str:
    """The table as aligned plain text."""
    lines = [heads, *rows]
    widths = [max([len(line[at]) for line in lines]) for at in range(len(heads))]
    shown = []
    for line in lines:
        cells = [
            cell.rjust(width) if head in RIGHT else cell.ljust(width)
            for cell, width, head in zip(line, widths, heads, strict=True)
        ]
        shown.append((" " * _GAP).join(cells).rstrip())
    return "\n".join(shown)
