"""`hop sub` and `hop shell` while all daemons are restarted, one after the other."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Empty, Queue

import pytest
from tests.hopd.served_cluster import ServedCluster

from hopring import sync

pytestmark = pytest.mark.slow

SECONDS_MAX = 60.0


class Command:
    """A running `hop` command and its output."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-u", "-m", "hopring.cli.main", *arguments]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, bufsize=1)
        self.said: dict[str, list[str]] = {"out": [], "err": []}
        self._news: Queue[None] = Queue()
        streams = (("out", self.process.stdout), ("err", self.process.stderr))
        self._readers = [threading.Thread(target=self._read, args=one, daemon=True) for one in streams]
        for reader in self._readers:
            reader.start()

    def _read(self, name: str, stream: Iterator[str]) -> None:
        for line in stream:
            self.said[name].append(line.rstrip("\n"))
            self._news.put(None)

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def until(self, condition: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None) -> None:
        end = time.monotonic() + SECONDS_MAX
        while not condition():
            assert time.monotonic() < end, self.said
            assert self.process.poll() is None, self.said
            meanwhile()
            try:
                self._news.get(timeout=0.3)
            except Empty:
                continue

    def end(self) -> int:
        """Waits for the end of the command; returns its exit code once all output is read."""
        code = self.process.wait(SECONDS_MAX)
        for reader in self._readers:
            reader.join(SECONDS_MAX)
        return code

    def count(self, stream: str, text: str) -> int:
        return sum(text in line for line in self.said[stream])


@contextmanager
def running(*arguments: str) -> Iterator[Command]:
    command = Command(*arguments)
    try:
        yield command
    finally:
        command.process.kill()
        command.process.wait()


def restart_all(served: ServedCluster, back: Callable[[], bool], command: Command) -> None:
    """Restarts all daemons in turn: kills the first and ends the others with SIGTERM."""
    daemons = served.daemons
    for at, name in enumerate(daemons.names):
        (daemons.stop if at else daemons.kill)(name)
        daemons.start(name)
        daemons.wait(daemons.together)
    command.until(back)


@pytest.mark.parametrize("several", [False, True], ids=["one daemon", "several daemons"])
def test_sub_reconnects_after_a_rolling_restart_and_reports_gaps(served: ServedCluster, several: bool) -> None:
    urls = [served.url("us1"), *([served.url("eu1")] if several else [])]
    with running("sub", "g", "--at", ",".join(urls), "--name", "reader", "--json") as sub:
        sub.until(lambda: sub.count("err", "is in g") == 1)
        with sync.connect(served.url("eu1"), reconnect=False) as writer:
            writer.multicast("g", b"before")
        sub.until(lambda: len(sub.said["out"]) == 1)
        restart_all(served, lambda: sub.count("err", "connected again as #reader#") >= 1, sub)

        def write() -> None:
            with sync.connect(served.url("eu1"), reconnect=False) as writer:
                writer.multicast("g", b"after")

        sub.until(lambda: sub.count("out", '"data": "after"') >= 1, write)

        facts = [json.loads(line) for line in sub.said["out"]]
        assert [one["event"] for one in facts][:2] == ["message", "reconnected"]
        assert facts[1]["groups"] == ["g"]
        again = next(line for line in sub.said["err"] if "connected again" in line)
        assert "messages sent to g meanwhile are missing" in again


def test_shell_reconnects_after_a_rolling_restart_and_rejoins_its_groups(served: ServedCluster) -> None:
    with running("shell", "--at", served.url("us1"), "--name", "anna") as shell:
        shell.type("join g")
        shell.until(lambda: shell.count("out", "-- view of g: #anna#us1 (join") == 1)
        restart_all(served, lambda: shell.count("err", "connected again as #anna#us1") >= 1, shell)
        shell.until(lambda: shell.count("out", "-- view of g: #anna#us1 (join") >= 2)
        shell.type("send g still here")
        shell.until(lambda: shell.count("out", "g #anna#us1 [agreed] still here") == 1)

        assert shell.count("err", "the connection to us1 is lost; reconnecting") >= 1
        shell.type("quit")
        assert shell.end() == 0


@pytest.mark.parametrize("verb", [("sub", "g"), ("shell",)], ids=["sub", "shell"])
def test_a_command_that_does_not_reconnect_or_gives_up_ends_with_exit_code_1(
    served: ServedCluster, verb: tuple[str, ...]
) -> None:
    with (
        running(*verb, "--at", served.url("us1"), "--give-up", "0") as at_once,
        running(*verb, "--at", served.url("us1"), "--give-up", "1") as later,
    ):
        for one in (at_once, later):
            one.until(lambda one=one: one.count("err", "hop: #") == 1)  # type: ignore[misc]
        served.daemons.kill("us1")
        assert at_once.end() == 1
        assert later.end() == 1
    assert at_once.count("err", "is lost; reconnecting") == 0
    assert later.count("err", "the connection to us1 is lost; reconnecting") == 1
    assert later.count("err", "no way back") == 1
