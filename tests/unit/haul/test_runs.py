"""Descriptors as runs of neighbours that are alike, beside one for each parcel."""

from itertools import pairwise
from random import Random

import pytest

from hopring.haul.ids import ClusterId, ClusterMask, Talk
from hopring.haul.order.runs import DescriptorRun, SenderRuns

ALL = Talk(ClusterMask(0b111))
OTHER = Talk(ClusterMask(0b011))


def run_of(first: int, last: int, missing: int = 0b111, talk: Talk = ALL) -> DescriptorRun:
    return DescriptorRun(ClusterId(1), first, last, talk, talk.participants, ClusterMask(missing))


def test_parcels_that_are_alike_are_one_run() -> None:
    runs = SenderRuns()
    for number in range(1, 100):
        runs.append(run_of(number, number))

    assert runs.runs == [run_of(1, 99)]


def test_parcels_of_different_talks_are_different_runs() -> None:
    runs = SenderRuns()
    runs.append(run_of(1, 1))
    runs.append(run_of(2, 2, 0b011, OTHER))

    assert runs.runs == [run_of(1, 1), run_of(2, 2, 0b011, OTHER)]


def test_a_change_splits_a_run_and_the_same_change_of_the_rest_joins_it() -> None:
    runs = SenderRuns([run_of(1, 9)])

    def to_six(_run: DescriptorRun) -> ClusterMask:
        return ClusterMask(0b110)

    assert runs.change(4, 4, to_six) == [run_of(4, 4, 0b110)]
    assert runs.runs == [run_of(1, 3), run_of(4, 4, 0b110), run_of(5, 9)]
    assert runs.change(1, 9, to_six) == [run_of(1, 3, 0b110), run_of(5, 9, 0b110)]
    assert runs.runs == [run_of(1, 9, 0b110)]


@pytest.mark.parametrize("seed", range(20))
def test_it_has_what_a_descriptor_for_each_parcel_has(seed: int) -> None:
    dice, runs, plain = Random(seed), SenderRuns(), dict[int, int]()
    top = 0
    for _ in range(150):
        first = dice.randint(1, top + 1)
        last = first + dice.choice([0, 0, 2, 6])
        mask = dice.choice([0b110, 0b101, 0b011])
        match dice.randrange(4):
            case 0 | 1:
                last = top + dice.randint(1, 4)
                runs.append(run_of(top + 1, last))
                plain.update(dict.fromkeys(range(top + 1, last + 1), 0b111))
                top = last
            case 2:
                runs.change(first, last, lambda run, mask=mask: ClusterMask(run.missing & mask))  # type: ignore[misc]
                plain.update({one: plain[one] & mask for one in range(first, last + 1) if one in plain})
            case _:
                runs.remove(first, last)
                plain = {one: bits for one, bits in plain.items() if not first <= one <= last}

        kept = {one: run.missing for run in runs.runs for one in range(run.first, run.last + 1)}
        assert kept == plain
        assert all(not right.continues(left) for left, right in pairwise(runs.runs))
        found = runs.find(first)
        assert (found.missing if found else None) == plain.get(first)
