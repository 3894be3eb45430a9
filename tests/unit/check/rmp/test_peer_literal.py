"""The checks of R1 to R17 agree with their literal twins on random histories, and both verdicts occur."""

from collections import Counter
from random import Random

import pytest
from tests.unit.check.rmp.peer_literal import LITERAL
from tests.unit.check.rmp.random_peers import random_history

from hopring.check.rmp.peer_judge import check_peers

ROUNDS = 8
HISTORIES = 250


@pytest.mark.parametrize("round_", range(ROUNDS))
def test_checks_and_twins_agree_on_random_histories(round_: int) -> None:
    dice = Random(round_)
    for _ in range(HISTORIES):
        events = random_history(dice)
        verdicts = {one.property.split()[0]: one for one in check_peers(events, quiet_end=True)}
        for number, literal in LITERAL.items():
            assert bool(verdicts[number]) is literal(events), (number, verdicts[number].witness, events)


def test_random_histories_break_and_keep_every_property() -> None:
    dice, seen = Random(99), Counter[tuple[str, bool]]()
    for _ in range(HISTORIES * 8):
        events = random_history(dice)
        seen.update([(number, literal(events)) for number, literal in LITERAL.items()])

    assert {(number, kept) for number in LITERAL for kept in (True, False)} == set(seen)
