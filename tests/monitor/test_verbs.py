"""Each verb of `hop monitor` against running daemons, and requests that they refuse."""

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import cast

import pytest
from click.testing import CliRunner, Result
from tests.monitor.fleet import monitor
from tests.support.waiting import until as wait

from hopring import View, sync
from hopring.cli.main import cli
from hopring.local.blocking import Cluster

pytestmark = pytest.mark.slow

SECONDS_MAX = 180.0
NAMES = ["eu1", "eu2", "us1"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with sync.local_cluster({"eu": 2, "us": 1}, patience="1s", trace=False) as cluster:
        yield cluster


def hop(cluster: Cluster, *arguments: str) -> Result:
    return monitor(cluster.admin_directory, *arguments)


def told(cluster: Cluster, *arguments: str) -> dict[str, dict[str, object]]:
    result = hop(cluster, *arguments, "--json")
    assert result.exit_code == 0, result.output
    facts: dict[str, dict[str, object]] = json.loads(result.stdout)
    return facts


def members(cluster: Cluster) -> dict[str, object]:
    return {name: status["members"] for name, status in told(cluster, "status").items()}


def test_status_has_the_figures_of_spmonitor_for_every_daemon(cluster: Cluster) -> None:
    with cluster.connect("eu1", name="anna") as anna:
        anna.join("trades")
        anna.multicast("trades", b"one")
        while not hasattr(event := anna.receive(timeout_seconds=SECONDS_MAX), "data"):
            assert isinstance(event, View)
        status = told(cluster, "status")

    assert list(status) == NAMES
    for name, one in status.items():
        assert (one["phase"], one["groups_state"], one["members"]) == ("OP", "GOP", NAMES), name
        assert one["sessions"] == (1 if name == "eu1" else 0)
        assert (one["groups"], one["retransmissions"]) == (1, 0)
        assert one["sites"] == {"eu": ["eu1", "eu2"], "us": ["us1"]}
    eu1 = status["eu1"]
    assert eu1["packets"]["sent"] > 0  # type: ignore[index]
    assert eu1["packets"]["received"] > 0  # type: ignore[index]
    assert eu1["ring"]["rounds"] > 0  # type: ignore[index]
    assert eu1["delivered"] == {"messages": 1, "bundles": 1}
    assert eu1["window"]["bytes"] == 2 * 2**20  # type: ignore[index]
    text = hop(cluster, "status").stdout.splitlines()
    assert text[0].split()[:5] == ["DAEMON", "SITE", "STATE", "VIEW", "SIZE"]
    assert [line.split()[0] for line in text[1:]] == NAMES


def test_repeated_status_as_json_is_one_object_per_line(cluster: Cluster) -> None:
    result = hop(cluster, "status", "--json", "--every", "0.05", "--count", "3")

    assert [list(json.loads(line)) for line in result.stdout.splitlines()] == [NAMES] * 3


def test_a_partition_is_seen_by_clients_reviewed_and_cancelled(cluster: Cluster) -> None:
    def network_view(session: sync.Session, size: int) -> None:
        while True:
            event = session.receive(timeout_seconds=SECONDS_MAX)
            if isinstance(event, View) and event.cause == "network" and len(event.members) == size:
                return

    with cluster.connect("eu1", name="anna") as anna, cluster.connect("us1", name="bert") as bert:
        anna.join("trades")
        bert.join("trades")
        dry = hop(cluster, "partition", "--dry-run", "eu | us")
        assert dry.stdout == "eu1 eu2 | us1\n"
        assert hop(cluster, "review").stdout == "eu1 eu2 us1\n"

        assert hop(cluster, "partition", "eu | us").exit_code == 0
        assert json.loads(hop(cluster, "review", "--json").stdout) == [["eu1", "eu2"], ["us1"]]
        network_view(anna, 1)
        network_view(bert, 1)
        assert members(cluster) == {"eu1": ["eu1", "eu2"], "eu2": ["eu1", "eu2"], "us1": ["us1"]}

        assert told(cluster, "heal") == {name: {"ok": True} for name in NAMES}
        network_view(anna, 2)
        network_view(bert, 2)
    assert hop(cluster, "review").stdout == "eu1 eu2 us1\n"


def test_sides_that_make_no_sense_change_nothing(cluster: Cluster) -> None:
    result = hop(cluster, "partition", "eu | eu1")

    assert result.exit_code == 2
    assert "would be on two sides" in result.output
    assert hop(cluster, "review").stdout == "eu1 eu2 us1\n"


def typed(cluster: Cluster, answer: bytes, *arguments: str) -> tuple[int, str]:
    """Runs `hop monitor` on a terminal with typed input; returns its exit code and output."""
    main, side = pty.openpty()
    command = [sys.executable, "-m", "hopring.cli.main", "monitor", "--admin", str(cluster.admin_directory)]
    with subprocess.Popen([*command, *arguments], stdin=side, stdout=side, stderr=side) as process:
        os.close(side)
        os.write(main, answer)
        shown = b""
        while True:
            try:
                shown += os.read(main, 1 << 16)
            except OSError:  # The other end is closed.
                break
        code = process.wait(SECONDS_MAX)
    os.close(main)
    return code, shown.decode()


@pytest.mark.parametrize(
    "arguments",
    [
        ["partition", "eu1"],
        ["partition", "eu | us", "--for", "30s"],
        ["window", "--bundles", "100"],
        ["reload"],
        ["terminate", "us1"],
        ["terminate", "--all"],
    ],
)
def test_a_verb_that_changes_something_needs_confirmation(cluster: Cluster, arguments: list[str]) -> None:
    before = limits(cluster)
    piped = CliRunner().invoke(cli, ["monitor", "--admin", str(cluster.admin_directory), *arguments])
    assert piped.exit_code == 2
    assert "needs --yes if stdin is not a terminal; nothing was done" in piped.stderr

    code, shown = typed(cluster, b"n\n", *arguments)
    assert code == 1
    assert "[y/N]" in shown
    assert "hop: nothing was done" in shown
    assert hop(cluster, "review").stdout == "eu1 eu2 us1\n"
    assert limits(cluster) == before
    assert sorted(members(cluster)) == NAMES


def test_a_partition_shows_its_sides_before_confirmation(cluster: Cluster) -> None:
    code, shown = typed(cluster, b"y\n", "partition", "us", "--wait")

    assert code == 0, shown
    assert "cut all traffic between the sides us1 | eu1 eu2, until `heal`? [y/N]" in shown
    assert members(cluster) == {"eu1": ["eu1", "eu2"], "eu2": ["eu1", "eu2"], "us1": ["us1"]}
    healed = hop(cluster, "heal", "--wait")
    assert (healed.exit_code, "in the views expected" in healed.stderr) == (0, True)
    assert members(cluster) == dict.fromkeys(NAMES, NAMES)


def test_a_cut_that_expires_is_healed_by_the_daemons_themselves(cluster: Cluster) -> None:
    parted = hop(cluster, "partition", "eu | us", "--for", "8s", "--wait")
    assert parted.exit_code == 0, parted.output
    left_us = told(cluster, "status")["us1"]["cut_left_us"]
    assert isinstance(left_us, int)
    assert 0 < left_us < 8_000_000

    # No command is sent from here on.
    wait(lambda: members(cluster) == dict.fromkeys(NAMES, NAMES))
    assert hop(cluster, "review").stdout == "eu1 eu2 us1\n"
    wait(lambda: 'healed=eu1,eu2 why="the time of the cut is over"' in cluster.log("us1"))


def test_a_wait_that_times_out_names_the_unexpected_views(cluster: Cluster) -> None:
    late = hop(cluster, "partition", "eu | us", "--wait", "--wait-timeout", "0.01")
    assert late.exit_code == 4
    assert "us1 is in a view of eu1 eu2 us1, of the side us1" in late.stderr
    assert hop(cluster, "heal", "--wait").exit_code == 0

    over = hop(cluster, "partition", "eu | us", "--for", "50ms", "--wait")
    assert over.exit_code == 4
    assert "the cuts ended before the views followed" in over.stderr
    assert hop(cluster, "heal", "--wait").exit_code == 0


@pytest.mark.parametrize("given", ["30", "soon", "0s", "20000min"])
def test_the_time_of_a_cut_is_a_duration_within_limits(cluster: Cluster, given: str) -> None:
    result = hop(cluster, "partition", "eu | us", "--for", given)

    assert result.exit_code == 2
    assert hop(cluster, "review").stdout == "eu1 eu2 us1\n"


def test_windows_are_set_at_run_time_and_stay_in_the_next_view(cluster: Cluster) -> None:
    given = ["--personal", "100", "--global", "300", "--packet", "3", "--bytes", "1MiB", "--bundles", "256"]
    wanted = {
        "personal_segments": 100,
        "global_segments": 300,
        "packet_segments": 3,
        "bytes": 2**20,
        "bundles": 256,
    }
    assert told(cluster, "window", "eu1", *given) == {"eu1": {"ok": True, "result": wanted}}
    assert told(cluster, "window", "eu2")["eu2"]["result"]["bundles"] == 1024  # type: ignore[index]

    assert hop(cluster, "partition", "eu2 | eu1 us1").exit_code == 0
    wait(lambda: members(cluster)["eu1"] == ["eu1", "us1"])
    assert hop(cluster, "heal").exit_code == 0
    cluster.settled()
    with cluster.connect("eu1", name="anna") as anna, cluster.connect("eu2", name="bert") as bert:
        anna.join("trades")
        bert.join("trades")
        for session in (anna, bert):
            for _ in range(200):
                session.multicast("trades", b"x" * 5_000)
        got = 0
        while got < 400:
            event = bert.receive(timeout_seconds=SECONDS_MAX)
            got += hasattr(event, "data")
    after = told(cluster, "status")["eu1"]["window"]
    assert {key: after[key] for key in wanted} == wanted  # type: ignore[index]

    back = ["--personal", "512", "--global", "1024", "--packet", "46", "--bytes", "2MiB", "--bundles", "1024"]
    assert hop(cluster, "window", *back).exit_code == 0


@pytest.mark.parametrize(
    "given", [["--bytes", "1GiB"], ["--bundles", "1"], ["--personal", "1000001"], ["--packet", "47"]]
)
def test_an_invalid_window_is_refused_with_the_valid_range(cluster: Cluster, given: list[str]) -> None:
    before = limits(cluster)
    result = hop(cluster, "window", *given)

    assert result.exit_code == 1
    assert "choose" in result.stderr
    assert limits(cluster) == before


def limits(cluster: Cluster) -> list[dict[str, object]]:
    keys = ("personal_segments", "global_segments", "packet_segments", "bytes", "bundles")
    results = [cast(dict[str, object], one["result"]) for one in told(cluster, "window").values()]
    return [{key: one[key] for key in keys} for one in results]


def test_reload_applies_changes_in_the_file(cluster: Cluster) -> None:
    file = cluster.directory / "hop.toml"
    before = file.read_text()
    file.write_text(f"{before}\n[clients]\nsessions_max = 7\n")
    assert told(cluster, "reload", "eu1")["eu1"]["result"]["changed"] == ["clients.sessions_max"]  # type: ignore[index]

    file.write_text("sites = [")
    result = hop(cluster, "reload", "eu1")
    assert result.exit_code == 1
    assert "the old configuration stays in force" in result.stderr

    file.write_text(before)
    assert hop(cluster, "reload").exit_code == 0


def test_terminate_ends_a_daemon_in_an_orderly_way(cluster: Cluster) -> None:
    assert hop(cluster, "terminate").exit_code == 2
    assert hop(cluster, "terminate", "us9").exit_code == 1
    result = hop(cluster, "terminate", "us1")

    assert (result.exit_code, result.stdout) == (0, "us1  ok\n")
    wait(lambda: cluster.log("us1").splitlines()[-1].endswith("us1 end"))
    wait(lambda: members(cluster) == {"eu1": ["eu1", "eu2"], "eu2": ["eu1", "eu2"]})
    wait(lambda: 'cause="us1 leaves"' in cluster.log("eu1"))
    assert "cannot be asked from here: us1" in hop(cluster, "status").stderr
    cluster.stop("us1")
    cluster.restart("us1")
    cluster.settled()


def test_commands_typed_at_a_terminal_are_carried_out(cluster: Cluster) -> None:
    main, side = pty.openpty()
    command = [sys.executable, "-m", "hopring.cli.main", "monitor", "--admin", str(cluster.admin_directory)]
    environment = {**os.environ, "COLUMNS": "160", "LINES": "40", "TERM": "xterm"}
    shown = b""

    def show(text: bytes) -> None:
        nonlocal shown
        end = time.monotonic() + SECONDS_MAX
        while text not in shown:
            assert time.monotonic() < end, shown[-3_000:]
            shown += os.read(main, 1 << 16)
        shown = b""

    with subprocess.Popen(command, stdin=side, stdout=side, stderr=side, env=environment) as process:
        os.close(side)
        show(b"us1")
        os.write(main, b"define eu | usx\x7f\n")
        show(b"defined: eu1 eu2 | us1")
        os.write(main, b"send\n")
        show(b"partition: eu1 eu2 | us1")
        os.write(main, b"cancel\n")
        wait(lambda: hop(cluster, "review").stdout == "eu1 eu2 us1\n")
        os.write(main, b"window bundles=512 eu1\n")
        show(b"type yes to do it")
        assert told(cluster, "window", "eu1")["eu1"]["result"]["bundles"] == 1024  # type: ignore[index]
        os.write(main, b"yes\n")
        show(b"bundles=512")
        os.write(main, b"terminate us1\n")
        show(b"terminate: us1; type yes")
        os.write(main, b"no\n")
        show(b"there is no command no")
        os.write(main, b"yes\n")
        show(b"nothing waits for confirmation")
        os.write(main, b"define eu | us\n")
        show(b"defined: eu1 eu2 | us1")
        os.write(main, b"send for 1min wait\n")
        show(b"all daemons asked are in the views expected")
        os.write(main, b"cancel wait\n")
        show(b"all daemons asked are in the views expected")
        os.write(main, b"quit\n")
        while True:
            try:
                if not os.read(main, 1 << 16):
                    break
            except OSError:  # The other end is closed.
                break
        assert process.wait(SECONDS_MAX) == 0
    os.close(main)
    hop(cluster, "window", "eu1", "--bundles", "1024")
    cluster.settled()
