"""The tutorial, as it is written, on other ports."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.unit.daemon.free_ports import free_base_port

PAGE = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text()
SECONDS_MAX = 40.0


def block(language: str, ports: dict[str, str]) -> str:
    (text,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for shown, port in ports.items():
        text = text.replace(shown, port)
    return str(text)


@pytest.mark.slow
def test_the_program_of_the_tutorial_prints_what_is_shown(tmp_path: Path) -> None:
    base = free_base_port(4)
    ports = {str(4892 + at): str(base + at) for at in range(4)}
    (tmp_path / "hop.toml").write_text(block("toml", ports))
    logs = {name: tmp_path / f"{name}.log" for name in ("eu1", "us1")}
    daemons = []
    for name, log in logs.items():
        command = [sys.executable, "-m", "hopring.daemon.hopd", "hop.toml", "--name", name, "--state", "."]
        with log.open("w") as stderr:
            daemons.append(subprocess.Popen(command, cwd=tmp_path, stderr=stderr, env=os.environ))
    try:
        end = time.monotonic() + SECONDS_MAX
        while not all("size=2 members=eu1,us1" in log.read_text() for log in logs.values()):
            assert time.monotonic() < end, "they do not find each other"
            time.sleep(0.1)
        program = [sys.executable, "-c", block("python", ports)]
        done = subprocess.run(program, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    finally:
        for daemon in daemons:
            daemon.terminate()
        for daemon in daemons:
            daemon.wait(SECONDS_MAX)

    assert (done.stdout, done.stderr) == (block("text", {}), "")
