"""Compares the tables of two runs of the pipeline over the same input: the same rows in every table.

    python -m tests.manual.compare_runs OUT OTHER

Columns that only one of the two has, as after a change of the pipeline, are left out and named. Exit code 1
means that rows differ.
"""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from hopring.spark.schema import LAYERS

ROWS_SHOWN = 3


def compare(one: Path, other: Path) -> list[str]:
    """What differs, in lines; empty if the runs have the same rows."""
    lines = []
    for layer, tables in LAYERS.items():
        for name in [one for one in tables if one != "late"]:  # When rows came is not a matter of the input.
            places = [out / layer / name for out in (one, other)]
            if not all(place.exists() for place in places):
                missing = [str(place) for place in places if not place.exists()]
                print(f"{layer}/{name}: not there: {', '.join(missing)}", file=sys.stderr)
                continue
            lines += _differences(f"{layer}/{name}", *[_read(place) for place in places])
    verdicts = [json.loads((out / "audit.json").read_text()) for out in (one, other)]
    if verdicts[0] != verdicts[1]:
        lines.append("audit.json differs")
    return lines


def _read(place: Path) -> Any:
    if (place / "run=__HIVE_DEFAULT_PARTITION__").exists():  # pyarrow does not know a type for it.
        place = place / "run=__HIVE_DEFAULT_PARTITION__"
    return pq.read_table(place)


def _differences(name: str, one: Any, other: Any) -> list[str]:
    # A file may have been copied, and the batches of a stream are no matter of the input.
    own = ("file", "batch")
    columns = [column for column in one.column_names if column in other.column_names and column not in own]
    left_out = {*one.column_names, *other.column_names} - set(columns)
    if left_out:
        print(f"{name}: not compared: {', '.join(sorted(left_out))}", file=sys.stderr)
    counts = [Counter(map(repr, table.select(columns).to_pylist())) for table in (one, other)]
    only = [(counts[0] - counts[1]).elements(), (counts[1] - counts[0]).elements()]
    rows = [list(found) for found in only]
    print(f"{name}: {one.num_rows} and {other.num_rows} rows", file=sys.stderr)
    if not any(rows):
        return []
    shown = [f"  only in {place}: {row}" for place, found in enumerate(rows, 1) for row in found[:ROWS_SHOWN]]
    return [f"{name}: {len(rows[0])} and {len(rows[1])} rows are in one run only", *shown]


if __name__ == "__main__":
    found = compare(Path(sys.argv[1]), Path(sys.argv[2]))
    print("\n".join(found) or "the same rows in every table")
    sys.exit(bool(found))
