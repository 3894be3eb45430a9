"""Two, three and more members with view synchrony on an ideal group that joins, leaves, splits and merges."""

from collections import Counter

import pytest
from tests.unit.blocks.flush_world import FlushWorld

from hopring.blocks.flushing import Attempt, BaseView, FlushMember, Output
from hopring.check.view_synchrony import (
    AGREEMENT,
    ALL_AGREED,
    COMPLETE,
    SENDING_VIEW,
    FlushEvent,
    ShownInView,
    SynchronousView,
    check_view_synchrony,
)

pytestmark = pytest.mark.interpreted


def run(seed: int, names: str, patient: bool) -> FlushWorld:
    world = FlushWorld(seed, names, patient=patient)
    world.run(600)
    return world


def broken(world: FlushWorld) -> list[str]:
    names = [one.name for one in world.members]
    return [one.property for one in check_view_synchrony(world.history, [names]) if not one]


@pytest.mark.parametrize("names", ["ab", "abc", "abcdef"])
@pytest.mark.parametrize("patient", [True, False])
def test_drawn_histories_keep_every_property(names: str, patient: bool) -> None:
    kinds: Counter[type[FlushEvent]] = Counter()
    for seed in range(12):
        world = run(seed, names, patient)
        assert broken(world) == [], seed
        kinds.update(type(one) for one in world.history)

    assert kinds[ShownInView] > 100
    assert kinds[SynchronousView] > 30


def late_agreement_counts(self: FlushMember, attempt_id: str) -> Attempt | None:
    attempt = self.attempt
    return None if attempt is None or attempt.closing else attempt


def flush_belongs_to_the_next_view(self: FlushMember) -> str:
    return self.view if self.attempt is None else self.attempt.id


def agreement_of_one_is_enough(self: FlushMember, sender: str, attempt_id: str, leader: str) -> list[Output]:
    attempt = self._current(attempt_id)
    if attempt is None or sender != self.me:
        return []
    attempt.agreements = dict.fromkeys(attempt.members, leader)
    return self._install(attempt)


def everybody_is_kin(self: FlushMember, event: BaseView) -> bool:
    self.kin |= set(event.members) & set(self.members)
    return False


@pytest.mark.parametrize(
    ("method", "wrong", "name"),
    [
        ("_current", late_agreement_counts, ALL_AGREED),
        ("sending_view", property(flush_belongs_to_the_next_view), SENDING_VIEW),
        ("_agreement", agreement_of_one_is_enough, COMPLETE),
        ("_unchanged", everybody_is_kin, AGREEMENT),
    ],
)
def test_wrong_code_breaks_a_property(
    method: str, wrong: object, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(FlushMember, method, wrong)

    found = Counter(one for seed in range(60) for one in broken(run(seed, "abcd", patient=True)))

    assert found[name] > 0
