"""A short run of `make fuzz`."""

from random import Random

import pytest
from tests.fuzz_clients import at_the_desk


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_spoiled_frames_do_not_disturb_a_good_session(seed: int) -> None:
    at_the_desk(Random(seed), 3_000)
