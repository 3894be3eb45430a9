"""examples/locate.py as a program: names, causes, claims and costs at three joined clusters."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_results_are_computed_once_and_no_entry_comes_before_what_it_names() -> None:
    command = [sys.executable, "-m", "examples.locate"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)

    assert done.returncode == 0, done.stdout + done.stderr
    page = (ROOT / "docs" / "locate.md").read_text()
    lines = done.stdout.splitlines()
    assert len(lines) == 6
    assert textwrap.indent(done.stdout, "    ") in page
