"""A daemon that did not run for a while: its log says so, and no neighbour is blamed."""

import re
import signal
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.hopd.one_daemon import alone
from tests.support.free_ports import free_base_port

from hopring.cli.main import cli
from hopring.config import LinkProtocol, local_config

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("sites", "lost"), [({"eu": 1, "us": 1}, "link with us1: "), ({"eu": 2}, "ring: ")])
def test_a_stopped_daemon_logs_that_it_did_not_run_and_the_other_names_it(
    tmp_path: Path, sites: dict[str, int], lost: str
) -> None:
    config = local_config(sites, base_port=free_base_port(4), protocol=LinkProtocol.HOP)
    first, second = [daemon.name for daemon in config.daemons]
    with alone(config, tmp_path, first) as watching, alone(config, tmp_path, second) as stopped:
        watching.wait_for_log("size=2")
        stopped.wait_for_log("size=2")
        views = len(stopped.log().splitlines())
        stopped.process.send_signal(signal.SIGSTOP)
        try:
            watching.wait(lambda: "size=1" in watching.log().splitlines()[-1])
        finally:
            stopped.process.send_signal(signal.SIGCONT)
        stopped.wait_for_log('cause="this daemon did not run for ')

        said = stopped.log().splitlines()[views:]
        view = next(at for at, line in enumerate(said) if " view " in line)
        assert 'cause="this daemon did not run for ' in said[view]
        told = r" stalled seconds=\d+\.\d text=\"this daemon did not run: "
        assert [line for line in said[:view] if re.search(told, line)], (
            "the stall is not logged before the view"
        )
        assert f'cause="{lost}' in watching.log()


def test_hop_view_and_the_status_name_the_neighbour_that_was_lost(tmp_path: Path) -> None:
    config = local_config({"eu": 1, "us": 1}, base_port=free_base_port(4))
    with alone(config, tmp_path, "eu1") as eu1:
        with alone(config, tmp_path, "us1") as us1:
            eu1.wait_for_log("size=2")
            us1.process.kill()
            us1.process.wait()
        eu1.wait(lambda: "size=1" in eu1.log().splitlines()[-1])
        asked = CliRunner().invoke(cli, ["view", "--at", f"hop://127.0.0.1:{config.daemons[0].client_port}"])

        assert "(link with us1: nothing heard for " in asked.stdout
        assert 'cause="link with us1: nothing heard for ' in eu1.log()
        assert "daemon 1" not in eu1.log()
