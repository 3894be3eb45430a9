"""Every command of `docs/security.md` is run by a test.

`tests/unit/cli/test_keys.py` runs those of `hop keys`, `tests/hopd/test_grants.py` those of clients, and this
module all others.
"""

import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.free_ports import free_base_port
from tests.support.waiting import until

from hopring import sync

PAGE = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
COMMANDS = [shlex.split(one, comments=True)[1:] for one in re.findall(r"^    (hop .*)$", PAGE, re.MULTILINE)]
HOP = [sys.executable, "-m", "hopring.cli.main"]
SECONDS_MAX = 120.0
ELSEWHERE = ("keys", "pub", "groups")


def of(name: str) -> list[list[str]]:
    return [words for words in COMMANDS if words[0] == name]


def test_the_page_has_no_command_that_no_test_runs() -> None:
    others = [words for words in COMMANDS if words[0] not in ELSEWHERE]

    assert len(COMMANDS) > len(others)
    assert others == [*of("up"), *of("monitor")]


@pytest.mark.slow
def test_a_cluster_starts_with_the_keys_that_the_page_makes(tmp_path: Path) -> None:
    subprocess.run([*HOP, "keys", "new", "--out", "keys"], cwd=tmp_path, timeout=SECONDS_MAX, check=True)
    (words,) = of("up")
    command = [*HOP, *words, "--port", str(free_base_port(1)), "--json"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as up:
        try:
            assert up.stdout is not None
            assert '"us2"' in up.stdout.readline()
        finally:
            up.send_signal(signal.SIGINT)
        assert up.wait(SECONDS_MAX) == 0


@pytest.mark.slow
def test_the_monitor_reloads_keys_and_shows_them(tmp_path: Path) -> None:
    answers = {"reload": ("--yes",), "keys": ()}
    with sync.local_cluster({"eu": 2}, directory=tmp_path) as cluster:
        for words in of("monitor"):
            admin = ("--admin", str(cluster.admin_directory))
            command = [*HOP, words[0], *admin, *words[1:], *answers[words[1]]]
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
            assert done.returncode == 0, done.stderr
        assert [words[1] for words in of("monitor")] == list(answers)
        until(lambda: all("keys use=" in cluster.log(name) for name in cluster.daemons))
