"""A daemon on another engine: everything above the engine works as it does on the membership."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from click.testing import CliRunner
from prometheus_client.parser import text_string_to_metric_families
from tests.hopd.one_daemon import OneDaemon, alone
from tests.support.free_ports import free_base_port

from hopring import Message, Service, View, sync
from hopring.cli.main import cli
from hopring.config import Config, local_config

pytestmark = pytest.mark.slow

SECONDS_MAX = 90.0


class Solo:
    """A daemon on the engine of one process, and its addresses."""

    def __init__(self, daemon: OneDaemon, config: Config, metrics_port: int, directory: Path) -> None:
        self.daemon = daemon
        self.url = f"hop://127.0.0.1:{config.daemons[0].client_port}"
        self.directory = directory
        self._metrics_port = metrics_port

    def get(self, path: str) -> str:
        with urlopen(f"http://127.0.0.1:{self._metrics_port}{path}", timeout=SECONDS_MAX) as answer:
            text: bytes = answer.read()
        return text.decode()

    def metrics(self) -> dict[str, float]:
        """All samples without labels, and the samples of states."""
        families = list(text_string_to_metric_families(self.get("/metrics")))
        samples = [sample for family in families for sample in family.samples]
        return {one.name + one.labels.get("state", ""): one.value for one in samples}

    def admin(self, **request: object) -> dict[str, object]:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(SECONDS_MAX)
            sock.connect(str(self.directory / "admin"))
            sock.sendall(json.dumps(request).encode() + b"\n")
            answer: dict[str, object] = json.loads(sock.makefile().readline())
        return answer


@pytest.fixture
def solo(tmp_path: Path) -> Iterator[Solo]:
    base = free_base_port(3)
    config = local_config({"eu": 1}, base_port=base)
    arguments = ("--metrics", str(base + 2), "--admin", str(tmp_path / "admin"), "--dangerous")
    with alone(config, tmp_path, "eu1", *arguments, module="tests.hopd.solo_engine") as daemon:
        daemon.wait_for_log("size=1")
        yield Solo(daemon, config, base + 2, tmp_path)


def hop(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hopring.cli.main", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_clients_send_and_receive_in_views(solo: Solo) -> None:
    with sync.connect(solo.url, name="anna") as anna, sync.connect(solo.url, name="bert") as bert:
        both = anna.join("trades"), bert.join("trades")
        for service in (Service.FIFO, Service.SAFE, Service.AGREED):
            both[0].multicast(service.name.encode(), service=service)
        heard: list[bytes] = []
        members: list[int] = []
        while len(heard) < 3:
            event = bert.receive(timeout_seconds=SECONDS_MAX)
            if isinstance(event, Message):
                heard.append(bytes(event.data))
            elif isinstance(event, View):
                members.append(len(event.members))

    assert heard == [b"FIFO", b"SAFE", b"AGREED"]
    assert members[-1] == 2


def test_hop_pub_reaches_hop_sub_and_hop_view_shows_the_daemon(solo: Solo) -> None:
    subscriber = hop("sub", "trades", "--at", solo.url, "--count", "1")
    solo.daemon.wait(lambda: solo.metrics()["hopring_groups"] == 1)
    publisher = hop("pub", "trades", "hello", "--at", solo.url)

    _, problem = publisher.communicate(timeout=SECONDS_MAX)
    assert publisher.returncode == 0, problem
    heard, problem = subscriber.communicate(timeout=SECONDS_MAX)
    assert subscriber.returncode == 0, problem
    assert "hello" in heard

    view = hop("view", "--at", solo.url)
    shown, problem = view.communicate(timeout=SECONDS_MAX)
    assert view.returncode == 0, problem
    assert "eu1" in shown


def test_metrics_health_and_status_come_from_its_snapshot(solo: Solo) -> None:
    assert solo.get("/readyz") == "ready, view of 1 of 1 daemons\n"
    assert solo.get("/healthz") == "ok, view of 1 of 1 daemons\n"
    metrics = solo.metrics()
    assert (metrics["hopring_stateop"], metrics["hopring_stategone"]) == (1, 0)
    assert (metrics["hopring_view_size"], metrics["hopring_views_total"], metrics["hopring_ring_members"]) == (
        1,
        1,
        0,
    )

    status = solo.admin(verb="status")["status"]
    assert isinstance(status, dict)
    assert (status["phase"], status["members"], status["links"]) == ("OP", ["eu1"], [])
    assert solo.admin(verb="window", bytes=100_000)["error"] == "this engine has no bytes"
    assert solo.admin(verb="reload")["result"] == {"changed": [], "view_change": [], "needs_restart": []}


def test_hop_doctor_finds_the_daemon_well(solo: Solo) -> None:
    result = CliRunner().invoke(
        cli, ["doctor", str(solo.daemon.file), "--state", str(solo.directory), "--json"]
    )

    checks = json.loads(result.stdout)["checks"]
    told = [one for one in checks if one["subject"] == "eu1"]
    assert any("runs with this configuration" in one["text"] for one in told), checks
    assert not [one for one in told if one["verdict"] == "finding"]
