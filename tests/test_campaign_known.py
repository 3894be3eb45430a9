"""What the campaign found and what is not mended yet, each as small as it could be made.

A test here is expected to fail. When it no longer does, it says so, and becomes a test like any other.
"""

import pytest

from hopring.config.local import local_config
from hopring.config.model import Config, Link
from hopring.ids import DaemonId, Incarnation, Process
from hopring.membership.suspicions import Suspicions
from hopring.sim.campaign.draw import LINK, Load, World
from hopring.sim.campaign.run import run_world
from hopring.sim.campaign.schedule import Fault
from hopring.sim.path import Quality


def quiet_world(*schedule: Fault) -> World:
    """Three sites, nothing lost, nothing sent."""
    local = local_config({"ams": 2, "ber": 1, "cai": 1})
    pairs = [("ams", "ber"), ("ams", "cai"), ("ber", "cai")]
    config = Config(local.cluster, local.sites, tuple(Link(pair, 1_000, tuning=LINK) for pair in pairs))
    return World(1, config, Quality(delay_us=500), 5_000, Load(0), schedule)


@pytest.mark.slow
@pytest.mark.xfail(strict=True, reason="the first round trip of a new link may contain a pause of this host")
def test_a_pause_as_a_network_begins_does_not_lengthen_the_search_after_it() -> None:
    outcome = run_world(
        quiet_world(
            Fault(1_000_000, "crash", ("cai1",)),
            # The attempt without cai1 has just begun, so its links have no round trip but this one.
            Fault(1_330_000, "pause", ("ams1",), 700),
        )
    )

    assert outcome.broken == ()


@pytest.mark.xfail(strict=True, reason="hearsay of who is left out prolongs itself")
def test_who_is_left_out_comes_back_when_nobody_accuses_it_any_more() -> None:
    accuser, suspect = Process(DaemonId(1), Incarnation(11)), Process(DaemonId(2), Incarnation(12))
    one, other = Suspicions(100, 400), Suspicions(100, 400)
    one.told(accuser, [suspect], 0)

    for now_us in range(50, 10_000, 50):  # They tell each other whom they leave out.
        other.leave_out(one.left_out(now_us), now_us)
        one.leave_out(other.left_out(now_us), now_us)

    assert one.left_out(10_000) | other.left_out(10_000) == frozenset()
