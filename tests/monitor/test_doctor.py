"""`hop doctor` beside running daemons.

Where it finds them, and the causes that it names when they are apart.
"""

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.hopd.one_daemon import alone
from tests.monitor.fleet import Fleet, wait
from tests.support.free_ports import free_base_port

from hopring.cli.main import cli
from hopring.config import local_config

pytestmark = pytest.mark.slow


def doctor(*arguments: str) -> dict[str, list[str]]:
    """Its findings by subject: verdict, text and remedy."""
    result = CliRunner().invoke(cli, ["doctor", *arguments, "--json"])
    told: dict[str, list[str]] = {}
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    for one in json.loads(result.stdout)["checks"]:
        told.setdefault(one["subject"], []).append(f"{one['verdict']}: {one['text']}; {one['remedy']}")
    return told


def test_a_manual_partition_is_named_with_its_remedy_and_a_relative_state_path_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Fleet() as fleet:
        fleet.write({"eu": ["eu1"], "us": ["us1"]})
        fleet.start("eu1", "us1")
        fleet.meet("eu1", "us1")
        monkeypatch.chdir(fleet.directory.parent)
        arguments = [f"{fleet.directory.name}/hop.toml", "--state", fleet.directory.name]
        assert any("runs with this configuration" in line for line in doctor(*arguments)["us1"])

        assert fleet.hop("partition", "eu | us").exit_code == 0
        wait(lambda: fleet.views() == {"eu1": ["eu1"], "us1": ["us1"]})
        parted = doctor(*arguments)["eu1 <-> us1"]
        assert len(parted) == 1
        assert "parted by hand (hop monitor partition): cut at eu1 and us1" in parted[0]
        assert "hop monitor heal" in parted[0]
        assert "UDP" not in parted[0]

        assert fleet.hop("heal").exit_code == 0
        fleet.meet("eu1", "us1")
        assert "eu1 <-> us1" not in doctor(*arguments)


def test_a_daemon_that_cannot_be_queried_is_not_taken_for_a_foreign_process(tmp_path: Path) -> None:
    config = local_config({"eu": 1}, base_port=free_base_port(2))
    own = replace(config.daemons[0], client_port=None)
    config = replace(config, sites=(replace(config.sites[0], daemons=(own,)),))
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with alone(config, tmp_path, "eu1") as eu1:
        eu1.wait_for_log("size=1")
        told = doctor(str(eu1.file), "--state", str(elsewhere))["eu1"]

    assert not [line for line in told if line.startswith("finding")]
    assert [line for line in told if line.startswith("unknown") and f"process {eu1.process.pid}" in line]
    assert [line for line in told if line.startswith("ok") and f"process {eu1.process.pid}" in line]


def test_a_daemon_that_is_not_running_is_a_finding(tmp_path: Path) -> None:
    config = local_config({"eu": 1}, base_port=free_base_port(2))
    with alone(config, tmp_path, "eu1") as eu1:
        eu1.wait_for_log("size=1")
        eu1.process.send_signal(signal.SIGSTOP)
        try:
            told = doctor(str(eu1.file), "--state", str(tmp_path), "--timeout", "0.5")["eu1"]
        finally:
            eu1.process.send_signal(signal.SIGCONT)

    assert not [line for line in told if line.startswith("finding")]
    assert [line for line in told if line.startswith("unknown") and f"kill -CONT {eu1.process.pid}" in line]


def test_a_state_directory_whose_path_needs_quoting_is_found(tmp_path: Path) -> None:
    state = tmp_path / "a b%20#c"
    state.mkdir()
    config = local_config({"eu": 1}, base_port=free_base_port(2))
    own = replace(config.daemons[0], client_port=None)
    config = replace(config, sites=(replace(config.sites[0], daemons=(own,)),))
    with alone(config, state, "eu1") as eu1:
        eu1.wait_for_log("size=1")
        assert any(
            "runs with this configuration" in line
            for line in doctor(str(eu1.file), "--state", str(state))["eu1"]
        )
