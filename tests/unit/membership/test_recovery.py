"""The decision of daemons that come from one view, as a pure function of their STATETRANS.

Unless said otherwise, daemons a, b and c make up sites 0, 1 and 2.
"""

from itertools import permutations

from tests.unit.membership.state_reports import (
    ELSEWHERE,
    OLD,
    A,
    B,
    C,
    D,
    body,
    holes,
    meta,
    owed,
    resends,
    site,
    sites,
    state,
)

from hopring.ids import NUMBER_MAX, SiteId
from hopring.membership.messages import HeldRun, StateTrans
from hopring.membership.recovery import BEYOND_ALL, DecidedRift, decide
from hopring.ordering.entry import Position

APART = sites(0, 1, 2, 3)


# Which states count.


def test_only_states_of_the_own_old_view_count() -> None:
    mine = state(A, site(0, 1, 11, body(1, 10)), commit=(A,))
    other = state(D, site(0, 9, 99, body(9, 98)), installed=ELSEWHERE, commit=(C,), delivered=(98, 0), aru=90)

    decision = decide([mine, other], OLD, APART)

    assert decision.together == (A,)
    assert decision.commit == {A}
    assert sorted(decision.items) == [(0, 1)]
    assert decision.delivered == Position(0, -1)


def test_every_daemon_decides_the_same_in_any_order_of_states() -> None:
    reports = [
        state(A, site(0, 3, 14, body(1, 10), body(2, 12), body(3, 13)), site(1, 0, 5, body(2, 9))),
        state(B, site(0, 1, 11, body(1, 10)), site(1, 2, 10, body(1, 8), body(2, 9), line=2)),
        state(C, site(0, 1, 11, body(1, 10), highest=5), site(1, 0, 7), commit=(C, D)),
    ]

    decisions = [decide(order, OLD, APART) for order in permutations(reports)]

    assert all(decision == decisions[0] for decision in decisions)


# Stability.


def test_bundles_that_any_daemon_knows_to_be_stable_are_ignored() -> None:
    decision = decide(
        [
            state(A, site(0, 3, 14, body(3, 13)), aru=13),
            state(B, site(0, 2, 13, body(1, 11), body(2, 12)), aru=11),
        ],
        OLD,
        APART,
    )

    assert sorted(decision.items) == [(0, 3)]
    assert decision.edge == BEYOND_ALL


def test_the_stability_line_is_exclusive() -> None:
    decision = decide([state(A, site(0, 1, 13, body(1, 12)), aru=12)], OLD, APART)

    assert sorted(decision.items) == [(0, 1)]


# Resends and debts.


def test_the_lowest_holder_resends_what_somebody_lacks() -> None:
    decision = decide(
        [
            state(A, site(2, 0, 5)),
            state(B, site(2, 1, 9, body(1, 8))),
            state(C, site(2, 1, 9, body(1, 8))),
        ],
        OLD,
        APART,
    )

    assert resends(decision.resends(A, APART)) == []
    assert resends(decision.resends(B, APART)) == [(2, 1, "body")]
    assert resends(decision.resends(C, APART)) == []
    assert owed(decision.owed(SiteId(0))) == {(2, 1): "body"}


def test_what_everybody_has_is_not_resent() -> None:
    decision = decide([state(A, site(0, 1, 9, body(1, 8))), state(B, site(0, 1, 9, body(1, 8)))], OLD, APART)

    assert decision.resends(A, APART) == decision.resends(B, APART) == []


def test_a_site_outside_the_mask_gets_the_meta_data_only() -> None:
    """The mask names site 0; b of site 1 has nothing of it, c of site 2 has the meta-data."""
    decision = decide(
        [
            state(A, site(0, 1, 9, body(1, 8, mask=0b001))),
            state(B, site(0, 0, 5)),
            state(C, site(0, 1, 9, meta(1, 8, mask=0b001))),
        ],
        OLD,
        APART,
    )

    assert resends(decision.resends(A, APART)) == [(0, 1, "meta")]
    assert owed(decision.owed(SiteId(0))) == {(0, 1): "body"}
    assert owed(decision.owed(SiteId(1))) == {(0, 1): "meta"}


def test_a_body_is_resent_by_one_who_has_it_and_not_by_a_lower_one_with_meta_data() -> None:
    decision = decide(
        [
            state(A, site(2, 1, 9, meta(1, 8, mask=0b110))),
            state(B, site(2, 0, 5)),
            state(C, site(2, 1, 9, body(1, 8, mask=0b110))),
        ],
        OLD,
        APART,
    )

    assert resends(decision.resends(A, APART)) == []
    assert resends(decision.resends(C, APART)) == [(2, 1, "body")]


