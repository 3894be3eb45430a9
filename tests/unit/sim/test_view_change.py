"""The cost of a change of daemons inside a site for the link to another one.

Figures: bench/suite/view_change.py.
"""

import pytest

from hopring.bench.suite.view_change import ViewChangeTrial
from hopring.config.builder import local_config
from hopring.config.model import LinkProtocol
from hopring.links.hop.hop import Hop
from hopring.sim.cluster import SimCluster
from hopring.sim.path import Quality


def window_bytes(trial: ViewChangeTrial) -> float:
    """The congestion window of the link from eu1 to us1 in its present network."""
    stack = trial.cluster.hosts["eu1"].membership.stack
    assert stack is not None
    link = stack.links[trial.cluster.numbers["us1"]]
    assert isinstance(link, Hop)
    assert link.state.congestion is not None
    return link.state.congestion.window_bytes


@pytest.mark.slow
@pytest.mark.parametrize("change", ["crash", pytest.param("leave", marks=pytest.mark.long)])
def test_a_hop_link_catches_up_sooner_with_the_measurements_of_the_one_before(change: str) -> None:
    gap_us, caught_up_us = ViewChangeTrial(LinkProtocol.HOP, change).loaded()
    gap_without_us, caught_up_without_us = ViewChangeTrial(LinkProtocol.HOP, change, kept=False).loaded()

    assert gap_us <= gap_without_us
    assert caught_up_us < caught_up_without_us - 200_000


@pytest.mark.slow
def test_measurements_of_a_restarted_neighbour_are_not_resumed() -> None:
    """Nothing is kept of the link to an earlier incarnation: it may be on another host, behind another line."""
    trial = ViewChangeTrial(LinkProtocol.HOP, "none")
    trial.loaded()
    used = window_bytes(trial)
    for name in ("us2", "us3", "us1"):
        trial.cluster.stop(name)
    trial.cluster.run_for(3_000_000)
    trial.cluster.restart("us1")
    trial.cluster.run_for(5_000_000)

    assert used > 40_000
    assert window_bytes(trial) < used / 2


def link_of(cluster: SimCluster) -> Hop:
    stack = cluster.hosts["eu1"].membership.stack
    assert stack is not None
    link = stack.links[cluster.numbers["us1"]]
    assert isinstance(link, Hop)
    return link


@pytest.mark.interpreted
def test_nothing_is_kept_of_a_link_that_has_measured_a_pause() -> None:
    """A new link with such a round trip would wait for it before it resends lost packets."""
    cluster = SimCluster(local_config({"eu": 2, "us": 1}), 1, Quality(delay_us=15_000))
    cluster.start()
    cluster.run_for(3_000_000)
    before = link_of(cluster)
    before.state.round_trip.smoothed_us = 900_000
    cluster.stop("eu2")
    cluster.run_for(300_000)

    assert link_of(cluster) is not before
    assert link_of(cluster).state.round_trip.smoothed_us < 200_000
