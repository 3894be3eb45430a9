"""Counts the instructions of a daemon for a message, and of the simulator for a seed, with valgrind.

    python -m hopring.bench.suite.instructions [--functions 30] [--only simulator] [--sealed]

The count does not depend on what else the machine does. Three daemons are in one site, one of them under
callgrind. Two clients at different daemons talk, one short message there and one back; then bundles of 60
messages of 1 KB go to a member at each daemon. Instructions of the kernel are not counted. A daemon under
callgrind is slow, and the token comes round more often for each message than it otherwise does. The simulator
runs the same seeds without and with clients; its start and the first seed, which imports modules, are not
counted. Prints JSON, and on stderr the functions that take the most. Needs valgrind and compiled modules.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from hopring import compiled, sync
from hopring.config import SecurityTuning, dump_toml
from hopring.credentials.directory import KeyDirectory
from hopring.local.plan import ClusterPlan
from hopring.sim.campaign.runner import run_seed
from hopring.sim.campaign.world import WorldKind

_NAME = re.compile(r"\((\d+)\)(?: (.*))?")
_AGAIN = re.compile(r"'\d+$")  # Callgrind tells a function that calls itself apart from itself.
_COMPILED = ("CPyDef_", "CPyPy_")
_DOORS = ("PyObject_Vectorcall", "PyObject_Call")
_DOOR_MAX = 4_000
"""A call from the library above this count is assumed to lead back into compiled code."""
PATIENCE: Final = "20 s"
KEY_DAYS: Final = 30
START_SECONDS: Final = 60.0
WARM_ROUNDS: Final = 60
ROUNDS: Final = 200
MESSAGES: Final = 60
MESSAGE_BYTES: Final = 1024
SHORT: Final = bytes(100)
WARM_SEED: Final = 20_012
SEEDS: Final = (1, 3, 20_004)

Round = Callable[[], None]


class CallgrindCounts:
    """The counts in one output file of callgrind."""

    def __init__(self, file: Path) -> None:
        self.own: Counter[str] = Counter()
        """By function, itself alone."""
        self._names: dict[str, str] = {}
        self._calls: dict[tuple[str, str], list[int]] = {}
        self._read(file)

    @property
    def total(self) -> int:
        """The instructions of all functions."""
        return self.own.total()

    def by_function(self) -> Counter[str]:
        """By compiled function: its own instructions, and those of the Python library called from it."""
        found = Counter({name: count for name, count in self.own.items() if name.startswith(_COMPILED)})
        for (caller, callee), (calls, count) in self._calls.items():
            leads_back = callee.startswith(_DOORS) and count > _DOOR_MAX * calls
            if caller.startswith(_COMPILED) and not callee.startswith(_COMPILED) and not leads_back:
                found[caller] += count
        return found

    def _read(self, file: Path) -> None:
        caller = callee = ""
        calls = 0
        for line in file.read_text().splitlines():
            if line.startswith("fn="):
                caller = self._name(line[3:])
            elif line.startswith("cfn="):
                callee = self._name(line[4:])
            elif line.startswith("calls="):
                calls = int(line[6:].split()[0])
            elif re.match(r"[\d+*-]", line) and len(line.split()) > 1:
                count = int(line.split()[1])
                if calls:
                    known = self._calls.setdefault((caller, callee), [0, 0])
                    known[0] += calls
                    known[1] += count
                    calls = 0
                else:
                    self.own[caller] += count

    def _name(self, text: str) -> str:
        found = _NAME.match(text)
        assert found is not None, "callgrind gives each function a number"
        if found[2]:
            self._names[found[1]] = found[2]
        return _AGAIN.sub("", self._names[found[1]])


def tool(out: Path) -> list[str]:
    """The command that counts, off until it is told to."""
    return ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={out}"]


def control(word: str, process: int) -> None:
    """Tells a process under callgrind to count, to stop, or to write its counts."""
    command = ["callgrind_control", word, str(process)]
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)


class CountedCluster:
    """Three daemon processes, one of them under callgrind."""

    def __init__(self, directory: Path, counted: int, sealed: bool) -> None:
        config = ClusterPlan({"a": 3}, patience=PATIENCE).config()
        if sealed:
            keys = KeyDirectory(directory / "keys")
            keys.create(config.cluster, [], datetime.now(UTC), KEY_DAYS, KEY_DAYS)
            config = replace(config, security=SecurityTuning(str(keys.root)))
        file = directory / "hop.toml"
        file.write_text(dump_toml(config))
        self.out = directory / "callgrind"
        self.urls = [f"hop://127.0.0.1:{daemon.client_port}" for daemon in config.daemons]
        self._logs = [directory / f"{daemon.name}.log" for daemon in config.daemons]
        self._processes: list[subprocess.Popen[bytes]] = []
        for at, daemon in enumerate(config.daemons):
            words = [sys.executable, "-P", "-m", "hopring.daemon.hopd", str(file), "--name", daemon.name]
            command = [*(tool(self.out) if at == counted else []), *words, "--state", str(directory)]
            with self._logs[at].open("wb") as log:
                self._processes.append(subprocess.Popen(command, stderr=log))
        self._counted = self._processes[counted]

    def wait(self) -> None:
        """Waits until they share one view."""
        end = time.monotonic() + START_SECONDS
        while not all("size=3" in log.read_text() for log in self._logs):
            if time.monotonic() > end:
                sys.exit("the daemons do not form one view")
            time.sleep(0.1)

    def count(self, one: Round) -> CallgrindCounts:
        """Counts the daemon's instructions for some rounds."""
        for _ in range(WARM_ROUNDS):
            one()
        self._say("--instr=on")
        for _ in range(ROUNDS):
            one()
        self._say("--instr=off")
        self._say("--dump")
        return CallgrindCounts(self.out.with_name("callgrind.1"))

    def _say(self, word: str) -> None:
        control(word, self._counted.pid)

    def end(self) -> None:
        """Terminates the three daemons and waits for them."""
        for process in self._processes:
            process.terminate()
        for process in self._processes:
            process.wait()


