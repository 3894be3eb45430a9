"""Bugs that the campaign found, each reduced to the smallest run that shows it."""

import pytest

from hopring.config.builder import local_config
from hopring.config.model import Config, LinkConfig
from hopring.sim.campaign.fault_schedule import Fault
from hopring.sim.campaign.runner import run_world
from hopring.sim.campaign.world import LINK, Load, SimWorld
from hopring.sim.path import Quality


def quiet_world(*schedule: Fault) -> SimWorld:
    """Three sites without loss and without load."""
    local = local_config({"ams": 2, "ber": 1, "cai": 1})
    pairs = [("ams", "ber"), ("ams", "cai"), ("ber", "cai")]
    config = Config(local.cluster, local.sites, tuple(LinkConfig(pair, 1_000, tuning=LINK) for pair in pairs))
    return SimWorld(1, config, Quality(delay_us=500), 5_000, Load(0), schedule)


@pytest.mark.slow
def test_a_pause_as_a_network_begins_does_not_lengthen_the_search_after_it() -> None:
    outcome = run_world(
        quiet_world(
            Fault(1_000_000, "crash", ("cai1",)),
            # The attempt without cai1 has just begun, so its links have measured only this round trip.
            Fault(1_330_000, "pause", ("ams1",), 700),
        )
    )

    assert outcome.broken == ()
