"""The programs of the tutorial and of README, run as they are written, on other ports."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.free_ports import free_base_port
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "tutorial.md").read_text()
README = (ROOT / "README.md").read_text()
SECONDS_MAX = 90.0

pytestmark = pytest.mark.slow


def blocks(page: str, language: str, ports: dict[str, str]) -> list[str]:
    texts: list[str] = re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    for shown, port in ports.items():
        texts = [text.replace(shown, port) for text in texts]
    return texts


class Tutorial:
    """The two daemons of the tutorial, on free ports."""

    def __init__(self, directory: Path) -> None:
        base = free_base_port(4)
        self.ports = {str(4892 + at): str(base + at) for at in range(4)}
        self._directory = directory
        (config,) = blocks(PAGE, "toml", self.ports)
        (directory / "hop.toml").write_text(config)
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}
        for name in ("eu1", "us1"):
            command = [sys.executable, "-m", "hopring.daemon.hopd", "hop.toml", "--name", name, "--state", "."]
            with self._log(name).open("w") as stderr:
                self.daemons[name] = subprocess.Popen(command, cwd=directory, stderr=stderr, env=os.environ)
        until(lambda: all("size=2 members=eu1,us1" in self._log(name).read_text() for name in self.daemons))

    def close(self) -> None:
        for daemon in self.daemons.values():
            daemon.terminate()
        for daemon in self.daemons.values():
            daemon.wait(SECONDS_MAX)

    def run(self, program: str) -> tuple[str, str]:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS_MAX, check=False
        )
        return done.stdout, done.stderr

    def _log(self, name: str) -> Path:
        return self._directory / f"{name}.log"


@pytest.fixture
def tutorial(tmp_path: Path) -> Iterator[Tutorial]:
    one = Tutorial(tmp_path)
    yield one
    one.close()


def test_the_programs_of_the_tutorial_print_what_is_shown(tutorial: Tutorial, tmp_path: Path) -> None:
    talk, receipts, survivor = blocks(PAGE, "python", tutorial.ports)
    talked, received, survived = blocks(PAGE, "text", {})

    assert tutorial.run(talk) == (talked, "")
    assert tutorial.run(receipts) == (received, "")

    out = tmp_path / "survivor"
    with out.open("w") as stdout:
        client = subprocess.Popen([sys.executable, "-c", survivor], stdout=stdout)
    first, back, *_, last = survived.splitlines()
    until(lambda: first in out.read_text())
    tutorial.daemons["us1"].kill()
    until(lambda: back in out.read_text())
    # The loss of the old daemon may be noticed before or after the join.
    until(lambda: "view: #dora#eu1" in out.read_text().splitlines())
    arguments = ["pub", "trades", last, "--at", f"hop://localhost:{tutorial.ports['4893']}"]
    subprocess.run([sys.executable, "-m", "hopring.cli.main", *arguments], check=True, timeout=SECONDS_MAX)
    assert client.wait(SECONDS_MAX) == 0
    seen = out.read_text().splitlines()
    assert [seen[0], seen[1], seen[-2], seen[-1]] == survived.splitlines()


def test_the_programs_of_the_readme_run(tutorial: Tutorial) -> None:
    programs = [one for one in blocks(README, "python", tutorial.ports) if "connect(" in one]
    waiting, blocking = programs

    assert tutorial.run(waiting) == ("View\nEURUSD 1.0842\nclose\n", "")
    assert tutorial.run(blocking) == ("EURUSD 1.0843\n", "")
