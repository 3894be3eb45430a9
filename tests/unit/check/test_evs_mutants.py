"""Every right history passes; every alteration is caught by the property that it breaks."""

from collections.abc import Callable, Iterator
from random import Random

import pytest
from tests.unit.check.evs_model import run
from tests.unit.check.evs_mutants import MUTANTS, Edit, Sound, edited

from hopring.check.judge import check_evs, first_broken


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 400, 100))
def test_a_right_history_breaks_nothing(first: int) -> None:
    for seed in range(first, first + 100):
        done = run(seed)

        verdict = first_broken(done.events, True, done.components)

        assert verdict is None, f"seed {seed}: {verdict}"


def test_the_order_of_events_between_processes_does_not_matter() -> None:
    for seed in range(10):
        done = run(seed)
        lives = {event.process: place for place, event in reversed([*enumerate(done.events)])}
        one_after_another = sorted(done.events, key=lambda event: lives[event.process])

        assert first_broken(one_after_another, True, done.components) is None


@pytest.mark.slow
@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: str(mutant.__name__))
def test_an_alteration_is_caught(mutant: Callable[[Sound], Iterator[Edit]]) -> None:
    dice, tried = Random(1), 0
    for seed in range(300):
        done = run(seed)
        edits = list(mutant(Sound(done.events)))
        if not edits:
            continue
        tried += 1
        wrong = edited(done.events, dice.choice(edits))
        broken = {verdict.property for verdict in check_evs(wrong, True, done.components) if not verdict}
        assert MUTANTS[mutant] in broken, f"seed {seed}"
        if tried == 20:
            return
    assert tried >= 5
