"""docs/spread_session.md shows the bytes that really are exchanged."""

from pathlib import Path

import pytest
from tests.spread.transcript import story_of, tell

from hopring.sync import local_cluster

PAGE = Path(__file__).parents[2] / "docs" / "spread_session.md"
HEAD = """# A session of Spread clients, byte by byte

Recorded from three daemons d1, d2 and d3 of one site on one machine, by `pytest --rewrite
tests/spread/test_transcript.py`; without `--rewrite` the test lives through the story again and compares. Every
line is an offset, the bytes there, and what they mean. What differs from run to run are the ids of views, and
in which order the two sets of a merge are listed. [What is the same as with Spread, and what
differs](spread.md).

"""


@pytest.mark.slow
def test_the_page_shows_what_happens(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    with local_cluster({"d": 3}, spread=True, trace=False, directory=tmp_path) as cluster:
        told = HEAD + tell(cluster)
    if request.config.getoption("--rewrite"):
        PAGE.write_text(told)

    assert story_of(PAGE.read_text()) == story_of(told)
    assert PAGE.read_text().startswith(HEAD)
