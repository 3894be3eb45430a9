"""`hop monitor watch` at real daemons: events that are kept over a kill, and events as they come."""

import json
import threading
from typing import Any

import pytest
from click.testing import CliRunner
from tests.monitor.fleet import Fleet, monitor

from hopring.cli.main import cli

pytestmark = pytest.mark.slow


def kept(fleet: Fleet, name: str) -> list[dict[str, Any]]:
    told = monitor(fleet.directory, "watch", name, "--kept", "--json")
    assert told.exit_code == 0, told.output
    return [json.loads(line) for line in told.stdout.splitlines()]


def test_events_outlive_a_kill_and_a_watcher_sees_the_others_lose_the_daemon() -> None:
    with Fleet() as fleet:
        fleet.write({"eu": ["eu1"], "us": ["us1"]})
        fleet.start("eu1", "us1")
        fleet.meet("eu1", "us1")
        before = kept(fleet, "us1")
        assert [one["seq"] for one in before] == list(range(1, len(before) + 1))
        assert {"start", "view", "signal", "link"} <= {one["event"] for one in before}

        last = kept(fleet, "eu1")[-1]["seq"]
        seen: list[str] = []

        def look() -> None:
            words = ["watch", "eu1", "--json", "--after", str(last), "--count", "3"]
            told = CliRunner().invoke(cli, ["monitor", "--admin", str(fleet.directory), *words])
            seen.extend(told.stdout.splitlines())

        watcher = threading.Thread(target=look, daemon=True)
        watcher.start()
        killed = fleet.processes.pop("us1")
        killed.kill()
        killed.wait(60)
        watcher.join(60)
        events = {one["event"]: one for one in map(json.loads, seen)}
        assert events["view"]["facts"]["gone"] == "us1"
        assert (events["view"]["facts"]["kind"], events["view"]["facts"]["link"]) == ("link", "eu-us")
        assert events["link"]["facts"]["state"] == "down"

        fleet.start("us1")
        fleet.meet("eu1", "us1")
        again = kept(fleet, "us1")
        assert [one["seq"] for one in again] == list(range(1, len(again) + 1))
        starts = [one["facts"].get("after", "") for one in again if one["event"] == "start"]
        assert starts == ["", "crash"]
