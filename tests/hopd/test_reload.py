"""SIGHUP: settings that a running daemon takes from its file, and those that it refuses."""

import json
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from tests.hopd.one_daemon import alone
from tests.support.free_ports import free_base_port

from hopring import ConnectError, sync
from hopring.config import ClientTuning, LogFormat, LogTuning, RingTuning, dump_toml, local_config

pytestmark = pytest.mark.slow


def test_limits_and_the_log_change_at_once_tuning_by_a_view_and_a_broken_file_changes_nothing(
    tmp_path: Path,
) -> None:
    config = local_config({"eu": 1}, base_port=free_base_port(2))
    url = f"hop://127.0.0.1:{config.daemons[0].client_port}"
    with alone(config, tmp_path, "eu1") as eu1:
        eu1.wait_for_log("size=1")
        with sync.connect(url, name="anna", reconnect=False) as anna:
            sync.connect(url, name="bert").close()

            ring = RingTuning(hold_us=20_000)
            changed = replace(
                config,
                sites=tuple([replace(site, ring=ring) for site in config.sites]),
                clients=ClientTuning(sessions_max=1, window_bytes=8192),
            )
            eu1.file.write_text(dump_toml(changed))
            eu1.process.send_signal(signal.SIGHUP)
            eu1.wait_for_log("needs_restart=clients.window")
            assert "changed=clients.sessions_max,sites.eu.ring.hold" in eu1.log()
            eu1.wait_for_log("cause=start", 2)
            anna.join("trades")
            with pytest.raises(ConnectError, match="too many clients"):
                sync.connect(url, name="carl")

            eu1.file.write_text("sites = [")
            eu1.process.send_signal(signal.SIGHUP)
            eu1.wait_for_log("the old configuration stays in force")
            with pytest.raises(ConnectError, match="too many clients"):
                sync.connect(url, name="carl")

            eu1.file.write_text(dump_toml(replace(config, cluster="other")).replace("eu1", "eu2"))
            eu1.process.send_signal(signal.SIGHUP)
            eu1.wait_for_log("the old configuration stays in force", 2)

            eu1.file.write_text(dump_toml(replace(config, log=LogTuning(LogFormat.JSON))))
            eu1.process.send_signal(signal.SIGHUP)
            eu1.wait_for_log('"event": "reload"')
            sync.connect(url, name="dora").close()
    line = json.loads(next(one for one in eu1.log().splitlines() if '"event": "reload"' in one))
    assert line["changed"] == "clients.sessions_max,log.format,sites.eu.ring.hold"
    assert json.loads(eu1.log().splitlines()[-1])["event"] == "end"


def test_the_command_line_overrides_the_file(tmp_path: Path) -> None:
    config = local_config({"eu": 1}, base_port=free_base_port(2))
    with alone(config, tmp_path, "eu1", "--log-format", "json") as eu1:
        eu1.wait_for_log('"event": "view"')
        eu1.process.send_signal(signal.SIGHUP)
        eu1.wait_for_log('"event": "reload"')
    lines = [json.loads(line) for line in eu1.log().splitlines()]
    assert [line["event"] for line in lines][-2:] == ["leave", "end"]
    assert all(line["daemon"] == "eu1" for line in lines)
