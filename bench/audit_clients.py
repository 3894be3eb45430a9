"""Audit of clients: every property of EVS-C over a trace of a million deliveries to sessions, with Spark.

    python -m bench.audit_clients [DELIVERIES ...]

Sixty-four sessions at eight daemons, each in four of forty groups, that come and go through changes of network.
The trace is made beforehand, among temporary files; each audit is a process of its own.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from bench._client_trace import ClientTrace
from bench.audit import FIGURES_FILE, audit_one

SIZES: Final = (1_000_000,)
DAEMONS, SESSIONS, GROUPS, GROUPS_EACH = 8, 64, 40, 4


def measure(deliveries: int) -> dict[str, object]:
    """Makes a trace and audits it."""
    from hopring.check.trace_files import write_parquet  # noqa: PLC0415  The process that measures needs it not.

    directory = Path(tempfile.mkdtemp(prefix="hopring-audit-"))
    try:
        events = list(ClientTrace(DAEMONS, SESSIONS, GROUPS, GROUPS_EACH).events(deliveries))
        write_parquet(events, directory / "trace.parquet")
        count = len(events)
        del events
        began = time.monotonic()
        subprocess.run([sys.executable, "-m", "bench.audit_clients", "--one", str(directory)], check=True)
        return {
            "case": f"{deliveries} deliveries to sessions",
            "events": count,
            "seconds": round(time.monotonic() - began, 1),
            **json.loads((directory / FIGURES_FILE).read_text()),
        }
    finally:
        shutil.rmtree(directory)


def main() -> None:
    """The command line."""
    if sys.argv[1:2] == ["--one"]:
        audit_one(sys.argv[2])
        return
    for deliveries in map(int, sys.argv[1:] or SIZES):
        print(json.dumps(measure(deliveries)), flush=True)


if __name__ == "__main__":
    main()
