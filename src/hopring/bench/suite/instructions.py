"""How many instructions a daemon takes for a message, counted by valgrind, whatever else the machine does.

    python -m hopring.bench.suite.instructions [--functions 30]

Three daemons in one site, one of them under callgrind. Two clients at different daemons talk, one short message
there and one back; then bundles of 60 messages of 1 KB go to a member at each daemon. What the kernel does is
not counted. A daemon under callgrind is slow, and the token comes round more often for each message than it
otherwise does. Prints JSON, and on stderr which functions take the most. Needs valgrind and compiled modules.
"""

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from hopring import compiled, sync
from hopring.config import dump_toml
from hopring.local.plan import Plan

_NAME = re.compile(r"\((\d+)\)(?: (.*))?")
_AGAIN = re.compile(r"'\d+$")  # Callgrind tells a function that calls itself apart from itself.
_COMPILED = ("CPyDef_", "CPyPy_")
_DOORS = ("PyObject_Vectorcall", "PyObject_Call")
_DOOR_MAX = 4_000
"""A call of anything by the library that takes more than this is taken to lead back into compiled code."""
PATIENCE: Final = "20 s"
START_SECONDS: Final = 60.0
WARM_ROUNDS: Final = 60
ROUNDS: Final = 200
MESSAGES: Final = 60
MESSAGE_BYTES: Final = 1024
SHORT: Final = bytes(100)

Round = Callable[[], None]


class Counts:
    """One output file of callgrind."""

    def __init__(self, file: Path) -> None:
        self.own: Counter[str] = Counter()
        """By function, itself alone."""
        self._names: dict[str, str] = {}
        self._calls: dict[tuple[str, str], list[int]] = {}
        self._read(file)

    @property
    def total(self) -> int:
        """All of it."""
        return self.own.total()

    def by_function(self) -> Counter[str]:
        """By compiled function: itself, and what it has Python's library do."""
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


class Cluster:
    """Three daemons as processes; one of them is counted."""

    def __init__(self, directory: Path, counted: int) -> None:
        config = Plan({"a": 3}, patience=PATIENCE).config()
        file = directory / "hop.toml"
        file.write_text(dump_toml(config))
        self.out = directory / "callgrind"
        self.urls = [f"hop://127.0.0.1:{daemon.client_port}" for daemon in config.daemons]
        self._logs = [directory / f"{daemon.name}.log" for daemon in config.daemons]
        self._processes: list[subprocess.Popen[bytes]] = []
        for at, daemon in enumerate(config.daemons):
            words = [sys.executable, "-P", "-m", "hopring.daemon.hopd", str(file), "--name", daemon.name]
            tool = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={self.out}"]
            command = [*(tool if at == counted else []), *words, "--state", str(directory)]
            with self._logs[at].open("wb") as log:
                self._processes.append(subprocess.Popen(command, stderr=log))
        self._counted = self._processes[counted]

    def wait(self) -> None:
        """Until they are in one view."""
        end = time.monotonic() + START_SECONDS
        while not all("size=3" in log.read_text() for log in self._logs):
            if time.monotonic() > end:
                sys.exit("the daemons do not come together")
            time.sleep(0.1)

    def count(self, one: Round) -> Counts:
        """What the daemon takes for some rounds."""
        for _ in range(WARM_ROUNDS):
            one()
        self._say("--instr=on")
        for _ in range(ROUNDS):
            one()
        self._say("--instr=off")
        self._say("--dump")
        return Counts(self.out.with_name("callgrind.1"))

    def _say(self, word: str) -> None:
        command = ["callgrind_control", word, str(self._counted.pid)]
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)

    def end(self) -> None:
        """Ends them."""
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


CASES: Final[dict[str, tuple[Callable[[list[str]], Round], int]]] = {
    "round trip, who asks": (round_trips, 0),
    "round trip, who answers": (round_trips, 1),
    "bundle, the sender's": (bundles, 0),
    "bundle, another's": (bundles, 1),
}


def main() -> None:
    """Counts."""
    parser = argparse.ArgumentParser("hopring.bench.suite.instructions")
    parser.add_argument("--functions", type=int, default=0, metavar="N", help="show the N dearest functions")
    functions = parser.parse_args().functions
    if shutil.which("valgrind") is None or not compiled.active():
        print("bench: instructions: needs valgrind, and `make compile`; left out", file=sys.stderr)
        return
    for case, (rounds, counted) in CASES.items():
        with TemporaryDirectory(prefix="hop-bench-") as name:
            cluster = Cluster(Path(name), counted)
            try:
                cluster.wait()
                counts = cluster.count(rounds(cluster.urls))
            finally:
                cluster.end()
        print(json.dumps({"case": case, "instructions": counts.total // ROUNDS}), flush=True)
        for function, count in counts.by_function().most_common(functions):
            print(f"{count // ROUNDS:>10,}  {function.removeprefix('CPyDef_')}", file=sys.stderr)


if __name__ == "__main__":
    main()
