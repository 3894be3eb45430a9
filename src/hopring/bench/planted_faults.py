"""Faults that the bench of the audit writes into a trace, by columns, and where the audit has to find them."""

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

Columns = dict[str, Any]

SWAPPED_SINCE: Final = 30
"""The view after which two messages of one sender are swapped."""


@dataclass
class PlantedFaults:
    """Faults in the deliveries and views of one daemon, and the properties that each of them breaks.

    Each is planted once, in a view of its own.
    """

    daemon: int
    broken: dict[str, str] = field(default_factory=dict)  # By property: a part of the witness that names it.

    def alter(self, counter: int, columns: Columns, name: str) -> Columns:
        """The deliveries before the signal with the fault of this view, if it has one."""
        if counter > SWAPPED_SINCE and "2.11" not in self.broken:
            return self._swapped(columns)
        alter = {11: self._twice, 21: self._lost, 51: self._never_sent}.get(counter)
        return columns if alter is None else alter(columns, name)

    def members(self, counter: int, names: list[str]) -> list[str]:
        """The members that the daemon shows of a view."""
        if counter != 55:
            return names
        self.broken["2.20"] = "view 55"
        return names[:-1]

    def _twice(self, columns: Columns, _name: str) -> Columns:
        at = _middle(columns, "safe")
        self.broken["2.5"] = _shown(columns, at)
        rows = np.arange(len(columns["service"]))
        return rows_at(columns, np.append(rows, at))

    def _lost(self, columns: Columns, _name: str) -> Columns:
        at = _middle(columns, "safe")
        self.broken["2.7"] = _shown(columns, at)
        return rows_at(columns, np.delete(np.arange(len(columns["service"])), at))

    def _swapped(self, columns: Columns) -> Columns:
        pair = _pair(columns, "fifo")
        if pair is None:
            return columns  # In a short trace nobody may have sent two in this view; then a later one.
        one, other = pair
        self.broken["2.11"] = _shown(columns, one)
        rows = np.arange(len(columns["service"]))
        rows[one], rows[other] = other, one
        return rows_at(columns, rows)

    def _never_sent(self, columns: Columns, name: str) -> Columns:
        at = _middle(columns, "reliable")
        number = 10**12
        made = {key: values[at : at + 1].copy() for key, values in columns.items()}
        made["message"] = np.array([f"{made['sender'][0]}:{number}"])
        made["ord_place"] = made["ord_place"] + 1  # A stamp that no other message has.
        self.broken["2.6"] = f":{number}"
        assert made["view"][0] == name, "it is a message of this view"
        return {key: np.concatenate([values, made[key]]) for key, values in columns.items()}


def _middle(columns: Columns, service: str) -> int:
    """The place of a message of this service in the middle of these."""
    places = np.flatnonzero(columns["service"] == service)
    return int(places[len(places) // 2])


def _pair(columns: Columns, service: str) -> tuple[int, int] | None:
    """The places of two messages of this service by one sender, one after the other."""
    last: dict[str, int] = {}
    for at in np.flatnonzero(columns["service"] == service):
        sender = str(columns["sender"][at])
        if sender in last:
            return last[sender], int(at)
        last[sender] = int(at)
    return None


def rows_at(columns: Columns, rows: Any) -> Columns:
    """These rows of all columns, in this order."""
    return {name: values[rows] for name, values in columns.items()}


def _shown(columns: Columns, at: int) -> str:
    """The message as witnesses show it."""
    sender, number = str(columns["message"][at]).rsplit(":", 1)
    return f"{sender.partition('#')[0]}:{number}"
