"""Rings as records in traces: they come back as they were, and alterations of a world break its properties."""

from functools import cache
from itertools import islice
from random import Random

import pytest
from tests.unit.check.block_mutants import edited
from tests.unit.check.rmp.peer_notation import peers
from tests.unit.check.rmp.peers_by_hand import RIGHT, WRONG
from tests.unit.check.rmp.random_peers import random_history
from tests.unit.check.rmp.ring_mutants import RING_MUTANTS

from hopring.check.block_kinds import BLOCK_OF, noted_all, records_of
from hopring.check.rmp.peer_events import PeerEvent
from hopring.check.rmp.peer_judge import PEER_PROPERTIES, check_peers
from hopring.check.rmp.ring_block import RING_KINDS, RING_PROPERTIES
from hopring.sim.campaign.rmp.ring_runner import run_ring_world
from hopring.sim.campaign.rmp.ring_world import draw_ring_world

SEEDS = (7, 26)


@cache
def world(seed: int) -> tuple[PeerEvent, ...]:
    """The history of a world in which locks are held and processes call."""
    return run_ring_world(draw_ring_world(seed)).peers


def broken_in_trace(events: list[PeerEvent]) -> list[str]:
    """The broken properties, by way of a trace."""
    ((block, record),) = records_of(noted_all({"ring": events}), quiet_end=True)
    return [one.name for one in block.properties if not one.judge(record)]


def test_every_event_of_rings_has_a_kind_and_every_property_a_query() -> None:
    assert set(RING_KINDS.values()) == set(PeerEvent.__args__)
    assert {BLOCK_OF[kind].name for kind in RING_KINDS} == {"rings"}
    assert [one.name for one in RING_PROPERTIES] == list(PEER_PROPERTIES)


@pytest.mark.parametrize("number", list(RIGHT))
def test_histories_by_hand_have_the_same_verdicts_in_a_trace(number: str) -> None:
    for text in (*RIGHT[number], *WRONG[number]):
        events = peers(text)
        expected = [one.property for one in check_peers(events, quiet_end=True) if not one]

        assert broken_in_trace(events) == expected


def test_random_histories_come_back_from_a_trace_as_they_were() -> None:
    dice = Random(3)
    for _ in range(200):
        events = random_history(dice)
        ((_block, record),) = records_of(noted_all({"ring": events}), quiet_end=True)

        assert list(record.events) == events


@pytest.mark.slow
@pytest.mark.parametrize("mutant", RING_MUTANTS, ids=lambda mutant: str(mutant.__name__))
def test_an_alteration_of_a_world_is_caught(mutant) -> None:  # type: ignore[no-untyped-def]
    dice, tried = Random(1), 0
    for seed in SEEDS:
        events = world(seed)
        edits = list(islice(mutant(events), 300))
        for edit in dice.sample(edits, min(len(edits), 3)):
            tried += 1
            verdicts = check_peers(edited(events, edit), quiet_end=True)
            assert RING_MUTANTS[mutant] in {one.property.split()[0] for one in verdicts if not one}, edit
    assert tried >= 3


def test_every_property_of_rings_has_an_alteration() -> None:
    assert list(RING_MUTANTS.values()) == [name.split()[0] for name in PEER_PROPERTIES]
