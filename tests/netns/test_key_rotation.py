"""Rotations of the cluster key while daemons are under load and apart, checked by the properties of EVS."""

import time
from collections.abc import Sequence
from pathlib import Path
from signal import SIGHUP

import pytest
from click.testing import CliRunner
from tests.hopd.daemon_processes import DaemonProcesses
from tests.netns.three_sites import HOSTS, ThreeSites, everybody, make_config, steady_config

from hopring.cli.main import cli

pytestmark = [pytest.mark.netns, pytest.mark.slow]

# Of each of six daemons. Their timers run late: with 230 all together sent 850 messages a second.
EACH_PER_SECOND = 280


class Rotation:
    """The three steps of a rotation, by the commands that an operator uses, at running daemons."""

    def __init__(self, daemons: DaemonProcesses, keys: Path) -> None:
        self._daemons = daemons
        self._keys = keys
        self._reloads = dict.fromkeys(HOSTS, 0)
        (self.old,) = self._ids()
        self.new = ""

    def _hop(self, *words: str) -> None:
        done = CliRunner().invoke(cli, ["keys", *words])
        assert done.exit_code == 0, done.output

    def _ids(self) -> list[str]:
        lines = (self._keys / "cluster.keys").read_text().splitlines()
        return [line.split()[1] for line in lines if line and not line.startswith("#")]

    def add(self) -> None:
        self._hop("add", str(self._keys))
        (self.new,) = set(self._ids()) - {self.old}

    def use(self) -> None:
        self._hop("use", self.new, str(self._keys))

    def drop(self) -> None:
        self._hop("drop", self.old, str(self._keys), "--yes")

    def reload(self, *hosts: str) -> None:
        """Has daemons read the keys, one after the other, and waits until each has done so."""
        for host in hosts:
            self._reloads[host] += 1
            self._daemons.processes[host].send_signal(SIGHUP)
            self._daemons.wait(lambda host=host: self._reloaded(host))  # type: ignore[misc]

    def _reloaded(self, host: str) -> bool:
        return self._daemons.log(host).count(" keys use=") == self._reloads[host]


def installed(daemons: DaemonProcesses, hosts: Sequence[str] = HOSTS) -> dict[str, int]:
    """The number of views of each daemon so far."""
    return {host: sum(row.kind == "view" for row in daemons.rows(host)) for host in hosts}


def only_new(daemons: DaemonProcesses, rotation: Rotation) -> bool:
    return all(f" keys use={rotation.new} live={rotation.new}\n" in daemons.log(host) for host in HOSTS)


def test_a_rotation_under_load_changes_no_view_and_loses_nothing(world: ThreeSites, tmp_path: Path) -> None:
    with everybody(world.lab, tmp_path, steady_config()) as daemons:
        rotation = Rotation(daemons, tmp_path / "keys")
        before = installed(daemons)
        daemons.load(EACH_PER_SECOND)
        began = time.monotonic()
        daemons.wait_for_more(HOSTS, 200)
        for step in (rotation.add, rotation.use, rotation.drop):
            step()
            rotation.reload(*HOSTS)
            daemons.wait_for_more(HOSTS, 500)
        print(f"{daemons.delivered('eu1') / (time.monotonic() - began):.0f} messages a second")
        daemons.wait_for_a_good_end()

        assert installed(daemons) == before
        assert only_new(daemons, rotation)


@pytest.mark.long
def test_a_rotation_on_both_sides_of_a_split_does_not_hinder_the_merge(
    world: ThreeSites, tmp_path: Path
) -> None:
    far, near = ("us1", "us2"), ("ap1", "ap2", "eu1", "eu2")
    with everybody(world.lab, tmp_path, make_config()) as daemons:
        rotation = Rotation(daemons, tmp_path / "keys")
        daemons.load(EACH_PER_SECOND)
        daemons.wait_for_more(HOSTS, 100)
        world.part(*far)
        daemons.wait(lambda: daemons.together(*far) and daemons.together(*near))
        apart = installed(daemons)
        for step in (rotation.add, rotation.use, rotation.drop):
            step()
            rotation.reload(*near)
            daemons.wait_for_more(near, 200)
            rotation.reload(*far)
            daemons.wait_for_more(far, 100)
        rotated = installed(daemons)
        world.heal()
        daemons.wait(daemons.together)
        merged = installed(daemons)
        daemons.wait_for_more(HOSTS, 200)
        daemons.wait_for_a_good_end()

        assert rotated == apart, "a view during the rotation"
        assert installed(daemons) == merged, "a view after the merge"
        assert max([merged[host] - rotated[host] for host in HOSTS]) <= 3
        assert only_new(daemons, rotation)
