"""Daemons as processes with TCP links: their certificates, and daemons without or with foreign ones."""

import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.support.free_ports import free_base_port
from tests.support.keys import DAYS
from tests.support.waiting import until

from hopring.config import Config, LinkProtocol, SecurityTuning, dump_toml, local_config
from hopring.credentials.directory import KeyDirectory

pytestmark = pytest.mark.slow


def make_keys(path: Path) -> KeyDirectory:
    directory = KeyDirectory(path)
    directory.create("local", ["eu1", "us1"], datetime.now(UTC), DAYS, DAYS)
    return directory


def over_tcp() -> Config:
    sites, links = {"eu": 1, "us": 1}, {("eu", "us"): "5ms"}
    config = local_config(sites, links, base_port=free_base_port(8), protocol=LinkProtocol.TCP)
    return replace(config, security=SecurityTuning("keys"))


def hopd(directory: Path, config: Config, name: str) -> list[str]:
    file = directory / f"{name}.toml"
    file.write_text(dump_toml(config))
    words = [sys.executable, "-m", "hopring.daemon.hopd", str(file), "--name", name]
    return [*words, "--state", str(directory), "--end-with-stdin"]


@pytest.mark.parametrize("suffix", ["crt", "key"])
def test_a_daemon_with_tcp_links_does_not_start_without_its_certificate(tmp_path: Path, suffix: str) -> None:
    (make_keys(tmp_path / "keys").root / "daemons" / f"eu1.{suffix}").unlink()
    words = hopd(tmp_path, over_tcp(), "eu1")

    ended = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)

    assert ended.returncode == 7
    assert f"eu1.{suffix}: does not exist; `hop keys daemon eu1 " in ended.stderr


def test_daemons_of_different_authorities_refuse_each_other_and_their_logs_say_why(tmp_path: Path) -> None:
    ours, other = make_keys(tmp_path / "keys"), make_keys(tmp_path / "other")
    shutil.copyfile(ours.keys_path, other.keys_path)
    config = over_tcp()
    directories = {"eu1": "keys", "us1": "other"}
    processes = []
    logs = {name: tmp_path / f"{name}.log" for name in directories}
    try:
        for name, keys in directories.items():
            words = hopd(tmp_path, replace(config, security=SecurityTuning(keys)), name)
            with logs[name].open("wb") as log:
                processes.append(subprocess.Popen(words, stdin=subprocess.PIPE, stderr=log))
        until(lambda: "its certificate is refused" in logs["eu1"].read_text())
        until(lambda: "the other end refuses the connection" in logs["us1"].read_text())

        assert "members=eu1,us1" not in logs["eu1"].read_text()
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.communicate(timeout=60)
