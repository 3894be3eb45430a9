"""Idle daemons: CPU time of three sites of two daemons without any messages.

python -m hopring.bench.suite.idle [SECONDS]
"""

import json
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from hopring import compiled
from hopring.config import dump_toml, local_config

BASE_PORT: Final = 24_860
SITES: Final = {"a": 2, "b": 2, "c": 2}
SETTLED_S: Final = 3.0
SECONDS: Final = 20.0


class CpuTaken(NamedTuple):
    """CPU time and wake-ups of a process so far."""

    cpu_us: float
    wakes: int


def taken(pid: int) -> CpuTaken:
    """Reads processor time and wake-ups from /proc."""
    process = Path(f"/proc/{pid}")
    on_cpu_ns = int((process / "schedstat").read_text().split()[0])
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    return CpuTaken(on_cpu_ns / 1_000, int(status["voluntary_ctxt_switches"]))


def show(name: str, representative: bool, before: CpuTaken, after: CpuTaken, seconds: float) -> None:
    """Prints the figures of one daemon."""
    cpu_us, wakes = after.cpu_us - before.cpu_us, after.wakes - before.wakes
    figures = {
        "case": f"{'representative' if representative else 'member'} {name}",
        "percent_of_a_core": round(cpu_us / seconds / 10_000, 2),
        "wakes_per_s": round(wakes / seconds, 1),
        "us_per_wake": round(cpu_us / max(1, wakes)),
        "compiled": compiled.active(),
    }
    print(json.dumps(figures), flush=True)


def main(seconds: float) -> None:
    """Starts the daemons, lets them settle, and reads their counters twice."""
    config = local_config(SITES, base_port=BASE_PORT)
    first = {site.daemons[0].name for site in config.sites}
    names = [daemon.name for daemon in config.daemons]
    with TemporaryDirectory() as directory:
        file = Path(directory) / "hop.toml"
        file.write_text(dump_toml(config))
        daemons = {}
        for name in names:
            command = [sys.executable, "-m", "hopring.daemon.hopd", str(file), "--name", name]
            with (Path(directory) / f"{name}.log").open("w") as log:
                daemons[name] = subprocess.Popen([*command, "--state", directory], stderr=log)
        try:
            while not all(
                f"size={len(names)}" in (Path(directory) / f"{name}.log").read_text() for name in names
            ):
                assert all(one.poll() is None for one in daemons.values()), "all daemons run"
                time.sleep(0.1)
            time.sleep(SETTLED_S)
            before = {name: taken(one.pid) for name, one in daemons.items()}
            time.sleep(seconds)
            after = {name: taken(one.pid) for name, one in daemons.items()}
        finally:
            for one in daemons.values():
                one.terminate()
            for one in daemons.values():
                one.wait()
    for name in names:
        show(name, name in first, before[name], after[name], seconds)


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS)
