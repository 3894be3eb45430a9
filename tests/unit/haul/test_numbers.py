"""Sets of numbers as ranges, beside plain sets."""

from itertools import pairwise
from random import Random

import pytest

from hopring.haul.order.numbers import NumberSet


def test_ranges_that_touch_are_one() -> None:
    numbers = NumberSet()
    numbers.add(1, 3)
    numbers.add(7, 9)
    numbers.add(4, 6)

    assert list(numbers.ranges()) == [(1, 9)]


def test_a_part_is_taken_out_of_the_middle() -> None:
    numbers = NumberSet([1], [9])
    numbers.discard(4, 6)

    assert list(numbers.ranges()) == [(1, 3), (7, 9)]
    assert list(numbers.within(2, 7)) == [(2, 3), (7, 7)]


@pytest.mark.parametrize("seed", range(20))
def test_it_has_the_numbers_that_a_set_has(seed: int) -> None:
    dice, numbers, plain = Random(seed), NumberSet(), set[int]()
    for _ in range(200):
        first = dice.randint(1, 40)
        last = first + dice.choice([0, 0, 1, 5])
        if dice.random() < 0.6:
            numbers.add(first, last)
            plain.update(range(first, last + 1))
        else:
            numbers.discard(first, last)
            plain.difference_update(range(first, last + 1))

        ranges = list(numbers.ranges())
        assert {one for low, high in ranges for one in range(low, high + 1)} == plain
        assert len(numbers) == len(plain)
        assert bool(numbers) is bool(plain)
        assert (first in numbers) is (first in plain)
        assert all(high + 1 < low for (_, high), (low, _) in pairwise(ranges))
