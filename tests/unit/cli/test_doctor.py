"""The checks of `hop doctor`, each with a fault to find."""

import json
import os
import resource
import socket
from dataclasses import replace
from pathlib import Path

import pytest
from tests.support.free_ports import free_base_port
from tests.unit.cli.conftest import Hop

from hopring.cli import doctor_checks
from hopring.cli.doctor_checks import AskedDaemon, DoctorReport, check_daemons, check_pairs
from hopring.client.queries import DaemonFacts, DaemonView, LinkFacts
from hopring.config import (
    Config,
    LinkConfig,
    LinkTuning,
    MulticastConfig,
    RingTuning,
    config_digest,
    dump_toml,
    local_config,
)
from hopring.ids import DaemonId, Incarnation, ViewId
from hopring.session.protocol import DaemonPhase

CONFIG = local_config({"eu": 2, "us": 1})  # Nobody listens at its ports.
LINK = LinkFacts("us1", "hop", 1000, 1000, 0, 0, 0, 0.04, 0)


def asked(
    name: str,
    *members: str,
    config: Config = CONFIG,
    link: LinkFacts = LINK,
    phase: DaemonPhase = "op",
    cut: tuple[str, ...] = (),
    shaped: tuple[str, ...] = (),
    **counts: int,
) -> AskedDaemon:
    facts = DaemonFacts(
        daemon=name,
        cluster="local",
        config_digest=config_digest(config),
        version="1",
        phase=phase,
        uptime_seconds=1.0,
        sessions=0,
        groups=0,
        ring=(),
        links=(link,),
        dropped=counts,
        unsent=counts,
        cut=cut,
        shaped=shaped,
    )
    view = ViewId(1, DaemonId(0), Incarnation(1))
    return AskedDaemon(f"hop://{name}", facts, DaemonView(view, members, "start", 1.0))


def findings(asked: dict[str, AskedDaemon]) -> list[tuple[str, str]]:
    chart = DoctorReport()
    check_daemons(chart, CONFIG, asked)
    check_pairs(chart, CONFIG, asked)
    assert all(one.remedy for one in chart.findings)
    return [(one.subject, one.text) for one in chart.findings]


ALL = ("eu1", "eu2", "us1")


def test_a_cluster_that_is_together_has_no_findings() -> None:
    assert findings({name: asked(name, *ALL) for name in ALL}) == []


def test_a_missing_daemon_is_reported_once_for_each_daemon_that_misses_it() -> None:
    found = findings({name: asked(name, "eu1", "eu2") for name in ("eu1", "eu2")})

    assert found == [
        ("eu1 <-> us1", "us1 is not in eu1's view"),
        ("eu2 <-> us1", "us1 is not in eu2's view"),
    ]


def test_a_split_is_reported_once_and_a_one_way_path_by_its_direction() -> None:
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
    assert "refused 3 packets for cluster since it started 1 s ago" in texts
    assert "could not send 2 datagrams since it started 1 s ago: too_long" in texts
    assert ("us1 -> eu2", "100 of 1000 packets were lost in this view") in found
    assert ("us1", "hop://eu1 is eu1") in found


def remedies(asked: dict[str, AskedDaemon]) -> dict[str, str]:
    chart = DoctorReport()
    check_daemons(chart, CONFIG, asked)
    check_pairs(chart, CONFIG, asked)
    return {one.subject: f"{one.text}; {one.remedy}" for one in chart.findings}


def test_a_manual_cut_is_named_at_either_end_and_the_network_is_not_blamed() -> None:
    both = {"eu1": asked("eu1", "eu1", "eu2", cut=("us1",)), "us1": asked("us1", "us1", cut=("eu1", "eu2"))}
    one_end = {"eu1": asked("eu1", "eu1", "eu2"), "us1": asked("us1", "us1", cut=("eu1", "eu2"))}
    unasked = {"eu1": asked("eu1", "eu1", "eu2", cut=("us1",))}

    for some, ends in ((both, "eu1 and us1"), (one_end, "us1"), (unasked, "eu1")):
        told = remedies(some)["eu1 <-> us1"]
        assert told.startswith(f"they are parted by hand (hop monitor partition): cut at {ends};")
        assert "hop monitor heal" in told
        assert "UDP" not in told


def test_daemons_of_different_configurations_or_that_search_are_not_blamed_on_udp() -> None:
    other = replace(CONFIG, cluster="other")
    files = remedies({"eu1": asked("eu1", "eu1"), "us1": asked("us1", "us1", config=other)})
    assert "they run with different configurations" in files["eu1 <-> us1"]
    assert "UDP" not in files["eu1 <-> us1"]

    search = remedies({"eu1": asked("eu1", "eu1"), "us1": asked("us1", "us1", phase="search")})
    assert "ask again in a few seconds" in search["eu1 <-> us1"]
    assert "UDP" not in search["eu1 <-> us1"]


