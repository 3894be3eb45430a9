"""Metrics and health of real daemons, read as Prometheus reads them."""

import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.hopd.one_daemon import alone
from tests.support.free_ports import free_base_port

from hopring import SAFE, sync
from hopring.config import local_config

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
Values = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def read(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def values(text: str) -> Values:
    found: Values = {}
    for family in text_string_to_metric_families(text):
        assert family.documentation, family.name
        for sample in family.samples:
            found[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return found


def test_metrics_count_views_clients_messages_and_links(tmp_path: Path) -> None:
    base = free_base_port(5)
    config = local_config({"eu": 1, "us": 1}, {("eu", "us"): "1ms"}, base_port=base)
    port, client_port = base + 4, config.daemons[0].client_port
    with alone(config, tmp_path, "eu1", "--metrics", str(port)) as eu1, alone(config, tmp_path, "us1") as us1:
        eu1.wait_for_log("size=2")
        us1.wait_for_log("size=2")
        with sync.connect(f"hop://127.0.0.1:{client_port}", name="anna") as anna:
            group = anna.join("g")
            group.receive()
            for _ in range(10):
                group.multicast(b"x" * 100)
            group.multicast(b"y", service=SAFE)
            for _ in range(11):
                group.receive()
            eu1.wait(lambda: read(port, "/readyz") == (200, "ready, view of 2 of 2 daemons\n"))
            status, text = read(port, "/metrics")
    seen = values(text)
    assert status == 200
    assert seen["hopring_view_size", ()] == 2
    assert seen["hopring_views_total", ()] >= 2
    assert seen["hopring_state", (("state", "op"),)] == 1
    assert seen["hopring_state", (("state", "search"),)] == 0
    assert (seen["hopring_sessions", ()], seen["hopring_groups", ()]) == (1, 1)
    for way in ("sent", "delivered"):
        assert seen[f"hopring_messages_{way}_total", (("service", "agreed"),)] == 10
        assert seen[f"hopring_messages_{way}_total", (("service", "safe"),)] == 1
        assert seen[f"hopring_bytes_{way}_total", (("service", "agreed"),)] > 1000
    link = (("peer", "us1"), ("protocol", "hop"))
    assert seen["hopring_link_sent_total", link] > 0
    assert seen["hopring_link_received_total", link] > 0
    assert 0 < seen["hopring_link_round_trip_seconds", link] < 5
    assert seen["hopring_udp_datagrams_sent_total", ()] > 0
    assert seen["hopring_uptime_seconds", ()] > 0
    families = set(re.findall(r"# TYPE (hopring_\w+)", text))
    documented = set(re.findall(r"`(hopring_\w+)`", (ROOT / "docs" / "operations.md").read_text()))
    assert families == documented - {"hopring_spooler_up", "hopring_spooler_starts_total"}  # With --spool only.


def test_in_a_split_missing_links_and_daemons_stay_in_the_metrics_and_clients_are_served(
    tmp_path: Path,
) -> None:
    base = free_base_port(7)
    config = local_config({"eu": 2, "us": 1}, base_port=base)
    port = base + 6
    link = (("peer", "us1"), ("protocol", "hop"), ("site", "us"))
    with alone(config, tmp_path, "eu2"), alone(config, tmp_path, "eu1", "--metrics", str(port)) as eu1:
        eu1.wait_for_log("start version")
        with alone(config, tmp_path, "us1"):
            eu1.wait(lambda: read(port, "/healthz") == (200, "ok, view of 3 of 3 daemons\n"))
            assert values(read(port, "/metrics")[1])["hopring_link_up", link] == 1
        alive = (200, "ok, view of 2 of 3 daemons, without us1\n")
        eu1.wait(lambda: read(port, "/healthz") == alive)
        eu1.wait(lambda: read(port, "/readyz") == (200, "ready, view of 2 of 3 daemons, without us1\n"))
        seen = values(read(port, "/metrics")[1])

    assert seen["hopring_link_up", link] == 0
    assert seen["hopring_healthy", ()] == 1
    by_site = {site: (("site", site),) for site in ("eu", "us")}
    assert [seen["hopring_configured_daemons", by_site[site]] for site in ("eu", "us")] == [2, 1]
    assert [seen["hopring_view_daemons", by_site[site]] for site in ("eu", "us")] == [2, 0]


def test_a_single_daemon_becomes_ready_and_logs_the_address_of_its_metrics(tmp_path: Path) -> None:
    base = free_base_port(3)
    config = local_config({"eu": 1}, base_port=base)
    with alone(config, tmp_path, "eu1", "--metrics", f"127.0.0.1:{base + 2}") as eu1:
        eu1.wait_for_log("start version")
        eu1.wait(lambda: read(base + 2, "/readyz") == (200, "ready, view of 1 of 1 daemons\n"))
        assert f'metrics="127.0.0.1 port {base + 2}"' in eu1.log()
        assert read(base + 2, "/elsewhere")[0] == 404


def test_an_invalid_metrics_address_is_refused_with_an_example(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hopring.daemon.hopd", "hop.toml", "--name", "eu1", "--metrics", "here"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=60)

    assert done.returncode == 2
    assert "'here' is no ADDRESS:PORT; write 127.0.0.1:9464" in done.stderr


def test_without_the_option_there_is_no_port(tmp_path: Path) -> None:
    with alone(local_config({"eu": 1}, base_port=free_base_port(2)), tmp_path, "eu1") as eu1:
        eu1.wait_for_log("start version")
        assert "metrics" not in eu1.log()
