"""Hostile input at real daemons: every line of the table is refused, and its check is missed if it is gone."""

import re
from collections.abc import Iterator
from inspect import isfunction, signature
from pathlib import Path

import pytest
from tests.hostile import clear_attacks, process_attacks, sealed_attacks
from tests.hostile.bugs import BUGS
from tests.hostile.lines import LINES, Line
from tests.hostile.scenes import Scenes

from hopring.sim.campaign.bugs.planting import plant

NOTICED = AssertionError, pytest.fail.Exception, KeyError, OSError
"""How an attack fails: it finds something wrong, or a daemon in this process dies of it."""

pytestmark = pytest.mark.hostile


@pytest.fixture(scope="module")
def scenes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scenes]:
    with Scenes(tmp_path_factory.mktemp("hostile")) as made:
        yield made


@pytest.mark.slow
@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
def test_it_is_refused(line: Line, scenes: Scenes) -> None:
    line.attack(scenes)


@pytest.mark.interpreted
@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "bug"), [pytest.param(line, bug, id=f"{line.name}-{bug}") for line in LINES for bug in line.bugs]
)
def test_without_its_check_the_line_fails(line: Line, bug: str, tmp_path: Path) -> None:
    scenes = Scenes(tmp_path, bug)
    with plant(BUGS[bug]) as planted, scenes, pytest.raises(NOTICED) as failed:
        line.attack(scenes)
    print(f"{failed.type.__name__}: {failed.value}")  # `pytest -rP` shows how each of them fails.

    assert planted.runs + scenes.runs_elsewhere > 0, "the wrong code has run"


def test_every_attack_is_a_line_of_its_own_and_every_bug_belongs_to_one() -> None:
    written = {
        one
        for module in (clear_attacks, process_attacks, sealed_attacks)
        for one in vars(module).values()
        if isfunction(one) and list(signature(one).parameters) == ["scenes"]
    }

    assert {line.attack for line in LINES} == written
    assert len(LINES) == len(written) == len({line.text for line in LINES})
    assert all(line.bugs for line in LINES)
    assert {bug for line in LINES for bug in line.bugs} == set(BUGS)


def test_the_page_about_security_has_every_line() -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text().split("## Hostile input")[1]

    assert re.findall(r"^\* (.*?)[;.]$", page.split("\n## ")[0], re.MULTILINE) == [line.text for line in LINES]
