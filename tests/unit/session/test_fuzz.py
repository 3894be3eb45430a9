"""A short run of `make fuzz`: damaged frames do not disturb a good session."""

from random import Random

import pytest
from tests.fuzz.clients import NativeFuzzer
from tests.fuzz.harness import fuzz_server
from tests.fuzz.spread import SpreadFuzzer


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_frames_do_not_disturb_a_good_session(seed: int) -> None:
    fuzz_server(NativeFuzzer(), Random(seed), 3_000)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_damaged_frames_of_spread_clients_do_not_disturb_a_good_session(seed: int) -> None:
    fuzz_server(SpreadFuzzer(), Random(seed), 3_000)
