import re
from random import Random
from typing import Any

import pytest

from hopring.ordering.order import SiteLine
from hopring.sim.campaign.bugs.planting import Bug, MisplacedBug, all_bugs, bug, plant
from hopring.sim.campaign.world import DAEMONS_WORLD, RMP_WORLD
from hopring.sim.campaign.worlds import aimed_first

pytestmark = pytest.mark.interpreted

EVERY_BUG = sorted(all_bugs().values(), key=lambda one: one.name)


def originals(one: Bug) -> list[Any]:
    found = []
    for patch in one.patches:
        module, _, path = patch.place.partition(":")
        owner: Any = __import__(module, fromlist=["_"])
        *classes, name = path.split(".")
        for step in classes:
            owner = getattr(owner, step)
        found.append(vars(owner)[name])
    return found


@pytest.mark.parametrize("one", EVERY_BUG, ids=lambda one: one.name)
def test_a_planted_bug_replaces_real_code_and_is_undone(one: Bug) -> None:
    before = originals(one)

    with plant(one):
        assert all(now is not then for now, then in zip(originals(one), before, strict=True))

    assert all(now is then for now, then in zip(originals(one), before, strict=True))


@pytest.mark.parametrize("one", EVERY_BUG, ids=lambda one: one.name)
def test_a_bug_has_a_plain_name_and_says_what_it_breaks(one: Bug) -> None:
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", one.name)
    assert re.match(
        r"rules? \d|(RMP )?trap \d|RMP (R\d|\d\.\d)|thesis \d|long-haul \d|propert(y|ies) (2\.|[CDIMQVWX]\d)",
        one.breaks,
    )
    assert len(one.story.split()) > 5


def test_there_are_more_than_fifteen_bugs() -> None:
    assert len(EVERY_BUG) > 15


def test_the_wrong_code_runs_only_while_it_is_planted_and_is_counted() -> None:
    line = SiteLine(cseq=0, next_lts=1, stable_lts=1)

    with plant(all_bugs()["promise-before-data"]) as planted:
        line.promise(seq=3, lts=20)
        assert (line.next_lts, planted.runs) == (20, 1)

    line.promise(seq=4, lts=30)
    assert (line.next_lts, planted.runs) == (20, 1)


def test_a_bug_is_undone_when_its_block_ends_in_an_error() -> None:
    one = all_bugs()["tie-ignored"]
    before = originals(one)

    with pytest.raises(RuntimeError), plant(one):
        raise RuntimeError

    assert originals(one) == before


@pytest.mark.parametrize(
    "place",
    [
        "hopring.nowhere:thing",
        "hopring.ordering.order:Nothing.promise",
        "hopring.ordering.order:SiteLine.nothing",
        # An inherited method is not code of the product.
        "hopring.ordering.order:SiteLine.__init_subclass__",
    ],
)
def test_a_missing_function_is_an_error_and_nothing_stays_planted(place: str) -> None:
    good = all_bugs()["gap-ignored"].patches[0]
    one = bug("two-places", "rule 2", "", (good.place, good.make), (place, lambda original: original))
    before = vars(SiteLine)["hold"]

    with pytest.raises(MisplacedBug, match=re.escape(place)), plant(one):
        pass

    assert vars(SiteLine)["hold"] is before


def test_a_bug_that_cannot_be_called_as_the_code_it_replaces_is_an_error() -> None:
    place = "hopring.ordering.order:SiteLine.promise"
    one = bug("wrong-arguments", "rule 2", "", (place, lambda _promise: lambda _self, _seq: None))

    with pytest.raises(MisplacedBug, match="takes other arguments now"), plant(one):
        pass


def test_no_bug_is_the_code_as_it_is() -> None:
    with plant(None) as planted:
        line = SiteLine(cseq=0, next_lts=1, stable_lts=1)
        line.promise(seq=3, lts=Random(1).randint(2, 9))

    assert (line.next_lts, planted.runs) == (1, 0)


def test_a_campaign_begins_with_the_worlds_that_aim_at_the_bug() -> None:
    assert aimed_first(range(1, 26), RMP_WORLD, "turning")[:4] == [7, 23, 1, 2]
    assert aimed_first(range(1, 26), RMP_WORLD, "") == [*range(1, 26)]
    assert aimed_first(range(1, 4), DAEMONS_WORLD, "") == [1, 2, 3]
