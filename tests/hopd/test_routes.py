"""`hop routes --at`: weights of links at running daemons, fixed and measured."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.hopd.daemon_processes import DaemonProcesses
from tests.hopd.served_cluster import LINK, RING, ServedCluster, run
from tests.support.free_ports import free_base_port

from hopring import sync
from hopring.config import Config, local_config
from hopring.config.model import LinkProtocol, Weights

pytestmark = pytest.mark.slow


def measured_cluster() -> Config:
    """Two TCP links with a configured weight of 5 ms and a Hop link with 300 ms, all of them fast."""
    weights = {("ap", "eu"): "300ms", ("ap", "us"): "5ms", ("eu", "us"): "5ms"}
    config = local_config({"ap": 1, "eu": 2, "us": 1}, weights, base_port=free_base_port(8))
    sites = [replace(site, ring=RING) for site in config.sites]
    links = [
        replace(one, tuning=LINK, protocol=LinkProtocol.TCP if "us" in one.sites else LinkProtocol.HOP)
        for one in config.links
    ]
    return replace(config, sites=tuple(sites), links=tuple(links), weights=Weights.MEASURED)


def links_at(served: ServedCluster, name: str) -> dict[str, Any]:
    code, out, err = run("routes", "--at", served.url(name), "--json")
    assert code == 0, err
    return {",".join(one["sites"]): one for one in json.loads(out)}


def test_a_daemon_with_fixed_weights_reports_the_configured_ones(served: ServedCluster) -> None:
    code, out, err = run("routes", "--at", served.url("eu1"))

    assert (code, err) == (0, "")
    assert [line.split() for line in out.splitlines()] == [
        ["LINK", "PROTOCOL", "CONFIGURED", "MEASURED", "AGREED", "USE"],
        ["eu,us", "hop", "5000", "-", "5000", "tree"],
    ]


TURNS = 10


def test_links_are_measured_and_the_next_view_routes_by_the_measurements(tmp_path: Path) -> None:
    config = measured_cluster()
    with DaemonProcesses(config, tmp_path, module="hopring.daemon.hopd") as daemons:
        daemons.start()
        daemons.wait(daemons.together)
        served = ServedCluster(daemons, config)
        before = links_at(served, "eu1")
        assert {name: line["agreed"] for name, line in before.items()} == {
            "ap,eu": 300_000,
            "ap,us": 5_000,
            "eu,us": 5_000,
        }
        assert [before[name]["use"] for name in ("ap,eu", "ap,us", "eu,us")] == ["spare", "tree", "tree"]
        with sync.connect(served.url("eu1")) as session:
            # A link that no tree uses is measured too, and so is the one over TCP.
            daemons.wait(lambda: all(one.measured for one in session.link_weights().links if "eu" in one.sites))
            (other,) = [one for one in session.link_weights().links if "eu" not in one.sites]
            assert (other.measured, other.round_trip_seconds) == (None, None)

        for _ in range(TURNS):
            daemons.kill("eu2")
            daemons.start("eu2")
            daemons.wait(daemons.together)
            daemons.wait(lambda: links_at(served, "us1")["ap,eu"]["agreed"] < 300_000)
            agreed, *others = [
                {name: one["agreed"] for name, one in links_at(served, at).items()} for at in daemons.names
            ]
            assert all(one == agreed for one in others)
            use = links_at(served, "us1")["ap,eu"]["use"]
            # On a busy machine the other two links may be measured while they are the faster way.
            if agreed["ap,eu"] < agreed["ap,us"] + agreed["eu,us"]:
                break
        assert use == "tree"
        code, _, err = run("routes", "--at", served.url("eu2"))
        assert (code, err) == (0, "hop: eu1 measures the links of this site, not eu2\n")


def test_a_daemon_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    code, _, err = run("routes", "--at", f"hop+unix://{tmp_path}/none")

    assert code == 3, err
