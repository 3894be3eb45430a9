"""`hop up`, run as users start it."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.spread.client import dial
from tests.support.free_ports import free_base_port
from tests.support.waiting import until

from hopring.cli.main import cli
from hopring.cli.up import read_links

HOP = [sys.executable, "-m", "hopring.cli.main"]
SECONDS_MAX = 90


def hop(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*HOP, *arguments], capture_output=True, text=True, timeout=SECONDS_MAX, check=False, env=os.environ
    )


@pytest.fixture
def up(tmp_path: Path) -> "Iterator[tuple[subprocess.Popen[str], str]]":
    port = free_base_port(1)
    command = [*HOP, "up", "--sites", "eu=1,us=1", "--link", "eu-us=20ms", "--port", str(port), "--json"]
    with (tmp_path / "output").open("w") as output:
        process = subprocess.Popen(
            [*command, "--out", str(tmp_path / "out")], stdout=subprocess.PIPE, stderr=output, text=True
        )
    yield process, f"hop://127.0.0.1:{port}"
    process.kill()
    process.wait(SECONDS_MAX)
    assert process.stdout is not None
    process.stdout.close()


@pytest.mark.slow
def test_a_cluster_is_up_until_it_is_interrupted(
    up: "tuple[subprocess.Popen[str], str]", tmp_path: Path
) -> None:
    process, url = up
    assert process.stdout is not None
    places = json.loads(process.stdout.readline())
    assert places["eu1"] == url
    sub = subprocess.Popen(
        [*HOP, "sub", "news", "--count", "1", "--at", places["us1"]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert sub.stderr is not None
    assert "is in news" in sub.stderr.readline()
    assert hop("pub", "news", "hello", "--at", url).returncode == 0
    assert sub.communicate(timeout=SECONDS_MAX)[0] == "hello\n"
    process.send_signal(signal.SIGINT)

    assert process.wait(SECONDS_MAX) == 0
    output = (tmp_path / "output").read_text()
    assert "us1  view of 2: eu1 us1" in output
    assert "Traceback" not in output
    assert (tmp_path / "out" / "eu1.jsonl").exists()


@pytest.mark.slow
def test_a_daemon_that_ends_is_reported_and_the_others_continue(
    up: "tuple[subprocess.Popen[str], str]", tmp_path: Path
) -> None:
    process, url = up
    assert process.stdout is not None
    process.stdout.readline()
    log = (tmp_path / "out" / "us1.log").read_text()
    os.kill(int(log.partition("pid=")[2].split()[0]), signal.SIGKILL)
    said = tmp_path / "output"
    until(lambda: "eu1  view of 1: eu1" in said.read_text(), said.read_text, SECONDS_MAX)

    output = said.read_text()
    assert "us1  ended with exit code -9" in output
    assert hop("pub", "news", "still here", "--at", url).returncode == 0


def test_sigterm_ends_all_daemons_and_leaves_no_socket_behind() -> None:
    port, spread_port = free_base_port(1), free_base_port(1)
    options = ["--sites", "eu=1", "--port", str(port), "--spread", "--spread-port", str(spread_port)]
    process = subprocess.Popen([*HOP, "up", *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline()
        assert Path(f"/tmp/{spread_port}").exists()
        process.terminate()
        assert process.wait(SECONDS_MAX) == 128 + signal.SIGTERM

    assert not Path(f"/tmp/{spread_port}").exists()


def test_a_taken_port_is_an_error_with_a_remedy() -> None:
    port = free_base_port(1)
    with socket.create_server(("127.0.0.1", port)):
        result = CliRunner().invoke(cli, ["up", "--port", str(port)], prog_name="hop")

    assert result.exit_code == 1
    assert f"port {port} of 127.0.0.1 is taken" in result.stderr
    assert "--port" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--sites", "eu=none"],
        ["--sites", "eu=0"],
        ["--sites", "eu=1,eu=1"],
        ["--sites", "eu=65"],
        ["--sites", "eu,us", "--link", "eu-as=4ms"],
        ["--sites", "eu,us", "--link", "eu-us=fast"],
    ],
)
def test_invalid_sites_and_links_are_usage_errors(arguments: list[str]) -> None:
    result = CliRunner().invoke(cli, ["up", *arguments], prog_name="hop")

    assert (result.exit_code, result.stdout) == (2, "")


def test_names_of_sites_may_have_dashes() -> None:
    sites = {"eu-west": 1, "us": 1}

    assert read_links(("eu-west-us=4ms",), sites) == {("eu-west", "us"): "4ms"}


@pytest.mark.slow
def test_with_spread_it_serves_spread_clients_at_their_default_socket(tmp_path: Path) -> None:
    port, spread_port = free_base_port(1), free_base_port(1)
    command = [*HOP, "up", "--sites", "d=1", "--port", str(port), "--spread", "--spread-port", str(spread_port)]
    with (
        (tmp_path / "output").open("w") as output,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=output, text=True) as process,
    ):
        assert process.stdout is not None
        assert process.stdout.readline() == f"d1  hop://127.0.0.1:{port}  {spread_port}@127.0.0.1\n"
        for place in (f"{spread_port}@127.0.0.1", f"/tmp/{spread_port}"):
            client = dial(place).connect("")
            client.join("grp")
            assert client.view().groups == (client.name,)
            client.close()
        process.terminate()
