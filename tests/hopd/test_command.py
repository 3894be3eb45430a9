"""The command hopd: its messages and exit codes."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.free_ports import free_base_port
from tests.support.waiting import until

from hopring.check.judge import first_broken
from hopring.check.trace_files import read_json_lines
from hopring.config import dump_toml, local_config

SECONDS_MAX = 60.0


def hopd(*arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hopring.daemon.hopd", *map(str, arguments)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True)


def refusal(*arguments: object) -> tuple[int, str]:
    process = hopd(*arguments)
    try:
        _, said = process.communicate(timeout=SECONDS_MAX)
    finally:
        process.kill()
    return process.returncode, said


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "hop.toml"
    path.write_text(dump_toml(local_config({"eu": 2}, base_port=free_base_port(4))))
    return path


@pytest.fixture
def daemon(file: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    process = hopd(file, "--name", "eu1", "--state", tmp_path / "state", "--trace", tmp_path / "trace.jsonl")
    yield process
    process.kill()
    process.communicate()


def next_line(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    return process.stderr.readline()


@pytest.mark.slow
def test_it_starts_installs_its_first_view_and_ends_cleanly_on_sigterm(
    daemon: subprocess.Popen[str], tmp_path: Path
) -> None:
    assert " eu1 start version=" in next_line(daemon)
    assert " size=1 members=eu1 primary=no cause=start" in next_line(daemon)
    daemon.send_signal(signal.SIGTERM)
    _, said = daemon.communicate(timeout=SECONDS_MAX)

    assert daemon.returncode == 0
    assert said.splitlines()[-1].endswith(" eu1 end")
    with (tmp_path / "trace.jsonl").open("rb") as lines:
        history = read_json_lines(lines)
    assert type(history[-1]).__name__ == "Crash"
    assert first_broken(history, quiet_end=True) is None
    assert list((tmp_path / "state").glob("local.eu1.views"))


@pytest.mark.slow
def test_a_second_daemon_of_the_same_name_is_refused_with_a_remedy_and_harms_nothing(
    daemon: subprocess.Popen[str], file: Path, tmp_path: Path
) -> None:
    next_line(daemon)
    next_line(daemon)
    arguments = file, "--name", "eu1", "--state", tmp_path / "state", "--trace", tmp_path / "trace.jsonl"
    code, said = refusal(*arguments)

    assert code == 1
    assert said.startswith("hopd: eu1: UDP port ")
    assert "Address already in use; end the process that has it" in said
    with (tmp_path / "trace.jsonl").open("rb") as lines:
        assert len({event.process for event in read_json_lines(lines)}) == 1


@pytest.mark.slow
def test_a_name_that_is_not_in_the_configuration_is_refused(file: Path) -> None:
    code, said = refusal(file, "--name", "eu3")

    assert code == 7
    assert said == f"hopd: {file}: there is no daemon eu3; did you mean eu2?\n"


@pytest.mark.slow
def test_a_configuration_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    code, said = refusal(tmp_path / "none.toml", "--name", "eu1")

    assert code == 7
    assert said.startswith(f"hopd: {tmp_path / 'none.toml'}: ")
    assert ";" in said


@pytest.mark.slow
def test_an_address_of_another_host_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "hop.toml"
    file.write_text('[[sites.eu.daemons]]\nname = "eu1"\naddress = "192.0.2.77"\n[security]\ninsecure = true\n')
    code, said = refusal(file, "--name", "eu1", "--state", tmp_path)

    assert code == 1
    assert "UDP port 4892 of 192.0.2.77: Cannot assign requested address; start the daemon on the host" in said


@pytest.mark.slow
def test_a_multicast_group_whose_port_is_in_use_is_refused(file: Path, tmp_path: Path) -> None:
    port = free_base_port(1)
    file.write_text(
        f'[sites.eu]\nmulticast = {{ group = "239.255.77.13", port = {port} }}\n'
        f'[[sites.eu.daemons]]\nname = "eu1"\naddress = "127.0.0.1"\nport = {free_base_port(1)}\n'
    )
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as jealous:
        jealous.bind(("239.255.77.13", port))
        code, said = refusal(file, "--name", "eu1", "--state", tmp_path)

    assert code == 1
    assert f"multicast group 239.255.77.13 port {port} at 127.0.0.1: Address already in use; choose" in said


@pytest.mark.slow
def test_a_reader_that_does_not_read_the_log_does_not_hold_the_daemon_up(file: Path, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, bytes(1 << 16))
    except BlockingIOError:
        os.set_blocking(writing, True)
    command = [sys.executable, "-m", "hopring.daemon.hopd", str(file), "--name", "eu1"]
    trace = tmp_path / "trace.jsonl"
    process = subprocess.Popen([*command, "--state", str(tmp_path), "--trace", str(trace)], stderr=writing)
    until(lambda: trace.exists() and b'"view"' in trace.read_bytes(), lambda: "it hangs", SECONDS_MAX)
    process.terminate()

    assert process.wait(SECONDS_MAX) == 0
    os.close(reading)
    os.close(writing)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (["--slow", "kick,wait"], "'wait' is not a policy; choose of kick, block, spill, drop"),
        (["--clients-max", "-5"], "'-5' is not a number of clients from 1 to 100000"),
        (["--clients-max", "0"], "'0' is not a number of clients from 1 to 100000"),
        (["--linger", "soon"], "'soon' is not a number of microseconds"),
    ],
)
def test_a_wrong_option_is_refused_with_the_values_that_it_may_have(
    file: Path, arguments: list[str], remedy: str
) -> None:
    code, said = refusal(file, "--name", "eu1", *arguments)

    assert code == 2
    assert remedy in said