# Holes.


def test_meta_data_alone_are_a_hole_where_a_site_wants_the_body() -> None:
    decision = decide([state(A, site(2, 1, 9, meta(1, 8, mask=0b010))), state(B, site(2, 0, 5))], OLD, APART)

    assert holes(decision) == [(2, 1)]
    assert decision.edge == Position(8, 2)
    assert decision.owed(SiteId(1)) == {}
    assert decision.resends(A, APART) == []


def test_meta_data_alone_are_no_hole_where_nobody_wants_the_body() -> None:
    decision = decide([state(A, site(2, 1, 9, meta(1, 8, mask=0b100))), state(B, site(2, 0, 5))], OLD, APART)

    assert holes(decision) == []
    assert decision.edge == BEYOND_ALL
    assert resends(decision.resends(A, APART)) == [(2, 1, "meta")]


def test_six_is_a_hole_when_seven_and_eight_are_held() -> None:
    decision = decide(
        [
            state(A, site(2, 5, 16, body(7, 17), body(8, 18))),
            state(B, site(2, 5, 16, body(7, 17))),
        ],
        OLD,
        APART,
    )

    assert holes(decision) == [(2, 6)]
    assert decision.edge == Position(16, 2)
    assert owed(decision.owed(SiteId(1))) == {(2, 7): "body", (2, 8): "body"}


def test_what_one_lacks_and_another_has_is_no_hole() -> None:
    decision = decide(
        [state(A, site(2, 5, 16, body(7, 17))), state(B, site(2, 6, 17, body(6, 16)))], OLD, APART
    )

    assert holes(decision) == []
    assert decision.edge == BEYOND_ALL


def test_a_hole_known_only_from_a_promise_is_placed_after_all_that_is_held_and_promised() -> None:
    decision = decide(
        [
            state(A, site(2, 5, 30, body(5, 16), highest=7)),
            state(B, site(2, 5, 20, body(5, 16))),
        ],
        OLD,
        APART,
    )

    assert holes(decision) == [(2, 6), (2, 7)]
    assert decision.edge == Position(30, 2)


def test_a_hole_is_not_placed_below_what_is_stable() -> None:
    decision = decide(
        [state(A, site(2, 5, 16, highest=6), aru=16), state(B, site(2, 5, 16), aru=25)], OLD, APART
    )

    assert decision.edge == Position(25, 2)


def test_a_hole_between_two_held_bundles_is_placed_right_after_the_lower() -> None:
    decision = decide([state(A, site(2, 4, 10, body(6, 15), body(8, 19)))], OLD, APART)

    assert holes(decision) == [(2, 5), (2, 7)]
    assert decision.edge == Position(10, 2)


def test_the_first_of_the_holes_of_all_sites_counts() -> None:
    decision = decide([state(A, site(1, 3, 20, highest=4), site(2, 5, 12, highest=6))], OLD, APART)

    assert holes(decision) == [(1, 4), (2, 6)]
    assert decision.edge == Position(12, 2)


def test_a_stable_bundle_that_was_forgotten_is_no_hole() -> None:
    """Sequences up to the highest contiguous one were held by somebody."""
    decision = decide(
        [state(A, site(2, 9, 40), aru=40), state(B, site(2, 7, 35, body(7, 34)), aru=30)], OLD, APART
    )

    assert holes(decision) == []


# Edge, delivered and commit.


def test_commitments_of_a_bound_daemon_bind_the_others_too() -> None:
    """A knew two bundles of site 1 when it was bound; B's third one is after the same hole."""
    decision = decide(
        [
            state(A, site(1, 2, 20, body(1, 18), body(2, 19), line=2), site(2, 5, 16)),
            state(B, site(1, 3, 22, body(3, 21)), site(2, 5, 16, highest=6)),
        ],
        OLD,
        APART,
    )

    assert holes(decision) == [(2, 6)]
    assert decision.edge == Position(16, 2)
    assert decision.promised == {1: 2, 2: 0}


def test_everything_below_the_first_hole_is_promised() -> None:
    decision = decide(
        [state(A, site(1, 2, 20, body(1, 12), body(2, 19)), site(2, 5, 16, body(5, 15), highest=6))], OLD, APART
    )

    assert decision.edge == Position(16, 2)
    assert decision.promised == {1: 1, 2: 5}


