"""A daemon whose clients take all the descriptors that they can get."""

import contextlib
import socket
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
from tests.hopd.hopd_with_few_descriptors import DESCRIPTORS
from tests.hopd.one_daemon import OneDaemon, alone
from tests.unit.daemon.free_ports import free_base_port

from hopring import sync
from hopring.config import Config, LinkProtocol, local_config

pytestmark = pytest.mark.slow


def cpu_seconds(daemon: OneDaemon) -> float:
    """The processor time that a daemon has used."""
    fields = Path(f"/proc/{daemon.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / 100


def two_sites() -> Config:
    """Two sites with a link over TCP; only one of them is started."""
    return local_config({"eu": 1, "us": 1}, base_port=free_base_port(4), protocol=LinkProtocol.TCP)


def test_metrics_and_links_have_descriptors_when_clients_have_taken_theirs(tmp_path: Path) -> None:
    config, page = two_sites(), free_base_port(1)
    port = config.daemons[0].client_port
    module = "tests.hopd.hopd_with_few_descriptors"
    with (
        alone(config, tmp_path, "eu1", "--metrics", str(page), module=module) as eu1,
        contextlib.ExitStack() as held,
    ):
        eu1.wait_for_log("size=1")
        for _ in range(2 * DESCRIPTORS):
            held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
        eu1.wait_for_log("client_delayed")
        with urlopen(f"http://127.0.0.1:{page}/healthz", timeout=5) as answer:
            assert answer.read().startswith(b"ok")
        before = cpu_seconds(eu1)
        time.sleep(1.0)
        assert cpu_seconds(eu1) - before < 0.5, "accepting without descriptors does not spin"
        with alone(config, tmp_path, "us1") as us1:
            us1.wait_for_log("size=2")
            eu1.wait_for_log("size=2")
        assert "raise the limit of open files" in eu1.log()
        held.close()
        with sync.connect(f"hop://127.0.0.1:{port}", name="anna") as anna:
            assert anna.daemon == "eu1"
