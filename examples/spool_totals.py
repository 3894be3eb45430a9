"""A small pipeline over a spool: adds up the trades of a group, and goes on where the last run ended.

    hop spool run --group trades --spool spools       keeps the group on disk
    hop pub trades "EURUSD 100"
    python examples/spool_totals.py spools trades totals.json

Records have offsets, and the result is written together with the next offset: whenever this program is killed,
each record counts once. The same spool is a table and a stream for Spark (docs/spark.md).
"""

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from hopring.spool.files import directory_of
from hopring.spool.reading import bounds, read
from hopring.spool.record import RecordKind


def load(file: Path) -> dict[str, Any]:
    """The result of the last run, or an empty one."""
    if not file.exists():
        return {"next_offset": 0, "gaps": 0, "totals": {}}
    state: dict[str, Any] = json.loads(file.read_text())
    return state


def save(file: Path, state: dict[str, Any]) -> None:
    """Replaces the file at once, so that it is never half written."""
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(state, indent=1) + "\n")
    fresh.replace(file)


def add_up(directory: Path, state: dict[str, Any]) -> None:
    """Adds all records since the last run."""
    start, end = bounds(directory)
    if state["next_offset"] < start:
        sys.exit(
            f"records {state['next_offset']} to {start} have been removed: delete the result and begin again"
        )
    for record in read(directory, state["next_offset"], end):
        if record.header.kind is RecordKind.MESSAGE:
            symbol, amount = record.data.decode().split()
            state["totals"][symbol] = state["totals"].get(symbol, 0) + int(amount)
        elif record.header.kind is RecordKind.GAP:
            # The spooler was away: the totals are a lower bound from here on.
            state["gaps"] += 1
    state["next_offset"] = end


def main() -> None:
    """Reads the command line and brings the result up to date."""
    parser = ArgumentParser(description="Add up the trades in a spool.")
    parser.add_argument("spools", type=Path, help="directory of the spools")
    parser.add_argument("group")
    parser.add_argument("result", type=Path, help="JSON file with the totals")
    options = parser.parse_args()
    state = load(options.result)
    add_up(directory_of(options.spools, options.group), state)
    save(options.result, state)
    print(json.dumps(state))


if __name__ == "__main__":
    main()
