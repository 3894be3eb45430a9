"""The checks of `hop doctor rmp://...`, each with a fault to find."""

import json
from pathlib import Path

from click.testing import CliRunner

from hopring.cli.doctor_checks import CheckVerdict, DoctorReport
from hopring.cli.main import cli
from hopring.cli.peers.checks import check_peers
from hopring.client.peer_url import parse_peer_url


def checked(url: str) -> dict[str, CheckVerdict]:
    report = DoctorReport()
    check_peers(report, parse_peer_url(url))
    return {one.text: one.verdict for one in report.checks}


def about(found: dict[str, CheckVerdict], part: str) -> list[CheckVerdict]:
    return [verdict for text, verdict in found.items() if part in text]


def test_peers_on_loopback_hear_themselves_and_stay_on_this_host() -> None:
    found = checked("rmp:///doctor")
    assert about(found, "multicast on lo with TTL 0: this host hears itself") == [CheckVerdict.OK]
    assert about(found, "packets stay on this host") == [CheckVerdict.OK]
    assert len(about(found, "buffer")) + len(about(found, "a socket gets")) >= 1


def test_what_is_wrong_is_found() -> None:
    assert about(checked("rmp://192.0.2.7/?insecure=yes"), "192.0.2.7:0") == [CheckVerdict.FINDING]
    assert about(checked("rmp:///?ttl=1"), "nothing seals") == [CheckVerdict.FINDING]
    assert about(checked("rmp:///?interface=none0"), "multicast on none0") == [CheckVerdict.FINDING]
    assert about(checked("rmp:///?multicast=no"), "multicast=no") == [CheckVerdict.UNKNOWN]


def test_the_command_prints_a_report_and_its_exit_code_tells_of_findings(tmp_path: Path) -> None:
    good = CliRunner().invoke(cli, ["doctor", "rmp:///doctor", "--json"])
    facts = json.loads(good.stdout)
    assert any("hears itself" in one["text"] for one in facts["checks"])
    bad = CliRunner().invoke(cli, ["doctor", f"rmp:///doctor?keys={tmp_path}/none"])
    assert bad.exit_code == 1
    assert "FINDING" in bad.stdout
