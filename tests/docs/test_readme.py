"""README shows the real output of its commands, and its links have targets."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from tests.unit.cli.demo_play import FACTS, played, text_of

from hopring.demo import summary

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def test_the_make_targets_are_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"^    make (\w+)$", README, re.MULTILINE)) | set(
        re.findall(r"`make (\w+)`", README)
    )

    assert {"demo", "test", "setup"} <= named <= targets


@pytest.mark.slow
def test_commands_print_what_is_shown(tmp_path: Path) -> None:
    place = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    steps = [step for block in blocks("console") for step in block.split("$ ")[1:]]
    for step in steps:
        command, _, shown = step.partition("\n")
        done = subprocess.run(
            command, shell=True, cwd=tmp_path, env=place, capture_output=True, text=True, check=True
        )

        assert (done.stdout, done.stderr) == (shown, "")
    assert len(steps) == 3


def test_the_python_runs() -> None:
    # The others need daemons: tests/hopd runs them.
    (code,) = [block for block in blocks("python") if "hopring.sim" in block]

    exec(compile(code, "README.md", "exec"), {})


def test_the_picture_of_the_demonstration_has_the_text_that_it_prints() -> None:
    (picture,) = blocks("text")
    lines = played(Console(file=io.StringIO(), soft_wrap=True))
    printed = lines_without_figures(lines + text_of(summary.opening(), summary.closing(FACTS)))

    assert lines_without_figures(picture) <= printed


def lines_without_figures(text: str) -> set[str]:
    """The lines without figures; names of sites and daemons are removed too."""
    return {" ".join(re.sub(r"\b(eu|us|ap)\d?\b|[\d.]+", " ", line).split()) for line in text.splitlines()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)", page.read_text())
    local = [target for target in targets if "://" not in target]

    assert [target for target in local if not (page.parent / target).exists()] == []
