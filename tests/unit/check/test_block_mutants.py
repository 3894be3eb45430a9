"""Records of simulated worlds hold; every alteration breaks its property, also when it is read from a trace."""

from functools import cache
from random import Random

import pytest
from tests.unit.check.block_mutants import BLOCK_MUTANTS, edited

from hopring.check.block_kinds import BLOCK_PROPERTIES, noted_all, records_of
from hopring.check.rmp.ring_block import RING_PROPERTIES
from hopring.sim.campaign.runner import WorldOutcome, run_seed
from hopring.sim.campaign.world import WorldKind

SEEDS = (4, 6, 8)


@cache
def world(block: str, seed: int) -> WorldOutcome:
    """A world with agents of this kind."""
    return run_seed(seed, WorldKind(clients=True, blocks=(block,)))


def broken(records: dict[str, list[object]]) -> set[str]:
    """The broken properties of records, by way of a trace."""
    return {
        one.name
        for block, record in records_of(noted_all(records), quiet_end=True)
        for one in block.properties
        if not one.judge(record)
    }


@pytest.mark.slow
@pytest.mark.parametrize("block", sorted({block for block, _name in BLOCK_MUTANTS.values()}))
def test_right_records_break_nothing(block: str) -> None:
    for seed in SEEDS:
        outcome = world(block, seed)

        assert outcome.broken == ()
        assert len(outcome.records[block]) > 30
        assert broken({block: list(outcome.records[block])}) == set()


@pytest.mark.slow
@pytest.mark.parametrize("mutant", BLOCK_MUTANTS, ids=lambda mutant: str(mutant.__name__))
def test_an_alteration_of_a_record_is_caught(mutant) -> None:  # type: ignore[no-untyped-def]
    block, name = BLOCK_MUTANTS[mutant]
    dice, tried = Random(1), 0
    for seed in SEEDS:
        events = world(block, seed).records[block]
        edits = list(mutant(events))
        for edit in dice.sample(edits, min(len(edits), 10)):
            tried += 1
            assert name in broken({block: edited(events, edit)}), f"seed {seed}: {edit}"
    assert tried >= 5 or (mutant.__name__ == "waits_for_a_free_lock" and tried)


def test_every_property_of_a_block_but_one_has_an_alteration() -> None:
    caught = {name for _block, name in BLOCK_MUTANTS.values()}

    # What lacks a companion's message breaks V5 and V6 together. Rings have alterations of their own.
    here = [one.name for one in BLOCK_PROPERTIES if one not in RING_PROPERTIES]
    assert {name[:2] for name in here if name not in caught} == {"V6"}