def round_trips(urls: list[str]) -> Round:
    """A message to a client at the second daemon, and one back."""
    asking, answering = [sync.connect(url, membership=False) for url in urls[:2]]
    asking.join("back")
    answering.join("there")

    def one() -> None:
        asking.multicast("there", SHORT)
        answering.receive()
        answering.multicast("back", SHORT)
        asking.receive()

    return one


def bundles(urls: list[str]) -> Round:
    """Messages that fill a packet, to a member at each daemon."""
    sender = sync.connect(urls[0], membership=False)
    members = [sync.connect(url, membership=False) for url in urls]
    for member in members:
        member.join("all")
    bodies = [bytes(MESSAGE_BYTES)] * MESSAGES

    def one() -> None:
        sender.multicast_many("all", bodies)
        for member in members:
            left = MESSAGES
            while left:
                left -= len(list(member.receive_many()))

    return one


def simulate(clients: bool) -> None:
    """Runs the seeds in this process, and has only them counted."""
    run_seed(WARM_SEED, WorldKind(clients))
    control("--instr=on", os.getpid())
    for seed in SEEDS:
        run_seed(seed, WorldKind(clients))
    control("--instr=off", os.getpid())
    control("--dump", os.getpid())


def simulator_counts(directory: Path, sealed: bool, clients: bool) -> CallgrindCounts:
    """Instructions of the simulator for its seeds, in a process of its own; never sealed."""
    assert not sealed, "its worlds are in the clear"
    out = directory / "callgrind"
    words = [
        sys.executable,
        "-m",
        "hopring.bench.suite.instructions",
        "--simulate",
        "clients" if clients else "daemons",
    ]
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    subprocess.run([*tool(out), *words], env=environment, stderr=subprocess.DEVNULL, check=True)
    return CallgrindCounts(out.with_name("callgrind.1"))


def daemon_counts(
    directory: Path, sealed: bool, rounds: Callable[[list[str]], Round], counted: int
) -> CallgrindCounts:
    """Instructions of one of three daemons for some rounds."""
    cluster = CountedCluster(directory, counted, sealed)
    try:
        cluster.wait()
        return cluster.count(rounds(cluster.urls))
    finally:
        cluster.end()


CASES: Final[dict[str, tuple[Callable[[Path, bool], CallgrindCounts], int]]] = {
    "round trip, who asks": (partial(daemon_counts, rounds=round_trips, counted=0), ROUNDS),
    "round trip, who answers": (partial(daemon_counts, rounds=round_trips, counted=1), ROUNDS),
    "bundle, the sender's": (partial(daemon_counts, rounds=bundles, counted=0), ROUNDS),
    "bundle, another's": (partial(daemon_counts, rounds=bundles, counted=1), ROUNDS),
    "simulator, a seed": (partial(simulator_counts, clients=False), len(SEEDS)),
    "simulator, a seed with clients": (partial(simulator_counts, clients=True), len(SEEDS)),
}


def main() -> None:
    """Counts all cases and prints the figures."""
    parser = argparse.ArgumentParser("hopring.bench.suite.instructions")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="count only the cases with this in their name"
    )
    parser.add_argument("--sealed", action="store_true", help="daemons with cluster keys; no simulator")
    parser.add_argument("--simulate", choices=["daemons", "clients"], help=argparse.SUPPRESS)
    parser.add_argument(
        "--functions", type=int, default=0, metavar="N", help="show the N most expensive functions"
    )
    options = parser.parse_args()
    if options.simulate:
        simulate(options.simulate == "clients")
        return
    if shutil.which("valgrind") is None or not compiled.active():
        print("bench: instructions: needs valgrind, and `make compile`; left out", file=sys.stderr)
        return
    for case, (count, times) in CASES.items():
        if options.only not in case or (options.sealed and case.startswith("simulator")):
            continue
        with TemporaryDirectory(prefix="hop-bench-") as name:
            counts = count(Path(name), options.sealed)
        figures = {"case": case, "sealed": options.sealed, "instructions": counts.total // times}
        print(json.dumps(figures), flush=True)
        for function, total in counts.by_function().most_common(options.functions):
            print(f"{total // times:>10,}  {function.removeprefix('CPyDef_')}", file=sys.stderr)


if __name__ == "__main__":
    main()
