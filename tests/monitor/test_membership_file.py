"""The section `[membership]` at running daemons: read at the start and by a reload."""

import json

import pytest
from tests.monitor.fleet import Fleet

pytestmark = pytest.mark.slow

SITES = {"eu": ["eu1"], "us": ["us1"]}


def write(fleet: Fleet, membership: str) -> None:
    fleet.write(SITES)
    fleet.file.write_text(f"{fleet.file.read_text()}\n[membership]\n{membership}\n")


def windows(fleet: Fleet) -> list[int]:
    status = json.loads(fleet.hop("status", "--json").stdout)
    return [status[name]["window"]["bytes"] for name in ("eu1", "us1")]


def test_the_window_in_the_file_is_the_initial_one_and_the_limit_at_run_time() -> None:
    with Fleet() as fleet:
        write(fleet, 'window = "4MiB"\nupdate_delta = "5ms"')
        fleet.start("eu1", "us1")
        fleet.meet("eu1", "us1")
        assert windows(fleet) == [4 << 20] * 2
        assert fleet.hop("window", "--bytes", "3MiB").exit_code == 0
        refused = fleet.hop("window", "--bytes", "5MiB")
        assert (refused.exit_code, "choose 65536 to 4194304" in refused.stderr) == (1, True)

        write(fleet, 'window = "4MiB"\nupdate_delta = "10ms"')
        assert fleet.hop("reload", "eu1").stdout == "eu1  view_change=membership.update_delta\n"
        fleet.meet("eu1", "us1")  # The timers of daemons may differ.
        assert windows(fleet) == [4 << 20, 3 << 20]

        write(fleet, 'window = "1MiB"')
        reloaded = fleet.hop("reload")
        assert "eu1  view_change=membership.update_delta,membership.window\n" in reloaded.stdout
        fleet.meet("eu1", "us1")
        assert windows(fleet) == [1 << 20] * 2


def test_a_daemon_that_is_moved_to_another_site_in_the_file_moves() -> None:
    with Fleet() as fleet:
        fleet.write({"eu": ["eu1", "x1"], "us": ["us1"]})
        fleet.start("eu1", "us1", "x1")
        fleet.meet("eu1", "us1", "x1")
        fleet.write({"eu": ["eu1"], "us": ["us1", "x1"]})
        assert "x1  view_change=daemons\n" in fleet.hop("reload").stdout
        fleet.meet("eu1", "us1", "x1")
        status = json.loads(fleet.hop("status", "--json").stdout)

    assert {name: one["site"] for name, one in status.items()} == {"eu1": "eu", "us1": "us", "x1": "us"}
    assert status["us1"]["ring"]["members"] == ["us1", "x1"]
