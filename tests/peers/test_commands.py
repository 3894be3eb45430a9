"""The commands of `hop` at peers, as real processes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest
from tests.support.waiting import until

from hopring import RequestFailed, sync

pytestmark = pytest.mark.slow

SECONDS_MAX = 90.0
HOP = [sys.executable, "-m", "hopring.cli.main"]

_count = count()


class Running:
    """A command that runs, with the lines that it has printed."""

    def __init__(self, words: Sequence[str]) -> None:
        self.process = subprocess.Popen(
            [*HOP, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        self.lines: list[str] = []
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._pipes = (self.process.stdout, self.process.stderr)
        self._rests = ["", ""]  # Of lines that are not complete.
        for pipe in self._pipes:
            os.set_blocking(pipe.fileno(), False)

    def text(self) -> str:
        """All lines so far, of stdout and of stderr."""
        for number, pipe in enumerate(self._pipes):
            while line := pipe.readline():
                self._rests[number] += line
                if self._rests[number].endswith("\n"):  # Otherwise it is still being written.
                    self.lines.append(self._rests[number].rstrip("\n"))
                    self._rests[number] = ""
        return "\n".join(self.lines)

    def until(self, part: str, seconds: float = SECONDS_MAX) -> None:
        """Waits until this is part of what it has printed."""
        until(lambda: part in self.text(), self.text, seconds)

    def tell(self, line: str) -> None:
        """Writes a line to its stdin."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    listed = subprocess.run(
        ["ps", "--ppid", str(pid), "-o", "pid="], capture_output=True, text=True, check=False
    )
    return [int(one) for one in listed.stdout.split()]


@contextmanager
def running(*words: str) -> Iterator[Running]:
    """A command that runs as long as the block."""
    command = Running(words)
    try:
        yield command
    finally:
        # An orderly end would leave the group first; only those who look for that wait for it.
        started = children(command.process.pid)
        command.process.kill()
        for pid in started:
            os.kill(pid, signal.SIGKILL)
        command.process.wait()
        for pipe in (command.process.stdin, command.process.stdout, command.process.stderr):
            assert pipe is not None
            pipe.close()


def run(*words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*HOP, *words], input=stdin, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )


@pytest.fixture
def url() -> str:
    """Peers of a domain of its own."""
    return f"rmp:///commands-{os.getpid()}-{next(_count)}"


def test_a_message_and_views_are_printed_by_a_subscriber(url: str) -> None:
    with running("sub", "trades", "--at", url, "--views", "--name", "sue") as sub:
        sub.until("view of trades: #sue#")
        published = run("pub", "trades", "EURUSD 1.0842", "--at", url)
        assert (published.returncode, published.stdout) == (0, "")
        sub.until("EURUSD 1.0842")
        assert sub.text().count("view of trades") == 1, "a sender that has not joined is in no view"
        with running("sub", "trades", "--at", url, "--name", "tom") as other:
            sub.until("(join of #tom#")
            other.until("is in trades")
            other.process.send_signal(signal.SIGINT)
            sub.until("(leave of #tom#")


def test_members_and_rings_are_listed_and_groups_have_addresses(url: str) -> None:
    with running("sub", "trades", "--at", url, "--name", "sue") as sub:
        sub.until("is in trades")
        members = json.loads(run("members", "trades", "--at", url, "--json").stdout)
        assert [one["name"] for one in members["members"]] == ["sue"]
        (ring,) = json.loads(run("rmp", "rings", "trades", "--at", url, "--json").stdout)
        named = [one["process"] for one in ring["members"] if one["name"] == "sue"]
        assert set(named) <= set(ring["answered"])
        assert ring["token"] in [one["process"] for one in ring["members"]]
        assert (ring["version"], ring["minimum"], ring["primary"]) == (1, 1, False)
        shown = run("rmp", "rings", "trades", "--at", url)
        assert "token" in shown.stdout
        assert "sue" in shown.stdout
    nobody = run("rmp", "rings", "nothing", "--at", url)
    assert (nobody.returncode, "nobody answers" in nobody.stderr) == (3, True)
    name = json.loads(run("rmp", "name", "trades", "--at", url, "--json").stdout)
    assert name["address"].startswith("239.")
    assert 32768 <= name["port"] <= 65535
    assert run("rmp", "name", "trades", "--at", "hop://localhost").returncode == 2


