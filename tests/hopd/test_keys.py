"""Daemons as processes with cluster keys: what starts, what is refused, what the log says, how keys change."""

import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.hopd.one_daemon import SECONDS_MAX, alone
from tests.support.free_ports import free_base_port
from tests.support.keys import DAYS
from tests.support.waiting import until

from hopring import sync
from hopring.config import Config, SecurityTuning, dump_toml, local_config
from hopring.credentials.directory import KeyDirectory

pytestmark = pytest.mark.slow


def make_keys(path: Path) -> KeyDirectory:
    directory = KeyDirectory(path)
    directory.create("local", [], datetime.now(UTC), DAYS, DAYS)
    return directory


def reloaded(log: Path, times: int) -> bool:
    return sum(" keys use=" in line for line in log.read_text().splitlines()) == times


def knows(status: dict[str, Any], keys: list[str]) -> bool:
    """Whether a daemon has these keys, and knows that all daemons that it has met have them."""
    told = status["keys"]
    return bool(told["live"] == keys and told["announced"]) and all(
        had == keys for had in told["announced"].values()
    )


def try_to_start(tmp_path: Path, config: Config, *options: str) -> subprocess.CompletedProcess[str]:
    """Runs hopd with a configuration that it is expected to refuse."""
    file = tmp_path / "hop.toml"
    file.write_text(dump_toml(config))
    words = [sys.executable, "-m", "hopring.daemon.hopd", str(file), "--name", "eu1", *options]
    state = ["--state", str(tmp_path)]
    return subprocess.run([*words, *state], capture_output=True, text=True, timeout=60, check=False)


def elsewhere(address: str) -> Config:
    config = local_config({"eu": 1}, {}, base_port=free_base_port(2))
    (site,) = config.sites
    return replace(config, sites=(replace(site, daemons=(replace(site.daemons[0], address=address),)),))


def test_an_address_beyond_loopback_without_keys_is_refused(tmp_path: Path) -> None:
    ended = try_to_start(tmp_path, elsewhere("192.0.2.1"))

    assert ended.returncode == 7
    assert "eu1 has the address 192.0.2.1, and there are no keys" in ended.stderr
    assert "hop keys new" in ended.stderr
    assert "insecure = true" in ended.stderr


@pytest.mark.parametrize("options", [("--listen", "0.0.0.0"), ("--metrics", "0.0.0.0:0")])
def test_serving_other_hosts_without_encryption_is_refused(tmp_path: Path, options: tuple[str, str]) -> None:
    ended = try_to_start(tmp_path, elsewhere("127.0.0.1"), *options)

    assert ended.returncode == 7
    assert f"{options[0]} 0.0.0.0" in ended.stderr
    assert "insecure = true" in ended.stderr


def test_missing_keys_are_refused_with_the_remedy(tmp_path: Path) -> None:
    path = make_keys(tmp_path / "keys").keys_path
    path.unlink()

    ended = try_to_start(tmp_path, replace(elsewhere("127.0.0.1"), security=SecurityTuning("keys")))

    assert ended.returncode == 7
    assert str(path) in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


def test_daemons_of_a_local_cluster_encrypt_and_no_name_or_payload_is_in_their_datagrams(
    tmp_path: Path,
) -> None:
    keys = make_keys(tmp_path / "keys")
    with sync.local_cluster({"eu": 2, "us": 1}, directory=tmp_path, keys=tmp_path / "keys") as cluster:
        log = (tmp_path / "eu1.log").read_text()
        with sync.connect(cluster.url("eu1"), name="alice") as one, sync.connect(cluster.url("us1")) as other:
            group = other.join("secret-group")
            one.multicast("secret-group", b"secret-payload")
            assert next(event for event in group if hasattr(event, "data")).data == b"secret-payload"

    assert f"key={keys.key_file().used.key.id:08x}" in log


def test_a_daemon_with_other_keys_stays_alone_and_its_log_says_why(tmp_path: Path) -> None:
    make_keys(tmp_path / "other")
    with sync.local_cluster({"eu": 3}, directory=tmp_path) as cluster:
        file = tmp_path / "hop.toml"
        cluster.crash("eu3")
        until(lambda: len(cluster.status("eu1")["members"]) == 2)
        text = file.read_text()
        foreign = replace(cluster.config, security=SecurityTuning(str(tmp_path / "other")))
        file.write_text(dump_toml(foreign))
        cluster.restart("eu3")
        file.write_text(text)
        until(lambda: "which this daemon does not have" in (tmp_path / "eu3.log").read_text())
        until(lambda: "which this daemon does not have" in (tmp_path / "eu1.log").read_text())

        assert cluster.status("eu3")["members"] == ["eu3"]
        assert cluster.status("eu1")["keys"]["refused"]["unknown_key"] > 0
        assert len(cluster.status("eu1")["members"]) == 2


def test_keys_are_added_used_and_dropped_by_reloads_without_a_view_change(tmp_path: Path) -> None:
    directory = make_keys(tmp_path / "keys")
    old = directory.key_file().used.key.id
    with sync.local_cluster({"eu": 2, "us": 2}, directory=tmp_path, keys=tmp_path / "keys") as cluster:
        views = {name: cluster.status(name)["view"] for name in cluster.daemons}
        with sync.connect(cluster.url("eu1")) as one, sync.connect(cluster.url("us2")) as other:
            group = other.join("news")
            received = iter(group)

            def exchange(text: bytes) -> None:
                one.multicast("news", text)
                assert next(event for event in received if hasattr(event, "data")).data == text

            added = directory.key_file().with_new_key()
            new = next(key.key.id for key in added.keys if not key.in_use)
            everywhere = [f"{one:08x}" for one in sorted((old, new))]
            steps = added, added.with_use(f"{new:08x}"), added.with_use(f"{new:08x}").without(f"{old:08x}")
            for at, step in enumerate(steps):
                step.save()
                for name in cluster.daemons:
                    os.kill(cluster.status(name)["pid"], 1)
                    exchange(b"%d %s" % (at, name.encode()))
                for name in cluster.daemons:
                    until(partial(reloaded, tmp_path / f"{name}.log", at + 1))
                if at == 0:
                    until(lambda: all(knows(cluster.status(name), everywhere) for name in cluster.daemons))
        assert {name: cluster.status(name)["view"] for name in cluster.daemons} == views
        for name in cluster.daemons:
            keys = cluster.status(name)["keys"]
            assert (keys["in_use"], keys["wanted"], keys["live"]) == (
                f"{new:08x}",
                f"{new:08x}",
                [f"{new:08x}"],
            )


def test_a_daemon_whose_packet_numbers_end_says_so_in_one_line_with_the_remedy(tmp_path: Path) -> None:
    config = local_config({"eu": 2}, base_port=free_base_port(4))
    keys = make_keys(tmp_path / "keys")
    config = replace(config, security=SecurityTuning(str(keys.root)))
    with alone(config, tmp_path, "eu1", module="tests.hopd.hopd_at_its_last_packets") as daemon:
        code = daemon.process.wait(SECONDS_MAX)
        log = daemon.log()

    assert code == 1
    said = "hopd: this process has sent 2^63 packets, all that its keys allow; start the daemon again"
    assert log.splitlines().count(said) == 1
    assert "Traceback" not in log
    assert log.splitlines()[-1].endswith(" end")
