"""examples/tickets.py: the rules of the classes by themselves, and the program at five joined clusters."""

import json
import random
import subprocess
import sys
from collections.abc import Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from examples.ticket_rules import (
    Apply,
    Office,
    Report,
    class_1,
    class_2,
    class_3,
    decode_report,
    encode_report,
    gifts_of,
    holders_give,
    opened,
)

ROOT = Path(__file__).parents[2]
LOT = tuple(range(100, 107))


def offices(count: int = 3) -> list[Office]:
    return [opened(at, count, 0) for at in range(count)]


def taken(apply: Apply, office: Office, reports: Sequence[Report]) -> Office:
    for one in reports:
        office = apply(office, one)
    return office


def sorted_pools(apply: Apply, reports: Sequence[Report]) -> list[list[int]]:
    return [sorted(taken(apply, one, reports).pool) for one in offices()]


def test_an_office_begins_with_its_part_of_the_tickets() -> None:
    pools = [opened(at, 5, 288).pool for at in range(5)]

    assert sum(map(len, pools)) == 288
    assert frozenset().union(*pools) == set(range(288))


def test_a_report_is_the_same_when_it_arrives() -> None:
    report = Report(2, 7, lot=(1, 2), need=3, spare=4, gifts=((0, (5, 6)), (1, (7,))))

    assert decode_report(encode_report(report)) == report


def test_class_1_gives_each_office_the_same_share_in_any_order() -> None:
    reports = [Report(0, 0, LOT), Report(1, 0, (200,)), Report(2, 4, (300, 301))]
    pools = sorted_pools(class_1, reports)

    assert sorted([ticket for pool in pools for ticket in pool]) == [*LOT, 200, 300, 301]
    for order in permutations(reports):
        assert sorted_pools(class_1, order) == pools


def test_class_2_waits_for_all_reports_of_a_round() -> None:
    first = [Report(0, 0, LOT, need=0), Report(1, 0, need=2)]
    assert sorted_pools(class_2, first) == [[], [], []]

    round_1 = [*first, Report(2, 0, (200,), need=3)]
    pools = sorted_pools(class_2, round_1)
    # Five are needed; of the others each goes back to who has offered it.
    assert [len(pool) for pool in pools] == [2, 2, 4]
    assert 200 in pools[2]
    assert sorted([ticket for pool in pools for ticket in pool]) == [*LOT, 200]
    for order in permutations(round_1):
        assert sorted_pools(class_2, order) == pools


def test_class_3_depends_on_the_order_and_sells_twice_without_one() -> None:
    lot, one, other = Report(0, 0, LOT), Report(1, 0, need=7), Report(2, 0, need=7)
    for order in ([lot, one, other], [lot, other, one]):
        pools = sorted_pools(class_3, order)
        assert sorted([ticket for pool in pools for ticket in pool]) == list(LOT)

    first = taken(class_3, offices()[1], [lot, one, other])
    second = taken(class_3, offices()[2], [lot, other, one])
    assert first.pool & second.pool == set(LOT)


def test_holders_give_what_they_have_in_any_order_of_different_offices() -> None:
    """Reports of each office arrive in its order; those of different ones in any."""
    rng = random.Random(17)
    for _ in range(50):
        pools = [opened(at, 4, 40) for at in range(4)]
        wants = [Report(at, 0, need=rng.randrange(9), spare=rng.randrange(9)) for at in range(4)]
        heard = [taken(holders_give, one, rng.sample(wants, 4)) for one in pools]
        gifts = [Report(at, 1, gifts=gifts_of(one)) for at, one in enumerate(heard)]
        gone = [{ticket for _, tickets in one.gifts for ticket in tickets} for one in gifts]
        assert all(away <= one.pool for away, one in zip(gone, heard, strict=True))
        after = [
            one.pool - away
            for one, away in zip(
                [taken(holders_give, one, rng.sample(gifts, 4)) for one in heard], gone, strict=True
            )
        ]
        assert sum(map(len, after)) == 40
        assert frozenset().union(*after) == set(range(40))


def played(*words: str, seconds: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "examples.tickets", "--json", *words]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=seconds, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check(found: dict[str, Any]) -> None:
    assert found["wrong"] == []
    assert found["last_tickets"] == {"class 3": 0, "class 3 without the order": 12}
    for game in found["games"]:
        if game["class"] != "class 3 without the order":
            assert (game["sold_twice"], game["lost"]) == (0, 0), game
        if game["class"] == "class 2":
            assert game["moved_while_parted"] == [0, 0]


@pytest.mark.slow
def test_no_ticket_is_sold_twice_or_lost_while_clusters_are_parted() -> None:
    found = played(seconds=240)

    check(found)
    games = {game["class"]: game for game in found["games"]}
    assert len(games) == 6
    assert games["class 3"]["moved_while_parted"][1] == 0
    assert games["class 3, holders give"]["moved_while_parted"][1] > 0


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(900)
def test_all_games_are_sound_and_shorter_subperiods_meet_more_demand() -> None:
    found = played("--all", seconds=600)

    check(found)
    games = found["games"]
    met = {(one["class"], one["demand"], one["parted"], one["subperiod_ticks"]): one["met"] for one in games}
    assert len(met) == len(games) == 28
    for name in ("class 1", "class 2", "class 3", "class 3, holders give"):
        assert met[name, "skewed", False, 4] > met["no exchange", "skewed", False, 4]
    lengths = [one for one in games if one["class"] == "class 1" and not one["parted"]]
    by_length = {one["subperiod_ticks"]: one for one in lengths if one["demand"] == "skewed"}
    assert by_length[1]["met"] > by_length[16]["met"]
    assert by_length[1]["multicasts"] == 5 * 47
