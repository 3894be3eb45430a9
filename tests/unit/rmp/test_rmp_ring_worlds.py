"""Random worlds of rings, judged; and planted faults that the judge has to notice."""

from collections.abc import Callable

import pytest
from tests.unit.rmp.ring_fuzz import random_world, settle

from hopring.rmp.delivery import Delivery
from hopring.rmp.order.data_list import DataList
from hopring.rmp.recovery.initiator import Initiator
from hopring.rmp.recovery.voter import Voter


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 60, 10))
def test_random_worlds_keep_what_is_promised(first: int) -> None:
    for seed in range(first, first + 10):
        assert settle(random_world(seed)) == [], seed


def _first_wrong(seeds: range) -> str:
    """The first finding in some worlds; a world that fails an assertion counts."""
    for seed in seeds:
        try:
            wrong = settle(random_world(seed))
        except AssertionError as error:
            return f"assertion {error}"
        if wrong:
            return wrong[0]
    return ""


def _gap_ordered(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DataList, "orderable", lambda self, most: tuple(self.packets)[:most])


def _early_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Delivery, "keep_early", lambda self, _: self.early.clear())


def _any_majority(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Initiator, "_may_go_on", lambda *_: True)


def _commit_without_acks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Initiator, "chosen", property(lambda self: self.proposed is not None))


# A rare one, near the first seed that shows it.
_SEEDS: dict[Callable[[pytest.MonkeyPatch], None], range] = {_commit_without_acks: range(145, 150)}


@pytest.mark.slow
@pytest.mark.parametrize("plant", [_gap_ordered, _early_again, _any_majority, _commit_without_acks])
@pytest.mark.interpreted
def test_planted_faults_are_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    assert _first_wrong(_SEEDS.get(plant, range(60)))


def test_a_voter_has_patience_for_longer_than_an_initiator_polls() -> None:
    world = random_world(1)
    attempt = next(iter(world.nodes.values())).ring.recovery.attempt

    assert Voter(attempt).retry.first_us > attempt.state.options.clamp_us
