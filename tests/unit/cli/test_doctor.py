"""The doctor's checks, each with something wrong to find."""

import json
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.cli.conftest import Hop
from tests.unit.daemon.free_ports import free_base_port

from hopring.cli import doctor_host as host
from hopring.cli.doctor_checks import Chart
from hopring.cli.doctor_cluster import Asked, check_daemons, check_pairs
from hopring.client.queries import DaemonFacts, DaemonView, LinkFacts
from hopring.config import (
    Config,
    Link,
    LinkTuning,
    Multicast,
    RingTuning,
    cluster_hash,
    dump_toml,
    local_config,
)
from hopring.ids import DaemonId, Incarnation, ViewId
from hopring.session.answers import DaemonPhase

CONFIG = local_config({"eu": 2, "us": 1}, base_port=free_base_port(6))
LINK = LinkFacts("us1", "hop", 1000, 1000, 0, 0, 0, 0.04, 0)


def asked(
    name: str,
    *members: str,
    config: Config = CONFIG,
    link: LinkFacts = LINK,
    phase: DaemonPhase = "op",
    **counts: int,
) -> Asked:
    facts = DaemonFacts(
        daemon=name,
        cluster="local",
        hash=f"{cluster_hash(config):08x}",
        version="1",
        phase=phase,
        uptime_seconds=1.0,
        sessions=0,
        groups=0,
        ring=(),
        links=(link,),
        dropped=counts,
        unsent=counts,
    )
    view = ViewId(1, DaemonId(0), Incarnation(1))
    return Asked(f"hop://{name}", facts, DaemonView(view, members, "start", 1.0))


def findings(asked: dict[str, Asked]) -> list[tuple[str, str]]:
    chart = Chart()
    check_daemons(chart, CONFIG, asked)
    check_pairs(chart, CONFIG, asked)
    assert all(one.remedy for one in chart.findings)
    return [(one.subject, one.text) for one in chart.findings]


ALL = ("eu1", "eu2", "us1")


def test_a_cluster_that_is_together_has_no_findings() -> None:
    assert findings({name: asked(name, *ALL) for name in ALL}) == []


def test_who_is_missing_is_told_once_for_each_that_misses_it() -> None:
    found = findings({name: asked(name, "eu1", "eu2") for name in ("eu1", "eu2")})

    assert found == [
        ("eu1 <-> us1", "us1 is not in eu1's view"),
        ("eu2 <-> us1", "us1 is not in eu2's view"),
    ]


def test_a_split_is_told_once_and_one_way_sight_as_such() -> None:
    split = findings({"eu1": asked("eu1", "eu1", "eu2"), "us1": asked("us1", "us1")})
    assert ("eu1 <-> us1", "neither sees the other: eu1 has eu1 eu2, us1 has us1") in split
    assert len([subject for subject, _ in split if subject in ("eu1 <-> us1", "us1 <-> eu1")]) == 1

    one_way = findings({"eu1": asked("eu1", *ALL), "us1": asked("us1", "us1", "eu2")})
    assert one_way == [("us1 <-> eu1", "us1 does not see eu1, though eu1 sees us1")]


def test_another_configuration_phase_drops_and_loss_are_findings() -> None:
    other = replace(CONFIG, cluster="other")
    lossy = LinkFacts("us1", "hop", 0, 900, 100, 0, 0, 0.001, 0)
    found = findings(
        {
            "eu1": asked("eu1", *ALL, config=other, phase="search", cluster=3, too_long=2),
            "eu2": asked("eu2", *ALL, link=lossy),
            "us1": asked("eu1", *ALL),
        }
    )

    texts = [text for _, text in found]
    assert any("the file's is" in text for text in texts)
    assert "is in no whole view (search, start)" in texts
    assert "refused 3 packets for cluster" in texts
    assert "could not send 2 datagrams: too_long" in texts
    assert ("us1 -> eu2", "100 of 1000 packets were lost in this view") in found
    assert ("us1", "hop://eu1 is eu1") in found


def test_packets_that_are_too_long_for_the_path_are_found() -> None:
    sites = tuple([replace(site, ring=RingTuning(segment_bytes=65_000)) for site in CONFIG.sites])
    config = replace(CONFIG, sites=sites, links=(Link(("eu", "us"), tuning=LinkTuning(segment_bytes=9_000)),))
    chart = Chart()
    host.check_paths(chart, config, config.daemons[0])
    mtu = int((Path("/sys/class/net/lo/mtu")).read_text())

    too_long = [one.subject for one in chart.findings]
    assert too_long == [pair for pair, size in (("eu1 -> eu2", 65_028), ("eu1 -> us1", 9_028)) if size > mtu]
    assert len(chart.checks) == 2


def test_no_route_is_a_finding() -> None:
    far = replace(CONFIG.daemons[2], address="192.0.2.1")
    sites = tuple([replace(one, daemons=(far,)) if one.name == "us" else one for one in CONFIG.sites])
    chart = Chart()
    host.check_paths(chart, replace(CONFIG, sites=sites), CONFIG.daemons[0])

    # From 127.0.0.1 nothing but loopback is reached.
    assert [one.subject for one in chart.findings] == ["eu1 -> us1"]
    assert "no route from 127.0.0.1 to 192.0.2.1" in chart.findings[0].text


def test_a_group_that_is_none_is_a_finding_and_a_good_one_is_heard() -> None:
    site = CONFIG.sites[0]
    chart = Chart()
    host.check_multicast(chart, replace(site, multicast=Multicast("239.255.77.14", 1)), site.daemons[0])
    assert chart.findings == []
    host.check_multicast(chart, replace(site, multicast=Multicast("10.9.9.9", 1)), site.daemons[0])
    assert len(chart.findings) == 1


def test_a_port_that_another_program_has_is_a_finding(tmp_path: Path, hop: Hop) -> None:
    file = tmp_path / "hop.toml"
    file.write_text(dump_toml(CONFIG))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", CONFIG.daemons[0].port))
        result = hop("doctor", file, "--state", tmp_path, "--json")

    facts = json.loads(result.stdout)
    found = [one for one in facts["checks"] if one["verdict"] == "finding" and one["subject"] == "eu1"]
    assert len(found) == 1
    assert "Address already in use, and it is no hopd" in found[0]["text"]
    assert result.exit_code == 1
    unknown = [one["subject"] for one in facts["checks"] if one["verdict"] == "unknown"]
    assert unknown == list(ALL)


@pytest.mark.parametrize("at", ["eu1", "eu9=hop://localhost"])
def test_where_to_ask_needs_a_daemon_of_the_file(tmp_path: Path, hop: Hop, at: str) -> None:
    file = tmp_path / "hop.toml"
    file.write_text(dump_toml(CONFIG))

    assert hop("doctor", file, "--at", at).exit_code == 2


def test_a_broken_file_is_exit_code_7(tmp_path: Path, hop: Hop) -> None:
    file = tmp_path / "hop.toml"
    file.write_text("sites = 1")

    assert hop("doctor", file).exit_code == 7