def test_without_a_hole_there_is_no_edge() -> None:
    assert decide([state(A, site(0, 0, 1))], OLD, APART).edge == BEYOND_ALL


def test_no_stamp_is_beyond_the_place_of_no_hole() -> None:
    assert Position(NUMBER_MAX, 63) < BEYOND_ALL


def test_all_deliver_before_the_signal_what_one_of_them_has() -> None:
    decision = decide(
        [state(A, site(0, 0, 1), delivered=(12, 1)), state(B, site(0, 0, 1), delivered=(12, 2))], OLD, APART
    )

    assert decision.delivered == Position(12, 2)


def test_the_commit_set_is_all_that_stay_together_and_all_they_were_bound_to() -> None:
    decision = decide(
        [state(A, site(0, 0, 1), commit=(A, D)), state(B, site(0, 0, 1), commit=(B,))], OLD, APART
    )

    assert decision.commit == {A, B, D}


def test_a_daemon_that_is_left_alone_decides_alone() -> None:
    decision = decide([state(C, site(2, 3, 14, body(2, 12), body(3, 13)))], OLD, APART)

    assert decision.together == (C,)
    assert decision.resends(C, APART) == []
    assert owed(decision.owed(SiteId(2))) == {(2, 2): "body", (2, 3): "body"}


# Rifts: bundles that some daemons went past, because they are not for their sites.

FOR_1_AND_2 = 0b110


def past(*held: HeldRun) -> StateTrans:
    """Daemon a in site 0, which has delivered everything up to 30."""
    return state(A, site(2, len(held), 31, *held), delivered=(30, 2))


def test_a_hole_that_somebody_went_past_is_a_rift() -> None:
    decision = decide(
        [past(meta(1, 20, FOR_1_AND_2)), state(B, site(2, 0, 1, highest=1), delivered=(19, 2))], OLD, APART
    )

    assert holes(decision) == [(2, 1)]
    assert decision.rifts == (DecidedRift(Position(20, 2), FOR_1_AND_2, lost=True),)


def test_an_unstable_safe_bundle_is_a_rift_for_daemons_that_it_holds_back() -> None:
    held = HeldRun(1, 20, (3,), FOR_1_AND_2, body=True, safe=True)
    lower = HeldRun(1, 20, (), FOR_1_AND_2, body=False)
    higher = HeldRun(2, 23, (), FOR_1_AND_2, body=False)

    decision = decide([past(lower, higher), state(B, site(2, 2, 31, held), delivered=(19, 2))], OLD, APART)

    assert holes(decision) == []
    assert [rift.position for rift in decision.rifts] == [Position(20, 2), Position(23, 2)]


def test_a_resilient_bundle_that_one_of_its_sites_has_delivered_is_no_rift() -> None:
    held = HeldRun(1, 20, (), FOR_1_AND_2, body=True, safe=True)
    near = state(B, site(2, 1, 31, held), delivered=(19, 2))
    far = state(C, site(2, 1, 31, held), delivered=(20, 2))  # It had its holders there.

    assert [rift.position for rift in decide([past(meta(1, 20, FOR_1_AND_2)), near], OLD, APART).rifts] != []
    assert decide([past(meta(1, 20, FOR_1_AND_2)), near, far], OLD, APART).rifts == ()


def test_there_is_no_rift_where_nobody_went_past_or_all_is_stable() -> None:
    held = HeldRun(1, 20, (), FOR_1_AND_2, body=True, safe=True)
    near = state(B, site(2, 1, 31, held), delivered=(19, 2), aru=21)

    assert decide([past(meta(1, 20, FOR_1_AND_2)), near], OLD, APART).rifts == ()
    unsure = state(B, site(2, 1, 31, held), delivered=(19, 2))
    assert decide([unsure], OLD, APART).rifts == ()


def test_a_view_ends_unevenly_if_only_some_deliver_a_bundle_after_the_signal() -> None:
    def decided(mask: int, delivered_lts: int) -> bool:
        near = state(B, site(2, 1, 31, body(1, 20, mask)), delivered=(delivered_lts, 2))
        far = state(A, site(2, 1, 31, meta(1, 20, mask)), delivered=(delivered_lts, 2))
        return decide([near, far], OLD, APART).uneven

    assert decided(FOR_1_AND_2, delivered_lts=19)  # B delivers it after the signal, A never sees it.
    assert not decided(FOR_1_AND_2, delivered_lts=20)  # Before the signal.
    assert not decided(0b111, delivered_lts=19)  # For all of them.
