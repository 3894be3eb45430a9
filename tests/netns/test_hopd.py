"""Daemons on hosts of their own: three sites of two, wide-area delay, partitions, crashes and loss."""

from pathlib import Path

import pytest
from tests.netns.namespace_lab import Lab
from tests.netns.three_sites import ThreeSites, everybody, make_config

from hopring.config import LinkProtocol

pytestmark = [pytest.mark.netns, pytest.mark.slow]

# One way from the site to the core.
DELAYS_MS = {"ap": 30, "eu": 10, "us": 20}


@pytest.mark.parametrize("protocol", list(LinkProtocol))
def test_a_site_is_cut_off_and_comes_back(lab: Lab, tmp_path: Path, protocol: LinkProtocol) -> None:
    world = ThreeSites(lab, DELAYS_MS)
    with everybody(lab, tmp_path, make_config(DELAYS_MS, protocol)) as lives:
        lives.load(20)
        lives.wait_for_more(lives.names, 100)
        world.part("us1", "us2")
        lives.wait(lambda: lives.together("us1", "us2") and lives.together("ap1", "ap2", "eu1", "eu2"))
        lives.wait_for_more(lives.names, 40)
        world.heal()
        lives.wait(lives.together, seconds=90)
        lives.wait_for_more(lives.names, 100)
        lives.wait_for_a_good_end()


def test_a_representative_crashes_under_load_and_comes_back(lab: Lab, tmp_path: Path) -> None:
    ThreeSites(lab, DELAYS_MS)
    with everybody(lab, tmp_path, make_config(DELAYS_MS)) as lives:
        lives.load(20)
        lives.wait_for_more(lives.names, 100)
        lives.kill("eu1")
        others = [name for name in lives.names if name != "eu1"]
        lives.wait(lambda: lives.together(*others))
        lives.wait_for_more(others, 100)
        lives.start("eu1")
        lives.wait(lives.together)
        lives.load(20)
        lives.wait_for_more(lives.names, 100)
        lives.wait_for_a_good_end()


def test_five_of_a_hundred_packets_are_lost_between_sites(lab: Lab, tmp_path: Path) -> None:
    ThreeSites(lab, DELAYS_MS, loss=0.05)
    with everybody(lab, tmp_path, make_config(DELAYS_MS)) as lives:
        lives.load(20)
        lives.wait_for_more(lives.names, 1_000)
        lives.wait_for_a_good_end()

        # Unreliable messages are not sent again: they show that the network did what it was told.
        sent = sum(
            row.kind == "send" and row.service == "unreliable"
            for name in lives.names
            for row in lives.rows(name)
        )
        assert any(lives.delivered(name, "unreliable") < sent for name in lives.names)
        views = {name: sum(row.kind == "view" for row in lives.rows(name)) for name in lives.names}
        print(f"views of each: {views}")
