"""A daemon that did not run for a while: its log says so, and no neighbour is blamed."""

import json
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.hopd.one_daemon import OneDaemon, alone
from tests.support.free_ports import free_base_port

from hopring.cli.main import cli
from hopring.config import LinkProtocol, local_config

pytestmark = pytest.mark.slow


def last_view(daemon: OneDaemon) -> int:
    """The size of its last view; a busy machine makes it log other things behind that."""
    return int(re.findall(r" view .*size=(\d+)", daemon.log())[-1])


def until_alone(daemon: OneDaemon) -> list[str]:
    """Waits until a daemon has lost the other one; its log from the view of both on."""
    daemon.wait(lambda: last_view(daemon) == 1)
    lines = daemon.log().splitlines()
    return lines[next(at for at, line in enumerate(lines) if "size=2" in line) :]


def undisturbed(story: Callable[[Path], list[str]], directory: Path) -> None:
    """Tells a story again while the log that it returns has a stall: a busy machine has stopped that daemon."""
    for number in range(5):
        place = directory / str(number)
        place.mkdir()
        if not any(" stalled " in line for line in story(place)):
            return
    raise AssertionError("this machine stops daemons again and again")


@pytest.mark.parametrize(("sites", "lost"), [({"eu": 1, "us": 1}, "link with us1: "), ({"eu": 2}, "ring: ")])
def test_a_stopped_daemon_logs_that_it_did_not_run_and_the_other_names_it(
    tmp_path: Path, sites: dict[str, int], lost: str
) -> None:
    config = local_config(sites, base_port=free_base_port(4), protocol=LinkProtocol.HOP)
    first, second = [daemon.name for daemon in config.daemons]
    said: list[str] = []
    told: list[str] = []

    def story(place: Path) -> list[str]:
        with alone(config, place, first) as watching, alone(config, place, second) as stopped:
            watching.wait_for_log("size=2")
            stopped.wait_for_log("size=2")
            views = len(stopped.log().splitlines())
            stopped.process.send_signal(signal.SIGSTOP)
            try:
                told[:] = until_alone(watching)
            finally:
                stopped.process.send_signal(signal.SIGCONT)
            stopped.wait_for_log('cause="this daemon did not run for ')
            said[:] = stopped.log().splitlines()[views:]
            return told

    undisturbed(story, tmp_path)
    assert any(f'cause="{lost}' in line for line in told)
    view = next(at for at, line in enumerate(said) if " view " in line)
    assert 'cause="this daemon did not run for ' in said[view]
    stall = r" stalled seconds=\d+\.\d text=\"this daemon did not run: "
    assert [line for line in said[:view] if re.search(stall, line)], "the stall is not logged before the view"


def test_hop_view_and_the_status_name_the_neighbour_that_was_lost(tmp_path: Path) -> None:
    config = local_config({"eu": 1, "us": 1}, base_port=free_base_port(4))
    url = f"hop://127.0.0.1:{config.daemons[0].client_port}"
    told: list[str] = []
    shown: list[str] = []
    facts: list[dict[str, Any]] = []

    def story(place: Path) -> list[str]:
        with alone(config, place, "eu1") as eu1:
            with alone(config, place, "us1") as us1:
                eu1.wait_for_log("size=2")
                us1.process.kill()
                us1.process.wait()
            told[:] = until_alone(eu1)
            shown.append(CliRunner().invoke(cli, ["view", "--at", url]).stdout)
            facts.append(json.loads(CliRunner().invoke(cli, ["view", "--at", url, "--json"]).stdout))
            return told

    undisturbed(story, tmp_path)
    assert "(link with us1: nothing heard for " in shown[-1]
    reason = facts[-1]["reason"]
    assert [reason[key] for key in ("kind", "witness", "peer", "link")] == ["link", "eu1", "us1", "eu-us"]
    assert reason["silence_seconds"] >= 1.0
    assert any('cause="link with us1: nothing heard for ' in line for line in told)
    assert "daemon 1" not in "\n".join(told)
