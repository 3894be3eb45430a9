"""Daemons on separate hosts: three sites of two, wide-area delay, partitions, crashes and loss."""

from pathlib import Path

import pytest
from tests.netns.namespace_lab import Lab
from tests.netns.three_sites import ThreeSites, everybody, make_config

from hopring.config import LinkProtocol

pytestmark = [pytest.mark.netns, pytest.mark.slow]

# Delay in one direction from the site to the core.
DELAYS_MS = {"ap": 30, "eu": 10, "us": 20}


@pytest.mark.parametrize("protocol", [LinkProtocol.HOP, pytest.param(LinkProtocol.TCP, marks=pytest.mark.long)])
def test_a_site_is_cut_off_and_comes_back(lab: Lab, tmp_path: Path, protocol: LinkProtocol) -> None:
    world = ThreeSites(lab, DELAYS_MS)
    with everybody(lab, tmp_path, make_config(DELAYS_MS, protocol)) as daemons:
        daemons.load(20)
        daemons.wait_for_more(daemons.names, 100)
        world.part("us1", "us2")
        daemons.wait(lambda: daemons.together("us1", "us2") and daemons.together("ap1", "ap2", "eu1", "eu2"))
        daemons.wait_for_more(daemons.names, 40)
        world.heal()
        daemons.wait(daemons.together, seconds=90)
        daemons.wait_for_more(daemons.names, 100)
        daemons.wait_for_a_good_end()


@pytest.mark.long
def test_a_representative_crashes_under_load_and_comes_back(lab: Lab, tmp_path: Path) -> None:
    ThreeSites(lab, DELAYS_MS)
    with everybody(lab, tmp_path, make_config(DELAYS_MS)) as daemons:
        daemons.load(20)
        daemons.wait_for_more(daemons.names, 100)
        daemons.kill("eu1")
        others = [name for name in daemons.names if name != "eu1"]
        daemons.wait(lambda: daemons.together(*others))
        daemons.wait_for_more(others, 100)
        daemons.start("eu1")
        daemons.wait(daemons.together)
        daemons.load(20)
        daemons.wait_for_more(daemons.names, 100)
        daemons.wait_for_a_good_end()


def test_five_of_a_hundred_packets_are_lost_between_sites(lab: Lab, tmp_path: Path) -> None:
    ThreeSites(lab, DELAYS_MS, loss=0.05)
    with everybody(lab, tmp_path, make_config(DELAYS_MS)) as daemons:
        daemons.load(20)
        daemons.wait_for_more(daemons.names, 1_000)
        daemons.wait_for_a_good_end()

        # Unreliable messages are not resent: they show that the network really lost packets.
        sent = sum(
            row.kind == "send" and row.service == "unreliable"
            for name in daemons.names
            for row in daemons.rows(name)
        )
        assert any(daemons.delivered(name, "unreliable") < sent for name in daemons.names)
        views = {name: sum(row.kind == "view" for row in daemons.rows(name)) for name in daemons.names}
        print(f"views of each: {views}")
