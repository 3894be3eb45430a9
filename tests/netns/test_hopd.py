"""Daemons on hosts of their own: three sites of two, wide-area delay, partitions, crashes and loss.

eu1 eu2 -- switch -- gateway eu ==wan== core ==wan== gateway us -- switch -- us1 us2   (and ap likewise)
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.hopd.lives import Lives
from tests.netns.lab import Lab

from hopring.config import (
    Config,
    Daemon,
    Link,
    LinkProtocol,
    LinkTuning,
    Multicast,
    RingTuning,
    Site,
)
from hopring.daemon.shaper import Shape

pytestmark = [pytest.mark.netns, pytest.mark.slow]

# One way from the site to the core.
DELAYS_MS = {"ap": 30, "eu": 10, "us": 20}
NUMBERS = {site: number for number, site in enumerate(DELAYS_MS, start=1)}

# Three emulators and six daemons on what may be two cores: nobody is declared dead for being slow.
RING = RingTuning(token_loss_us=1_500_000)
LINK = LinkTuning(silence_us=3_000_000)


def make_config(protocol: LinkProtocol = LinkProtocol.HOP) -> Config:
    sites = [
        Site(
            name=site,
            daemons=tuple(Daemon(f"{site}{host}", f"10.81.{number}.{host}") for host in (1, 2)),
            multicast=Multicast("239.192.81.1", 4890) if site == "eu" else None,
            ring=RING,
        )
        for site, number in NUMBERS.items()
    ]
    pairs = [("ap", "eu"), ("ap", "us"), ("eu", "us")]
    links = [Link(ends, 1_000 * sum(DELAYS_MS[site] for site in ends), protocol, LINK) for ends in pairs]
    return Config("lab", tuple(sites), tuple(links))


class World:
    """The hosts and the ways between them."""

    def __init__(self, lab: Lab, loss: float = 0.0) -> None:
        self._lab = lab
        lab.host("core", forwarding=True)
        for site, number in NUMBERS.items():
            hosts = [f"{site}1", f"{site}2"]
            lab.host(*hosts)
            lab.host(site, forwarding=True)
            addresses = {host: [f"10.81.{number}.{host[-1]}/24"] for host in hosts}
            lab.switch(f"sw{site}", {**addresses, site: [f"10.81.{number}.254/24"]})
            away = Shape(delay_us=DELAYS_MS[site] * 1_000, loss=loss)
            back = Shape(delay_us=DELAYS_MS[site] * 1_000)
            near, far = f"10.82.{number}.1/24", f"10.82.{number}.2/24"
            lab.wan((site, "wan0", near), ("core", f"to{site}", far), away, back)
            for host in (*hosts, site):
                lab.ip(host, "link", "set", "eth0", "up")
            for host in hosts:
                lab.ip(host, "route", "add", "default", "via", f"10.81.{number}.254")
            self.join(site)

    def join(self, site: str) -> None:
        """A way between the site and the rest of the world."""
        number = NUMBERS[site]
        self._lab.ip(site, "route", "replace", "default", "via", f"10.82.{number}.2")
        self._lab.ip("core", "route", "replace", f"10.81.{number}.0/24", "via", f"10.82.{number}.1")

    def part(self, site: str) -> None:
        """What leaves the site, or is for it, is lost."""
        self._lab.ip(site, "route", "replace", "blackhole", "default")
        self._lab.ip("core", "route", "replace", "blackhole", f"10.81.{NUMBERS[site]}.0/24")


@contextmanager
def everybody(lab: Lab, directory: Path, config: Config) -> Iterator[Lives]:
    """All daemons, in one view."""

    def around(name: str) -> list[str]:
        return ["ip", "netns", "exec", lab.namespace(name)]

    with Lives(config, directory, around) as lives:
        lives.start()
        lives.wait(lives.together)
        yield lives


@pytest.mark.parametrize("protocol", list(LinkProtocol))
def test_a_site_is_cut_off_and_comes_back(lab: Lab, tmp_path: Path, protocol: LinkProtocol) -> None:
    world = World(lab)
    with everybody(lab, tmp_path, make_config(protocol)) as lives:
        lives.load(20)
        lives.wait_for_more(lives.names, 100)
        world.part("us")
        lives.wait(lambda: lives.together("us1", "us2") and lives.together("ap1", "ap2", "eu1", "eu2"))
        lives.wait_for_more(lives.names, 40)
        world.join("us")
        lives.wait(lives.together, seconds=90)
        lives.wait_for_more(lives.names, 100)
        lives.wait_for_a_good_end()


def test_a_representative_crashes_under_load_and_comes_back(lab: Lab, tmp_path: Path) -> None:
    World(lab)
    with everybody(lab, tmp_path, make_config()) as lives:
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
    World(lab, loss=0.05)
    with everybody(lab, tmp_path, make_config()) as lives:
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
