"""Replays every scenario file under this directory; `pytest --rewrite` records its output."""

from pathlib import Path

import pytest

from hopring.testing.scenario.script import replay

HERE = Path(__file__).parent
STORIES = sorted(HERE.rglob("*.txt"))


@pytest.mark.parametrize("story", STORIES, ids=lambda path: str(path.relative_to(HERE).with_suffix("")))
def test_a_scenario_replays_to_its_recorded_output(story: Path, pytestconfig: pytest.Config) -> None:
    told = story.read_text(encoding="utf-8")

    happened = replay(told, str(story.relative_to(HERE)))

    if pytestconfig.getoption("--rewrite"):
        story.write_text(happened, encoding="utf-8")
    else:
        assert told.splitlines() == happened.splitlines()
