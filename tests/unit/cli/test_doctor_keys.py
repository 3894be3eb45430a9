"""The checks of `hop doctor` about keys, each with a fault to find."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.support.free_ports import free_base_port
from tests.support.keys import DAYS, with_keys

from hopring.cli.doctor_checks import CheckVerdict, DoctorReport
from hopring.cli.doctor_keys import check_key_files, check_running_keys
from hopring.config import SecurityTuning, local_config

CONFIG = replace(local_config({"eu": 3}, base_port=free_base_port(6)), security=SecurityTuning("keys"))
NOW = datetime.now(UTC)


def files(directory: Path, config: Any = CONFIG, now: datetime = NOW) -> DoctorReport:
    report = DoctorReport()
    check_key_files(report, config, directory / "hop.toml", now)
    return report


def status(name: str, **keys: Any) -> dict[str, Any]:
    others = [one for one in ("eu1", "eu2", "eu3") if one != name]
    told = {"insecure": False, "in_use": "aa", "wanted": "aa", "live": ["aa"], "refused": {}}
    told |= {"announced": {one: ["aa"] for one in others}}
    return {"daemon": name, "cluster": "local", "members": ["eu1", "eu2", "eu3"], "keys": told | keys}


def running(*statuses: dict[str, Any]) -> list[tuple[str, str]]:
    report = DoctorReport()
    check_running_keys(report, CONFIG, statuses)
    assert all(one.remedy for one in report.findings)
    return [(one.subject, one.text) for one in report.findings]


def test_good_key_files_are_named_with_mode_and_owner(tmp_path: Path) -> None:
    with_keys(replace(CONFIG, security=SecurityTuning()), tmp_path)

    (check,) = files(tmp_path).checks
    assert check.verdict is CheckVerdict.OK
    assert "cluster.keys has mode 0600 and belongs to " in check.text


def test_modes_and_certificates_that_expire_soon_are_findings(tmp_path: Path) -> None:
    with_keys(replace(CONFIG, security=SecurityTuning()), tmp_path)
    (tmp_path / "keys" / "cluster.keys").chmod(0o640)

    found = [one.text for one in files(tmp_path, now=NOW + timedelta(days=DAYS - 3)).findings]
    assert any("cluster.keys: has mode 0640" in text for text in found)
    assert any("eu1.crt: expires in" in text for text in found)


def test_missing_keys_and_an_insecure_cluster_are_findings(tmp_path: Path) -> None:
    (missing,) = files(tmp_path).findings
    (insecure,) = files(tmp_path, replace(CONFIG, security=SecurityTuning(insecure=True))).findings

    assert "does not exist" in missing.text
    assert insecure.text.startswith("insecure = true")


def test_daemons_with_the_same_keys_have_no_findings() -> None:
    assert running(status("eu1"), status("eu2"), status("eu3")) == []


def test_keys_that_differ_between_daemons_are_a_finding() -> None:
    found = running(status("eu1"), status("eu2", live=["aa", "bb"]), status("eu3"))

    assert found == [("keys", "daemons have different live keys: eu1 eu3 aa; eu2 aa,bb")]


def test_a_daemon_of_the_view_without_the_new_key_is_a_finding() -> None:
    told = {"wanted": "bb", "live": ["aa", "bb"], "announced": {"eu2": ["aa", "bb"], "eu3": ["aa"]}}
    found = running(status("eu1", **told))

    assert found == [("eu1", "eu3 of its view said nothing of key bb, which it is to use")]


def test_a_running_daemon_that_is_insecure_or_has_no_keys_is_a_finding() -> None:
    clear: dict[str, Any] = {"in_use": None, "wanted": None, "live": [], "announced": {}}
    found = dict(running(status("eu1", insecure=True, **clear)))

    assert found["eu1"] == "runs without keys, and the file has them"
    assert len(running(status("eu1", insecure=True, **clear))) == 2
