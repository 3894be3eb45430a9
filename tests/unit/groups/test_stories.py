"""Random runs of clients and daemons, checked by the guarantees for clients."""

import pytest
from tests.unit.groups.random_runs import play, play_sparse


@pytest.mark.parametrize("seed", range(25))
def test_a_random_run_keeps_every_property(seed: int) -> None:
    assert not play(seed, steps=200)


FIRSTS = [
    *range(1_000, 1_200, 50),
    *[pytest.param(first, marks=pytest.mark.long) for first in range(1_200, 1_400, 50)],
]


@pytest.mark.slow
@pytest.mark.parametrize("first", FIRSTS)
def test_longer_runs_keep_every_property(first: int) -> None:
    for seed in range(first, first + 50):
        assert not play(seed), f"seed {seed}"


@pytest.mark.slow
@pytest.mark.parametrize("first", FIRSTS)
def test_runs_with_much_pruning_keep_every_property(first: int) -> None:
    for seed in range(first, first + 50):
        assert not play_sparse(seed), f"seed {seed}"
