"""Spool: appends of 1 KB records in batches of 200, with a sync for each and by interval, and their replay.

The speed of the bare disk is measured in the same run, in turn: the same bytes with a plain write and sync to
one file. A batch is one delivery to a client: one run of messages of a bundle.

    python -m hopring.bench.suite.spool [--directory DIR] [--seconds S]
"""

import argparse
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final

from hopring.ids import DaemonId, Incarnation, Place, ViewId
from hopring.services import Service
from hopring.spool.arrow import read_batches
from hopring.spool.reading import bounds, plan, read
from hopring.spool.record import RecordHeader, RecordKind, RecordRun, run_of
from hopring.spool.writer import SpoolOptions, SpoolWriter

BODY_BYTES: Final = 1024
BATCH: Final = 200
TURNS: Final = 5
SYNC_SECONDS: Final = 1.0
VIEW: Final = ViewId(3, DaemonId(0), Incarnation(17))


def facts_of(number: int) -> RecordHeader:
    """The columns that the messages of one delivery share."""
    return RecordHeader(
        RecordKind.MESSAGE, number, "#anna#eu1", ("load",), Service.AGREED, Place(VIEW, number, 0)
    )


def batch_of(number: int, bodies: list[bytes]) -> list[RecordRun]:
    """The run of messages of one delivery."""
    return [run_of(facts_of(number), bodies)]


Turn = tuple[int, float, float]
"""Number of calls, seconds, and CPU seconds of a turn."""


def for_seconds(act: Callable[[int], None], last: Callable[[], None], seconds: float) -> Turn:
    """Calls `act` for some seconds, then `last` once."""
    begin, used = time.perf_counter(), time.process_time()
    count = 0
    while time.perf_counter() - begin < seconds:
        act(count)
        count += 1
    last()
    return count, time.perf_counter() - begin, time.process_time() - used


def rates(done: list[Turn]) -> dict[str, float]:
    """Records per second of several turns, and CPU time per record."""
    each = [count * BATCH / seconds for count, seconds, _ in done]
    cpu_us = median([used * 1e6 / count / BATCH for count, _, used in done])
    spread = {"least": round(min(each)), "most": round(max(each))}
    return {"records_per_s": round(median(each)), **spread, "cpu_us_per_record": round(cpu_us, 2)}


def appends(root: Path, sync_seconds: float, seconds: float) -> dict[str, object]:
    """The spool and a bare file in turn; both are synced within the measured time."""
    bodies = [os.urandom(BODY_BYTES) for _ in range(BATCH)]
    whole = b"".join(bodies)
    (columns,) = batch_of(0, bodies)  # A bundle comes as columns; a spooler makes none.
    file = os.open(root / "bare", os.O_CREAT | os.O_WRONLY, 0o600)
    synced_at = time.perf_counter()

    def bare(_: int) -> None:
        nonlocal synced_at
        os.write(file, whole)
        if time.perf_counter() - synced_at >= sync_seconds:
            os.fdatasync(file)
            synced_at = time.perf_counter()

    name = "load" if sync_seconds else "synced"
    writer = SpoolWriter(root, name, SpoolOptions(sync_seconds=sync_seconds))

    def spooled(number: int) -> None:
        writer.append([replace(columns, header=facts_of(number))])

    ours: list[Turn] = []
    theirs: list[Turn] = []
    for _ in range(TURNS):
        theirs.append(for_seconds(bare, lambda: os.fdatasync(file), seconds))
        ours.append(for_seconds(spooled, writer.sync, seconds))
    writer.close()
    os.close(file)
    (root / "bare").unlink()
    spool, plain = rates(ours), rates(theirs)
    ratio = round(spool["records_per_s"] / plain["records_per_s"], 2)
    return {"spool": spool, "bare": plain, "spool_to_bare": ratio}


def replay(root: Path, records_max: int = 1_000_000) -> dict[str, object]:
    """Reads the spool as tables and as records."""
    directory = root / "load"
    known = bounds(directory)
    end = min(known.end, known.start + records_max)
    tables: list[float] = []
    single: list[float] = []
    used: list[float] = []
    for _ in range(3):
        begin, cpu = time.perf_counter(), time.process_time()
        rows = 0
        for portion in plan(directory, known.start, end):
            rows += sum(batch.num_rows for batch in read_batches(portion))
        tables.append(rows / (time.perf_counter() - begin))
        used.append((time.process_time() - cpu) * 1e6 / rows)
        assert rows == end - known.start, "all of them"
        begin = time.perf_counter()
        rows = sum(1 for _ in read(directory, known.start, end))
        single.append(rows / (time.perf_counter() - begin))
    return {
        "records": end - known.start,
        "tables_records_per_s": round(median(tables)),
        "tables_least": round(min(tables)),
        "tables_cpu_us_per_record": round(median(used), 2),
        "single_records_per_s": round(median(single)),
        "single_least": round(min(single)),
    }


def main() -> None:
    """Prints the figures of all cases."""
    parser = argparse.ArgumentParser(prog="python -m hopring.bench.suite.spool", description="Measure spools.")
    parser.add_argument("--directory", type=Path, default=None, help="directory on the disk to be measured")
    parser.add_argument("--seconds", type=float, default=1.0, help="length of a turn")
    wish = parser.parse_args()
    root = Path(tempfile.mkdtemp(prefix="hopring-bench-spool-", dir=wish.directory))
    try:
        for case, sync_seconds in (("sync per batch", 0.0), ("sync by interval", SYNC_SECONDS)):
            print(json.dumps({"case": case, **appends(root, sync_seconds, wish.seconds)}), flush=True)
        print(json.dumps({"case": "replay", **replay(root)}), flush=True)
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