def test_a_lock_goes_on_when_its_holder_is_killed(url: str) -> None:
    command = ["--", "sh", "-c", "echo fence $HOP_FENCE; exec sleep 60"]
    first = ["lock", "jobs", "7", "--at", f"{url}?minimum=majority&found=yes", "--timeout", "60"]
    others = ["lock", "jobs", "7", "--at", f"{url}?minimum=majority", "--timeout", "60"]
    with running(*first, *command) as one:
        one.until("fence ")
        old = int(one.text().split("fence ")[1].split()[0])
        with running(*others, *command) as two, running(*others, *command) as three:
            until(
                lambda: json.loads(run("members", "jobs", "--at", url, "--json").stdout or "{}")["members"][2:]
            )
            sleeping = children(one.process.pid)
            one.process.kill()
            for pid in sleeping:
                os.kill(pid, signal.SIGKILL)
            until(lambda: "fence " in two.text() + three.text(), seconds=SECONDS_MAX)
            fence = int((two.text() + three.text()).split("fence ")[1].split()[0])
    assert fence > old > 0


def test_a_request_is_answered_by_a_command(url: str) -> None:
    with running("reply", "upper", "--at", url, "--", "tr", "a-z", "A-Z") as server:
        server.until("serves upper")
        answered = run("request", "upper", "good day", "--at", url)
        assert (answered.returncode, answered.stdout.strip()) == (0, "GOOD DAY")
    nobody = run("request", "upper", "x", "--at", url)
    assert (nobody.returncode, "nobody serves" in nobody.stderr) == (1, True), nobody.stderr


COUNTER = """
import json, sys
count = 0
for line in sys.stdin:
    request = json.loads(line)
    if request["data"] == "end":
        sys.exit(0)
    count += 1
    answer = {"error": "no number"} if request["data"] == "x" else {"data": f"{request['data']} {count}"}
    print(json.dumps(answer), flush=True)
"""


def test_a_command_is_started_by_the_first_request_and_kept(url: str, tmp_path: Path) -> None:
    program = tmp_path / "counter.py"
    program.write_text(COUNTER)
    with running("reply", "count", "--at", url, "--start", "--", sys.executable, str(program)) as server:
        server.until("serves count")
        assert children(server.process.pid) == []
        with sync.connect(url) as session:
            answers = [session.request("count", one, timeout_seconds=60).data for one in (b"a", b"b")]
            assert answers == [b"a 1", b"b 2"]
            assert len(children(server.process.pid)) == 1
            for wrong, text in ((b"x", "no number"), (b"end", "ended")):
                with pytest.raises(RequestFailed, match=text):
                    session.request("count", wrong, timeout_seconds=60)
            assert session.request("count", b"c", timeout_seconds=60).data == b"c 1"


def test_a_shell_joins_sends_and_shows(url: str) -> None:
    with running("sub", "trades", "--at", url) as sub, running("shell", "--at", url) as shell:
        sub.until("is in trades")
        shell.tell("join trades")
        shell.tell("send trades from the shell")
        sub.until("from the shell")
        shell.tell("quit")


def test_a_spool_is_run_and_read(url: str, tmp_path: Path) -> None:
    with running("spool", "run", "--group", "trades", "--at", url, "--spool", str(tmp_path)) as spool:
        spool.until("trades")
        run("pub", "trades", "-", "--at", url, stdin="one\ntwo\n")
        until(lambda: "two" in run("spool", "replay", "trades", "--spool", str(tmp_path)).stdout, spool.text)
    replayed = run("spool", "replay", "trades", "--spool", str(tmp_path)).stdout
    assert [line.split()[-1] for line in replayed.splitlines()] == ["one", "two"]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["pub", "g", "x", "--at", "rmp://127.0.0.1/?ttl=1"], 7, "insecure=yes"),
        (["pub", "g", "x", "--at", "rmp:///?minimum=many"], 2, "majority"),
        (["pub", "g", "x", "--at", "rmp://nowhere/"], 2, "IPv4"),
        (["sub", "g", "--at", "rmp:///none?minimum=majority"], 1, "found"),
        (["pub", "g", "x", "--at", "rmp://192.0.2.7/?insecure=yes"], 3, "address of this host"),
    ],
)
def test_a_wrong_url_ends_with_one_line_and_the_remedy(words: list[str], code: int, says: str) -> None:
    ended = run(*words)
    assert (ended.returncode, says in ended.stderr) == (code, True), ended.stderr
    assert len([line for line in ended.stderr.splitlines() if says in line]) == 1