def test_loss_configured_by_the_admin_channel_is_not_blamed_on_the_network() -> None:
    lossy = LinkFacts("us1", "hop", 0, 900, 100, 0, 0, 0.001, 0)
    told = remedies({"eu2": asked("eu2", *ALL, link=lossy), "us1": asked("us1", *ALL, shaped=("eu2",))})

    assert "admin channel of us1" in told["us1 -> eu2"]
    assert "check the network" not in told["us1 -> eu2"]


def test_a_soft_limit_that_hopd_raises_by_itself_is_no_finding() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    config = replace(CONFIG, clients=replace(CONFIG.clients, sessions_max=200))
    chart = DoctorReport()
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, hard), hard))
    try:
        doctor_checks.check_limits(chart, config)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    assert [one.text for one in chart.findings if "files" in one.text] == []


def test_packets_that_are_too_long_for_the_path_are_found() -> None:
    sites = tuple([replace(site, ring=RingTuning(segment_bytes=65_000)) for site in CONFIG.sites])
    config = replace(
        CONFIG, sites=sites, links=(LinkConfig(("eu", "us"), tuning=LinkTuning(segment_bytes=9_000)),)
    )
    chart = DoctorReport()
    doctor_checks.check_paths(chart, config, config.daemons[0])
    mtu = int((Path("/sys/class/net/lo/mtu")).read_text())

    too_long = [one.subject for one in chart.findings]
    assert too_long == [pair for pair, size in (("eu1 -> eu2", 65_028), ("eu1 -> us1", 9_028)) if size > mtu]
    assert len(chart.checks) == 2


def test_no_route_is_a_finding() -> None:
    far = replace(CONFIG.daemons[2], address="192.0.2.1")
    sites = tuple([replace(one, daemons=(far,)) if one.name == "us" else one for one in CONFIG.sites])
    chart = DoctorReport()
    doctor_checks.check_paths(chart, replace(CONFIG, sites=sites), CONFIG.daemons[0])

    # From 127.0.0.1 only loopback can be reached.
    assert [one.subject for one in chart.findings] == ["eu1 -> us1"]
    assert "no route from 127.0.0.1 to 192.0.2.1" in chart.findings[0].text


def test_an_invalid_multicast_group_is_a_finding_and_a_valid_one_is_received() -> None:
    site = CONFIG.sites[0]
    chart = DoctorReport()
    doctor_checks.check_multicast(
        chart, replace(site, multicast=MulticastConfig("239.255.77.14", 1)), site.daemons[0]
    )
    assert chart.findings == []
    doctor_checks.check_multicast(
        chart, replace(site, multicast=MulticastConfig("10.9.9.9", 1)), site.daemons[0]
    )
    assert len(chart.findings) == 1


def test_a_port_that_another_program_has_is_a_finding(tmp_path: Path, hop: Hop) -> None:
    file = tmp_path / "hop.toml"
    config = local_config({"eu": 2, "us": 1}, base_port=free_base_port(6))
    file.write_text(dump_toml(config))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", config.daemons[0].port))
        result = hop("doctor", file, "--state", tmp_path, "--json")

    facts = json.loads(result.stdout)
    found = [one for one in facts["checks"] if one["verdict"] == "finding" and one["subject"] == "eu1"]
    assert len(found) == 1
    assert f"Address already in use, by process {os.getpid()} " in found[0]["text"]
    assert result.exit_code == 1
    unknown = [one["subject"] for one in facts["checks"] if one["verdict"] == "unknown"]
    assert unknown == list(ALL)


@pytest.mark.parametrize("at", ["eu1", "eu9=hop://localhost", "eu1=localhost:4893", "eu1=hop+unix://x.sock"])
def test_where_to_ask_needs_a_daemon_of_the_file(tmp_path: Path, hop: Hop, at: str) -> None:
    file = tmp_path / "hop.toml"
    file.write_text(dump_toml(CONFIG))

    result = hop("doctor", file, "--at", at)
    assert result.exit_code == 2
    assert "--at" in result.stderr


def test_a_broken_file_is_exit_code_7(tmp_path: Path, hop: Hop) -> None:
    file = tmp_path / "hop.toml"
    file.write_text("sites = 1")

    assert hop("doctor", file).exit_code == 7
