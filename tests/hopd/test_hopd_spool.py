"""`hopd --spool`: a process beside the daemon writes spools, comes back when it is killed, and ends with it."""

import os
import re
import signal
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.hopd.one_daemon import OneDaemon, alone
from tests.hopd.served_cluster import run
from tests.support.free_ports import free_base_port
from tests.support.waiting import until

from hopring import Message, sync
from hopring.config import Config, SpoolTuning, local_config
from hopring.spool.errors import NoSpool
from hopring.spool.reading import bounds, read
from hopring.spool.record import RecordedGap, RecordKind, SpoolRecord, decode_body

pytestmark = pytest.mark.slow
SECONDS = 60.0
PID = re.compile(r"spooler pid=(\d+)")


def config() -> Config:
    return local_config({"eu": 1}, base_port=free_base_port(3))


def url(chosen: Config) -> str:
    return f"hop://127.0.0.1:{chosen.daemons[0].client_port}"


def records(directory: Path) -> list[SpoolRecord]:
    try:
        known = bounds(directory)
    except NoSpool:
        return []
    return list(read(directory, known.start, known.end))


def messages(directory: Path) -> list[bytes]:
    return [one.data for one in records(directory) if one.header.kind is RecordKind.MESSAGE]


def spooler_pids(daemon: OneDaemon) -> list[int]:
    return [int(one) for one in PID.findall(daemon.log())]


def runs(pid: int) -> bool:
    """Whether the process is there and not merely unreaped."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@contextmanager
def client(chosen: Config, daemon: OneDaemon) -> Iterator[sync.Session]:
    daemon.wait_for_log("spooler pid")
    with sync.connect(url(chosen), timeout_seconds=SECONDS) as session:
        yield session


def spooled_by(session: sync.Session, group: str) -> bool:
    return any(one.name == "spooler" for one in session.members(group).members)


def test_what_a_daemon_spools_can_be_replayed_and_a_killed_spooler_comes_back(tmp_path: Path) -> None:
    chosen, root = config(), tmp_path / "spool"
    port = chosen.daemons[0].port + 2
    words = ("--spool", str(root), "--spool-group", "trades.*", "--metrics", str(port))
    with alone(chosen, tmp_path, "eu1", *words) as daemon, client(chosen, daemon) as session:
        with session.join("trades.eu"):
            until(lambda: spooled_by(session, "trades.eu"))
            for number in range(100):
                session.multicast("trades.eu", b"%d" % number)
            until(lambda: len(messages(root / "trades.eu")) == 100)
        assert session.daemon_facts().problems == ()

        os.kill(spooler_pids(daemon)[0], signal.SIGKILL)
        daemon.wait_for_log("spooler_ended")
        assert "killed by SIGKILL" in daemon.log()
        session.multicast("trades.eu", b"nobody is there")
        until(lambda: spooled_by(session, "trades.eu"))
        session.multicast("trades.eu", b"100")
        until(lambda: messages(root / "trades.eu")[-1] == b"100")

        assert messages(root / "trades.eu") == [b"%d" % number for number in range(101)]
        gaps = [one for one in records(root / "trades.eu") if one.header.kind is RecordKind.GAP]
        assert [decode_body(one.data, RecordedGap).reason for one in gaps] == ["the spooler was not running"]
        # The daemon's process is the client's past as well: a join that begins there is served by it.
        with session.join("trades.eu", since=0, timeout_seconds=SECONDS) as group:
            session.multicast("trades.eu", b"live")
            replayed: list[bytes] = []
            while replayed[-1:] != [b"live"]:
                event = group.receive(timeout_seconds=SECONDS)
                replayed += [event.data] if isinstance(event, Message) else []
        assert replayed == [b"%d" % number for number in range(101)] + [b"live"]
        until(lambda: not session.daemon_facts().problems)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as page:
            metrics = page.read().decode().splitlines()
        assert {"hopring_spooler_up 1", "hopring_spooler_starts_total 2"} <= set(metrics)
    assert not any(runs(pid) for pid in spooler_pids(daemon))


def test_a_spooler_ends_with_a_killed_daemon_and_the_next_daemon_goes_on_with_the_spool(tmp_path: Path) -> None:
    spool = SpoolTuning("spools/{name}", ("trades",), ("eu1",), sync_us=20_000)
    chosen = replace(config(), spool=spool)
    directory = tmp_path / "spools" / "eu1" / "trades"
    seen: list[bytes] = []
    for life in range(2):
        with alone(chosen, tmp_path, "eu1") as daemon:
            with client(chosen, daemon) as session:
                until(lambda: spooled_by(session, "trades"))
                seen.append(b"%d" % life)
                session.multicast("trades", seen[-1])
                until(lambda: messages(directory) == seen)
            (pid,) = spooler_pids(daemon)
            daemon.process.kill()
            until(lambda: not runs(pid))  # noqa: B023  Asked at once.
    assert [one.header.kind for one in records(directory)].count(RecordKind.GAP) == 1


def test_a_spooler_that_cannot_write_is_tried_again_later_and_later(tmp_path: Path) -> None:
    chosen, root = config(), tmp_path / "file" / "spool"
    root.parent.write_text("in the way of the directory")
    words = ("--spool", str(root), "--spool-group", "trades")
    with alone(chosen, tmp_path, "eu1", *words) as daemon:
        daemon.wait_for_log("spooler_ended", 3)
        told = re.findall(r'spooler_ended text="(.*)" again_in_seconds=([\d.]+)', daemon.log())
        assert [float(seconds) for _, seconds in told[:3]] == [0.5, 1.0, 2.0]
        assert "exit code 1" in told[0][0]
        assert str(root) in told[0][0]
        # While one runs that a busy machine has not let fail yet, there is no problem.
        problem = "the spooler has ended (exit code 1)"
        with client(chosen, daemon) as session:
            until(lambda: any(problem in one for one in session.daemon_facts().problems))
        until(lambda: problem in run("doctor", str(daemon.file))[1])


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--spool-group", "trades"), "--spool-group without a directory; add --spool DIR"),
        (("--spool", "spool"), "--spool without groups; add --spool-group PATTERN"),
    ],
)
def test_half_of_the_options_is_refused(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    with alone(config(), tmp_path, "eu1", *words) as daemon:
        assert daemon.process.wait(SECONDS) == 7
        assert told in daemon.log()
