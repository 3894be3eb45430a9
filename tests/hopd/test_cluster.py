"""Daemons as processes on loopback: views through crashes and restarts, judged by their traces."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.hopd.daemon_processes import DaemonProcesses
from tests.support.free_ports import free_base_port

from hopring.check.judge import first_broken
from hopring.check.trace import MessageDelivered
from hopring.config import Config, LinkProtocol, LinkTuning, MulticastConfig, RingTuning, local_config
from hopring.services import Service

pytestmark = [pytest.mark.slow, pytest.mark.both]

# On a busy machine a process may not run for a while; these tests do not test that.
RING = RingTuning(token_loss_us=1_500_000)
LINK = LinkTuning(silence_us=2_000_000)


def two_sites(protocol: LinkProtocol, multicast: bool) -> Config:
    port = free_base_port(12)
    config = local_config({"eu": 2, "us": 2}, {("eu", "us"): "5ms"}, base_port=port, protocol=protocol)
    sites = [replace(site, ring=RING) for site in config.sites]
    if multicast:
        sites = [
            replace(site, multicast=MulticastConfig("239.255.77.11", port + 10 + at))
            for at, site in enumerate(sites)
        ]
    return replace(config, sites=tuple(sites), links=tuple(replace(one, tuning=LINK) for one in config.links))


@pytest.mark.parametrize(("protocol", "multicast"), [(LinkProtocol.HOP, False), (LinkProtocol.TCP, True)])
def test_four_daemons_form_one_view_lose_one_and_take_it_back(
    tmp_path: Path, protocol: LinkProtocol, multicast: bool
) -> None:
    with DaemonProcesses(two_sites(protocol, multicast), tmp_path) as daemons:
        daemons.start()
        daemons.wait(daemons.together)
        daemons.load(60)
        daemons.wait_for_more(daemons.names, 100)
        daemons.kill("eu1")
        daemons.wait(lambda: daemons.together("eu2", "us1", "us2"))
        daemons.wait_for_more(["eu2", "us1", "us2"], 50)
        daemons.start("eu1")
        daemons.wait(daemons.together)
        daemons.load(60)
        daemons.wait_for_more(daemons.names, 100)
        daemons.wait_for_a_good_end()

        history = daemons.history()
        safe = [
            event for event in history if isinstance(event, MessageDelivered) and event.service is Service.SAFE
        ]
        assert first_broken([event for event in history if event is not safe[0]], quiet_end=True) is not None
        for service in Service:
            assert daemons.delivered("us2", service.name.lower()) > 0
        assert len({row.process for row in daemons.rows("eu1")}) == 2


def test_all_daemons_killed_at_once_come_back_with_later_views(tmp_path: Path) -> None:
    with DaemonProcesses(two_sites(LinkProtocol.HOP, multicast=False), tmp_path) as daemons:
        daemons.start()
        daemons.wait(daemons.together)
        before = max(row.view for name in daemons.names for row in daemons.rows(name) if row.view)
        for name in daemons.names:
            daemons.kill(name)
        daemons.start()
        daemons.wait(daemons.together)
        daemons.wait_for_a_good_end()

        for name in daemons.names:
            views = [row.view for row in daemons.rows(name) if row.kind == "view" and row.view]
            assert views[-1] > before


def test_a_daemon_that_gets_sigterm_announces_it_and_leaves_nothing_undelivered(tmp_path: Path) -> None:
    with DaemonProcesses(two_sites(LinkProtocol.HOP, multicast=False), tmp_path) as daemons:
        daemons.start()
        daemons.wait(daemons.together)
        daemons.load(60)
        daemons.wait_for_more(daemons.names, 50)
        daemons.stop("eu2")
        daemons.wait(lambda: daemons.together("eu1", "us1", "us2"))
        daemons.load(0)
        daemons.wait_for_a_good_end()

        causes = {row.cause for row in daemons.rows("eu1") if row.kind == "view"}
        assert "eu2 leaves" in causes
