"""Tests that interrupt processes also pass in a background job, which a shell starts with SIGINT ignored."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

CHECK = """
import subprocess, sys

def test_a_child_may_be_interrupted():
    code = "import signal, sys; sys.exit(signal.getsignal(signal.SIGINT) is not signal.default_int_handler)"
    assert subprocess.call([sys.executable, "-c", code]) == 0
"""
IGNORE = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
)


@pytest.mark.slow
def test_a_process_of_a_test_may_be_interrupted_though_the_shell_ignores_it(tmp_path: Path) -> None:
    file = tmp_path / "test_check.py"
    file.write_text(CHECK)
    options = ["-q", "-p", "tests.conftest", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    command = [sys.executable, "-m", "pytest", *options, str(file)]

    done = subprocess.run(
        [sys.executable, "-c", IGNORE, *command], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout
