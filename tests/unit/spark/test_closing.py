"""Closed views of traces that still grow: what is judged there early is what is judged at the end."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from random import Random

from tests.unit.check.evs_model import run as run_model
from tests.unit.check.evs_mutants import MUTANTS, Sound, edited
from tests.unit.check.evs_notation import history

from hopring.check.judge import check_evs
from hopring.check.trace import Crash, Event, ViewInstalled
from hopring.check.trace_row import process_text, view_text
from hopring.spark.audit.closing import ClosedPart, StayInView, TracedLife, closed_part

NEVER_US = -(2**60)


def lives_of(events: Sequence[Event]) -> list[TracedLife]:
    """The lives in a history, as the pipeline finds them in a table."""
    lives = []
    for process in dict.fromkeys(event.process for event in events):
        own = [event for event in events if event.process == process]
        stays = [
            StayInView(at, view_text(one.view), tuple(map(process_text, one.members)), one.at_us)
            for at, one in enumerate(own)
            if isinstance(one, ViewInstalled)
        ]
        crashed = any(isinstance(one, Crash) for one in own)
        times = own[0].at_us, own[-1].at_us
        lives.append(TracedLife("", process_text(process), tuple(stays), crashed, *times, len(own) - 1))
    return lives


def cut(events: Sequence[Event], part: ClosedPart) -> list[Event]:
    """The events of the closed part."""
    at: Counter[str] = Counter()
    kept = []
    for event in events:
        name = process_text(event.process)
        if at[name] <= part.upto[name]:
            kept.append(event)
        at[name] += 1
    return kept


def lagging(events: Sequence[Event], dice: Random) -> list[Event]:
    """A beginning of each process's history, each of another length: files that are written come unevenly."""
    own = Counter(event.process for event in events)
    left = {process: dice.randint(0, count) for process, count in own.items()}
    # A daemon writes its next life only after the last one, into the same file.
    for process in own:
        lives = [one for one in own if one.daemon == process.daemon]
        for one, following in pairwise(lives):
            if left[following]:
                left[one] = own[one]
    kept = []
    for event in events:
        if left[event.process] > 0:
            kept.append(event)
            left[event.process] -= 1
    return kept


def test_whatever_part_of_a_sound_history_is_there_its_closed_views_hold() -> None:
    closed = 0
    for seed in range(60):
        whole = run_model(seed).events
        for moment in range(6):
            events = lagging(whole, Random(seed * 100 + moment))
            part = closed_part(lives_of(events), NEVER_US)
            closed += part.closed
            broken = [verdict for verdict in check_evs(cut(events, part), False) if not verdict]
            assert not broken, (seed, moment, broken)
    assert closed > 100


def test_a_fault_in_a_closed_view_is_found_before_the_end() -> None:
    found = judged = 0
    for mutant in MUTANTS:
        for seed in range(12):
            sound = run_model(seed).events
            for edit in list(mutant(Sound(sound)))[:1]:
                events = edited(sound, edit)
                judged += not all(check_evs(events, False))
                part = closed_part(lives_of(events), NEVER_US)
                found += not all(check_evs(cut(events, part), False))
    assert judged > 50
    assert found > judged / 2


def test_a_view_is_open_until_all_its_members_have_left_it() -> None:
    both = history("a: view 1 ab | view 2 ab\nb: view 1 ab")
    part = closed_part(lives_of(both), NEVER_US)
    assert (part.closed, part.views) == (0, 2)
    assert set(part.upto.values()) == {1}  # Up to the installation of view 1, after the start.
    moved = history("a: view 1 ab | view 2 ab\nb: view 1 ab | view 2 ab")
    part = closed_part(lives_of(moved), NEVER_US)
    assert (part.closed, part.views) == (1, 2)
    assert set(part.upto.values()) == {2}


def test_a_silent_member_closes_a_view_once_the_watermark_has_passed_the_step_of_the_others() -> None:
    lives = lives_of(history("a: view 1 ab | view 2 a | send 1\nb: view 1 ab"))
    went_on_us = max(life.last_us for life in lives)

    assert closed_part(lives, NEVER_US).closed == 0
    assert closed_part(lives, went_on_us + 1).closed == 1
