"""The fast checks agree with the literal ones, on right and on garbled histories."""

from random import Random

import pytest
from tests.unit.check.evs_literal import LITERAL, Literal
from tests.unit.check.evs_model import Model
from tests.unit.check.evs_mutants import MUTANTS, Sound, edited

from hopring.check.judge import check_evs
from hopring.check.properties.shape import ONE_STAMP
from hopring.check.properties.views import LOCAL_MONOTONICITY
from hopring.check.trace import Event

# If a process installs a view twice, or messages share a stamp, "the view" and "the order" are not defined.
NOT_DEFINED = {ONE_STAMP.name, LOCAL_MONOTONICITY.name}


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 60, 15))
def test_fast_and_literal_agree(first: int) -> None:
    dice = Random(first)
    for seed in range(first, first + 15):
        right = (
            Model(seed, daemons=dice.randrange(2, 5)).run(dice.randrange(1, 5), dice.randrange(5, 25)).events
        )
        for events in (right, *_mutants(right, dice), *(_garbled(right, dice) for _ in range(4))):
            _compare(events, quiet_end=dice.random() < 0.5, seed=seed)


def _compare(events: list[Event], quiet_end: bool, seed: int) -> None:
    fast = {verdict.property: verdict for verdict in check_evs(events, quiet_end)}
    if not all(fast[name] for name in NOT_DEFINED):
        return
    literal = Literal(events, quiet_end)
    for name in LITERAL.keys() & fast.keys():
        assert fast[name].holds == LITERAL[name](literal), f"seed {seed}: {fast[name]}"


def _mutants(right: list[Event], dice: Random) -> list[list[Event]]:
    sound = Sound(right)
    edits = [list(mutant(sound)) for mutant in dice.sample(list(MUTANTS), 4)]
    return [edited(right, dice.choice(some)) for some in edits if some]


def _garbled(right: list[Event], dice: Random) -> list[Event]:
    """The history with some events lost, doubled, swapped or moved."""
    events = list(right)
    for _ in range(dice.randrange(1, 4)):
        one, other = dice.randrange(len(events)), dice.randrange(len(events))
        match dice.randrange(4):
            case 0:
                del events[one]
            case 1:
                events.insert(other, events[one])
            case 2:
                events[one], events[other] = events[other], events[one]
            case _:
                events.insert(other, events.pop(one))
    return events
