"""`hop wide` as its users call it: the story of docs/wide.md, and what the commands show."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.support.waiting import until

from hopring.cli.main import cli
from hopring.wide.local_clusters.blocking import LocalWide

pytestmark = pytest.mark.slow

HOP = [sys.executable, "-m", "hopring.cli.main", "wide"]
Wide = Callable[..., Result]


@pytest.fixture(scope="module")
def world() -> Iterator[LocalWide]:
    with LocalWide(dict.fromkeys(("hub", "norway", "sandiego"), 1)) as made:
        yield made


@pytest.fixture
def wide(world: LocalWide) -> Wide:
    """Calls `hop wide` with the clusters file of the world."""
    runner = CliRunner()

    def call(verb: str, *arguments: str) -> Result:
        return runner.invoke(cli, ["wide", verb, "--file", str(world.path), *arguments])

    return call


class Subscriber:
    """`hop wide sub` as a process."""

    def __init__(self, world: LocalWide, place: Path, cluster: str, *arguments: str) -> None:
        self._output = place / f"{cluster}.out"
        command = [*HOP, "sub", "--file", str(world.path), "--cluster", cluster, *arguments]
        with self._output.open("w") as output:
            self.process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    @property
    def lines(self) -> list[str]:
        return self._output.read_text().splitlines()

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(60)


def test_the_story_of_a_link_that_is_off(world: LocalWide, wide: Wide, tmp_path: Path) -> None:
    names = "hub,norway,sandiego"
    subs = [Subscriber(world, tmp_path, one, "tickets", "--clusters", names) for one in world.clusters]
    try:
        for sub, name in zip(subs, world.clusters, strict=True):
            until(lambda sub=sub, name=name: f"hop: {name} is in tickets" in sub.lines)  # type: ignore[misc]
        sent = wide("send", "tickets", "hello", "--abcast", "--cluster", "hub", "--everywhere")
        assert (sent.exit_code, sent.stderr) == (0, "hop: hub.1 is everywhere\n")
        for sub in subs:
            until(lambda sub=sub: "hello" in sub.lines)  # type: ignore[misc]
        assert wide("link", "norway", "off", "--cluster", "hub").exit_code == 0
        assert wide("send", "tickets", "more", "--cluster", "hub").exit_code == 0
        assert "interLAN spool norway: on, 1 message (tickets, " in wide("spools", "--cluster", "hub").stdout
        late = wide("spools", "--cluster", "hub", "--wait-empty", "1ms")
        assert (late.exit_code, "not all spools are empty" in late.stderr) == (4, True)
        assert wide("link", "norway", "on", "--cluster", "hub").exit_code == 0
        empty = wide("spools", "--cluster", "hub", "--wait-empty", "60s")
        assert (empty.exit_code, "interLAN spool norway: empty, off (tickets)" in empty.stdout) == (0, True)
        for sub in subs:
            until(lambda sub=sub: sub.lines[-2:] == ["hello", "more"])  # type: ignore[misc]
    finally:
        for sub in subs:
            sub.end()


def test_status_shows_all_clusters(world: LocalWide, wide: Wide) -> None:
    shown = wide("status")
    assert shown.exit_code == 0
    for name in world.clusters:
        assert f"{name}: serving, epoch 1, 1 of 1 members: {name}-m1" in shown.stdout
    found = json.loads(wide("status", "--json").stdout)
    assert found["wide"] == "local"
    assert set(found["clusters"]) == set(world.clusters)
    assert [one["open"] for one in found["clusters"]["hub"]["links"]] == [True, True]
    assert "link norway: open, at hub-m1, generation" in wide("links", "--cluster", "hub").stdout


def test_sub_gets_what_waited_and_ends_after_as_many_messages(world: LocalWide, wide: Wide) -> None:
    runner = CliRunner()
    common = ["--file", str(world.path), "--count"]
    arguments = ["wide", "sub", "waited", *common, "1", "--cluster", "norway", "--json"]
    # The first one makes the set; nobody is in it when the message is sent.
    first = subprocess.Popen([*HOP, *arguments[1:]], stdout=subprocess.PIPE, text=True)
    until(lambda: "set waited: group waited" in wide("sets", "--cluster", "norway").stdout)
    first.kill()
    first.wait(60)
    assert first.stdout is not None
    first.stdout.close()
    until(lambda: "set waited" in wide("sets", "--cluster", "hub").stdout)
    assert (
        wide("send", "waited", "for you", "--to", "norway", "--entry", "5", "--cluster", "hub").exit_code == 0
    )
    until(lambda: "wSpool: on, 1 message (waited" in wide("spools", "--cluster", "norway").stdout)
    got = json.loads(runner.invoke(cli, arguments).stdout)

    assert (got["text"], got["entry"], got["to"], got["cluster"]) == ("for you", 5, ["norway"], "hub")


def test_wrong_arguments_have_remedies(world: LocalWide, wide: Wide) -> None:
    del world
    for arguments, code, said in (
        (("send", "nothing", "x", "--cluster", "hub"), 1, "join it in this cluster"),
        (("send", "nothing", "x", "--abcast", "--to", "hub"), 2, "leave --to out"),
        (("send", "nothing", "x", "--timeout", "1"), 2, "write it as 30s"),
        (("status", "--cluster", "oslo"), 1, "choose of hub, norway, sandiego"),
        (("link", "oslo", "off", "--cluster", "hub"), 1, "choose of hub, norway, sandiego"),
        (("run", "--state", "x", "--cluster", "hub", "--member", "m"), 1, "choose of hub-m1"),
        (("run", "--state", "x", "--cluster", "hub", "--cut", "norway"), 2, "give --dangerous"),
        (("run", "--state", "x", "--cluster", "hub", "--listen", "4990"), 2, "write it as 0.0.0.0:4990"),
        (("links", "--cluster", "hub", "--at", "hop://127.0.0.1:1"), 3, "hop://127.0.0.1:1"),
    ):
        done = wide(*arguments)
        assert (done.exit_code, said in done.stderr) == (code, True), done.stderr


def test_check_shows_the_file_and_its_certificates(world: LocalWide, wide: Wide) -> None:
    shown = wide("check")

    assert shown.exit_code == 0
    assert "local, 3 clusters, digest " in shown.stdout
    assert "1  hub: hub-m1 at 127.0.0.1:" in shown.stdout
    assert "dials norway, sandiego" in shown.stdout
    assert "the certificate of sandiego is here, and valid" in shown.stdout
    assert json.loads(wide("check", "--json").stdout)["clusters"] == {"hub": 1, "norway": 2, "sandiego": 3}
    (world.path.parent / "broken.toml").write_text("wide = 1\n")
    broken = CliRunner().invoke(cli, ["wide", "check", "--file", str(world.path.parent / "broken.toml")])
    assert (broken.exit_code, 'write wide = "..."' in broken.stderr) == (7, True)


def test_the_demonstration_fills_a_spool_empties_it_and_finds_nothing_broken() -> None:
    command = [*HOP, "demo", "--messages", "3", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    facts = json.loads(done.stdout)

    assert (facts["ok"], facts["broken"], facts["held"]) == (True, {}, 8)
    assert facts["messages"] == 3 * 3 * 6
    assert facts["deliveries"] == facts["messages"] * 6
    assert facts["spooled"] >= 6
    assert facts["seconds"] < 60


def test_up_leaves_a_file_for_other_commands_and_ends_all_that_it_started(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)}
    environment.pop("HOP_CLUSTERS", None)
    (tmp_path / "elsewhere").mkdir()
    output = tmp_path / "output"
    with output.open("w") as lines:
        up = subprocess.Popen(
            [*HOP, "up", "--clusters", "a=1,b=1", "--out", str(tmp_path / "out")],
            stdout=lines,
            stderr=lines,
            env=environment,
        )
    try:
        until(lambda: "Ctrl-C ends everything" in output.read_text() or up.poll() is not None, seconds=150.0)
        shown = subprocess.run(
            [*HOP, "status"],
            cwd=tmp_path / "elsewhere",
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert shown.returncode == 0, shown.stdout + shown.stderr + output.read_text()
        assert "a: serving" in shown.stdout
        assert "a  a-m1  at hop://127.0.0.1:" in output.read_text()
    finally:
        up.send_signal(signal.SIGINT)
        assert up.wait(60) == 0
    assert not (tmp_path / "hopring-wide" / "clusters.toml").exists()
    assert (tmp_path / "out" / "clusters.toml").exists()
