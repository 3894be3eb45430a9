"""A short run of `make fuzz`."""

from random import Random

import pytest
from tests.fuzz.clients import at_the_desk
from tests.fuzz.spread import at_the_desk as spread_at_the_desk


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_spoiled_frames_do_not_disturb_a_good_session(seed: int) -> None:
    at_the_desk(Random(seed), 3_000)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_neither_do_spoiled_frames_and_handshakes_of_spread_clients(seed: int) -> None:
    spread_at_the_desk(Random(seed), 3_000)
