"""The search for others at one daemon; messages of the others are literal.

Daemons 0 and 1 are in site 0, daemon 2 in site 1, daemon 3 in site 2.
"""

import msgspec

from hopring.ids import DaemonId, Incarnation, Process, SiteId
from hopring.membership.connectivity import SiteConnectivity
from hopring.membership.events import SendDaemonMessage
from hopring.membership.gather import FRESH_ALIVES, FRESH_JOINS, FormView, Gather, GatherPhase, KeepView
from hopring.membership.messages import DaemonAlive, DaemonDecline, DaemonJoin, DaemonRefer, GatherRecord
from hopring.membership.options import MembershipOptions
from hopring.routing.trees import Pair

OPTIONS = MembershipOptions()
SITE_OF = {DaemonId(0): SiteId(0), DaemonId(1): SiteId(0), DaemonId(2): SiteId(1), DaemonId(3): SiteId(2)}
WEIGHTS: dict[Pair, int] = {
    (SiteId(0), SiteId(1)): 10,
    (SiteId(0), SiteId(2)): 10,
    (SiteId(1), SiteId(2)): 10,
}
P0, P1, P2, P3 = [Process(DaemonId(at), Incarnation(at * 1000 + 1)) for at in range(4)]
ROUND_TRIP_US = 20_000
GATHER_US = OPTIONS.gather_us + 2 * ROUND_TRIP_US

Outputs = list[SendDaemonMessage | FormView | KeepView]


def gather_of(me: Process = P0, cut: tuple[tuple[int, int], ...] = ()) -> Gather:
    return Gather(
        me=me,
        site_of=SITE_OF,
        weights=WEIGHTS,
        options=OPTIONS,
        round_trip_us=ROUND_TRIP_US,
        counter=4,
        connectivity=SiteConnectivity(
            me,
            tuple(one for one in SITE_OF if SITE_OF[one] == SITE_OF[me.daemon] and one != me.daemon),
            OPTIONS.represented_us,
        ),
        cut=cut,
    )


def gathering(me: Process = P0, cut: tuple[tuple[int, int], ...] = ()) -> Gather:
    """After a search in the own site that found nobody; the time is OPTIONS.seg_us."""
    gather = gather_of(me, cut)
    gather.seek(0)
    gather.tick(OPTIONS.seg_us)
    assert gather.phase is GatherPhase.GATHER
    return gather


def join(
    rep: Process, *members: Process, hears: tuple[int, ...] = (), seq: int = 1, active: bool = False
) -> DaemonJoin:
    return DaemonJoin((GatherRecord(rep, seq, tuple(sorted({rep, *members})), hears, 4),), active)


def alive(sender: Process, hears: tuple[int, ...] = (0, 1), rep: int | None = None) -> DaemonAlive:
    return DaemonAlive(sender, 4, hears=hears, rep=rep)


def heard(gather: Gather, control: DaemonAlive | DaemonJoin, now_us: int) -> Outputs:
    """Delivers a message; the daemon's knowledge of its site takes it first, as in a search."""
    gather.connectivity.heard(control, now_us)
    return gather.alive(control, now_us) if isinstance(control, DaemonAlive) else gather.join(control, now_us)


def decide(gather: Gather) -> FormView | KeepView | None:
    """Lets the deadline pass; returns the decision."""
    out = gather.tick(gather.deadline_us)
    found = [one for one in out if isinstance(one, FormView | KeepView)]
    return found[0] if found else None


# In the site.


def test_the_search_begins_in_the_own_site() -> None:
    gather = gather_of()

    assert gather.seek(0) == [SendDaemonMessage((DaemonId(1),), DaemonAlive(P0, 4))]
    assert gather.phase is GatherPhase.SEG


def test_alive_is_sent_repeatedly() -> None:
    gather = gather_of()
    gather.seek(0)

    assert gather.tick(OPTIONS.alive_us - 1) == []
    assert gather.tick(OPTIONS.alive_us) == [SendDaemonMessage((DaemonId(1),), DaemonAlive(P0, 4))]


def test_the_lowest_daemon_of_the_site_gathers_and_represents_all() -> None:
    gather = gather_of()
    gather.seek(0)
    heard(gather, alive(P1), 10_000)

    (said,) = gather.tick(OPTIONS.seg_us)

    assert gather.phase is GatherPhase.GATHER
    assert isinstance(said, SendDaemonMessage)
    assert isinstance(said.message, DaemonJoin)
    assert said.message.records[0].members == (P0, P1)


def test_a_daemon_that_hears_a_lower_one_is_represented_and_sends_alive_to_it_alone() -> None:
    gather = gather_of(P1)
    gather.seek(0)
    heard(gather, alive(P0), 10_000)

    assert gather.tick(OPTIONS.seg_us) == [SendDaemonMessage((DaemonId(0),), alive(P1, hears=(0,), rep=0))]
    assert gather.phase is GatherPhase.REP


def test_the_join_of_a_lower_one_of_the_site_ends_the_search_at_once() -> None:
    gather = gather_of(P1)
    gather.seek(0)

    heard(gather, join(P0, P1), 5_000)

    assert gather.phase is GatherPhase.REP


def test_the_join_of_a_higher_one_of_the_site_does_not() -> None:
    gather = gather_of(P0)
    gather.seek(0)

    heard(gather, join(P1), 5_000)

    assert gather.phase is GatherPhase.SEG


def test_a_silent_representative_causes_a_new_search() -> None:
    gather = gather_of(P1)
    gather.seek(0)
    heard(gather, join(P0, P1), 5_000)

    gather.tick(5_000 + OPTIONS.represented_us)

    assert gather.phase is GatherPhase.SEG
    assert set(gather.found) == {DaemonId(1)}


def test_of_two_representatives_of_one_site_the_lower_stays() -> None:
    low, high = gathering(P0), gathering(P1)

    heard(low, join(P1), 50_000)
    heard(high, join(P0, P1), 50_000)

    assert high.phase is GatherPhase.REP
    assert low.phase is GatherPhase.GATHER
    assert set(low.found) == {DaemonId(0), DaemonId(1)}


# Between sites.


def test_one_alone_forms_a_view_of_its_own() -> None:
    assert decide(gathering()) == FormView((P0,), ())


def test_two_that_hear_each_other_form_a_view_decided_by_the_lower() -> None:
    low, high = gathering(P0), gathering(P2)

    heard(low, join(P2, hears=(0,)), 50_000)
    heard(high, join(P0, hears=(2,)), 50_000)

    assert decide(low) == FormView((P0, P2), ())
    assert decide(high) is None


def test_one_that_does_not_hear_me_is_left_out() -> None:
    gather = gathering()

    heard(gather, join(P2, hears=()), 50_000)

    assert decide(gather) == FormView((P0,), ())


def test_a_third_is_found_through_the_second_and_the_missing_link_is_named() -> None:
    gather = gathering()
    second = GatherRecord(P2, 1, (P2,), (DaemonId(0), DaemonId(3)), 4)
    third = GatherRecord(P3, 1, (P3,), (DaemonId(2),), 4)

    heard(gather, DaemonJoin((second, third)), 50_000)

    assert decide(gather) == FormView((P0, P2, P3), ((0, 2),))


def test_a_suspicious_link_is_left_out_where_there_is_another_way() -> None:
    gather = gathering(cut=((0, 1),))
    heard(gather, join(P2, hears=(0, 3)), 50_000)
    heard(gather, join(P3, hears=(0, 2)), 50_000)

    assert decide(gather) == FormView((P0, P2, P3), ((0, 1),))


def test_a_site_that_only_a_suspicious_link_reaches_is_left_out() -> None:
    gather = gathering(cut=((0, 1),))
    heard(gather, join(P2, hears=(0,)), 50_000)

    assert decide(gather) == FormView((P0,), ())


def test_the_missing_links_that_others_name_count_too() -> None:
    gather = gathering()
    record = GatherRecord(P2, 1, (P2,), (DaemonId(0), DaemonId(3)), 4, cut=((1, 2),))
    heard(gather, DaemonJoin((record,)), 50_000)
    heard(gather, join(P3, hears=(0, 2)), 50_000)

    assert decide(gather) == FormView((P0, P2, P3), ((1, 2),))


def test_two_components_of_my_site_must_hear_each_other() -> None:
    """A ring needs every pair, so b, whom I do not hear, cannot come in through another site."""
    gather = gathering()
    far = GatherRecord(P2, 1, (P2,), (DaemonId(0), DaemonId(1)), 4)
    rival = GatherRecord(P1, 1, (P1,), (DaemonId(2),), 4)

    heard(gather, DaemonJoin((far, rival)), 50_000)

    assert decide(gather) == FormView((P0, P2), ())


def test_a_representative_that_has_fallen_silent_is_left_out() -> None:
    gather = gathering()
    heard(gather, join(P2, hears=(0,)), 50_000)
    gather.deadline_us = 50_000 + FRESH_JOINS * OPTIONS.join_us + ROUND_TRIP_US + 1

    assert decide(gather) == FormView((P0,), ())


def test_a_newcomer_prolongs_the_search_but_not_for_ever() -> None:
    gather = gathering()
    begun_us = OPTIONS.seg_us
    assert gather.deadline_us == begun_us + GATHER_US

    heard(gather, join(P2, hears=(0,)), begun_us + 50_000)
    assert gather.deadline_us == begun_us + 50_000 + GATHER_US

    for number in range(2, 99):
        newcomer = Process(DaemonId(1), Incarnation(number))
        heard(gather, join(P2, newcomer, hears=(0,), seq=number), gather.deadline_us - 1)
    assert gather.deadline_us == begun_us + 3 * GATHER_US


def test_an_old_record_of_a_representative_is_not_taken_for_new() -> None:
    gather = gathering()
    heard(gather, join(P2, hears=(0,), seq=5), 50_000)

    heard(gather, join(P2, P3, hears=(), seq=4), 51_000)

    assert decide(gather) == FormView((P0, P2), ())


def test_a_new_incarnation_of_a_representative_replaces_the_old_one_whatever_its_sequence() -> None:
    gather = gathering()
    heard(gather, join(P2, hears=(0,), seq=90), 50_000)
    reborn = Process(DaemonId(2), Incarnation(5))

    heard(gather, join(reborn, hears=(0,), seq=1), 51_000)

    assert decide(gather) == FormView((P0, reborn), ())


def test_representatives_with_counters_far_apart_form_no_view_together() -> None:
    gather = gathering()
    gather.counter = 2**40
    heard(gather, DaemonJoin((GatherRecord(P2, 1, (P2,), (0,), 2**40 + 1),)), 50_000)
    heard(gather, DaemonJoin((GatherRecord(P3, 1, (P3,), (0,), 17),)), 50_000)
    near = gathering()
    near.counter = 2**40
    heard(near, DaemonJoin((GatherRecord(P2, 1, (P2,), (0,), 2**40),)), 50_000)

    assert sorted(gather._component(60_000)) == [0]
    assert sorted(near._component(60_000)) == [0, 2]


def record_of_p2(seq: int) -> GatherRecord:
    return GatherRecord(P2, seq, (P2,), (), 1)


def test_a_number_far_ahead_that_is_passed_on_does_not_make_the_real_records_old() -> None:
    gather = gathering()
    heard(gather, DaemonJoin((GatherRecord(P3, 1, (P3,), (), 1), record_of_p2(2**63))), 50_000)

    heard(gather, DaemonJoin((record_of_p2(5),)), 51_000)
    assert gather.known[P2].record.seq == 5

    heard(gather, DaemonJoin((GatherRecord(P3, 2, (P3,), (), 1), record_of_p2(2**63))), 52_000)
    assert gather.known[P2].record.seq == 5
    heard(gather, DaemonJoin((record_of_p2(6),)), 53_000)
    heard(gather, DaemonJoin((record_of_p2(5),)), 54_000)
    assert gather.known[P2].record.seq == 6


def test_a_number_far_ahead_of_its_own_representative_counts_for_a_while_only() -> None:
    gather = gathering()
    heard(gather, DaemonJoin((record_of_p2(2**63),)), 50_000)

    heard(gather, DaemonJoin((record_of_p2(5),)), 9_000_000)
    assert gather.known[P2].record.seq == 2**63

    heard(gather, DaemonJoin((record_of_p2(6),)), 10_051_000)
    assert gather.known[P2].record.seq == 6


def test_daemons_that_are_left_out_are_not_in_the_view_and_are_named_to_others() -> None:
    gather = gathering()
    gather.left_out = frozenset([P1])
    heard(gather, alive(P1), 50_000)
    heard(gather, join(P2, hears=(0,)), 50_000)

    (said,) = gather.tick(gather.say_at_us)
    assert isinstance(said, SendDaemonMessage)
    assert isinstance(said.message, DaemonJoin)
    assert said.message.records[0].left_out == (P1,)
    assert decide(gather) == FormView((P0, P2), ())


# For a view that is whole.


def test_a_probe_that_finds_nobody_leaves_the_view_alone() -> None:
    gather = gather_of()
    gather.probe([P0, P1], 0)

    assert decide(gather) == KeepView()


def test_a_probe_speaks_only_to_those_outside() -> None:
    gather = gather_of()

    (said,) = gather.probe([P0, P1, P2], 0)

    assert isinstance(said, SendDaemonMessage)
    assert said.to == (DaemonId(3),)


def test_a_probe_that_finds_somebody_forms_a_view_with_all() -> None:
    gather = gather_of()
    gather.probe([P0, P1], 0)
    heard(gather, join(P2, hears=(0,)), 10_000)

    assert decide(gather) == FormView((P0, P1, P2), ())


def test_a_higher_view_waits_for_the_lower_one_to_decide_and_then_goes_on() -> None:
    gather = gather_of(P2)
    gather.probe([P2, P3], 0)
    heard(gather, join(P0, P1, hears=(2,), active=True), 10_000)

    assert decide(gather) is None
    gather.deadline_us = gather.limit_us
    heard(gather, join(P0, P1, hears=(2,), active=True, seq=2), gather.limit_us)
    assert gather.tick(gather.limit_us) == [KeepView()]


def test_an_alive_of_its_site_does_not_affect_a_whole_view() -> None:
    gather = gather_of()
    gather.probe([P0], 0)

    heard(gather, alive(P1), 10_000)

    assert decide(gather) == KeepView()


# Of a whole view of several sites.


def said_to(outputs: Outputs) -> set[int]:
    return {int(one) for said in outputs if isinstance(said, SendDaemonMessage) for one in said.to}


def test_a_probe_goes_on_with_the_other_sites_of_the_view_once_somebody_outside_is_heard() -> None:
    gather = gather_of()
    assert said_to(gather.probe([P0, P1, P2], 0)) == {3}

    heard(gather, join(P3, hears=(0,)), 10)

    assert said_to(gather.tick(10)) == {2, 3}


def test_of_a_whole_view_its_lowest_decides_although_only_another_hears_the_newcomer() -> None:
    second = gather_of(P2)
    second.probe([P0, P1, P2], 0, wide=True)
    heard(second, join(P3, hears=(2,)), 10)
    assert decide(second) is None

    first = gather_of(P0)
    first.probe([P0, P1, P2], 0, wide=True)
    told = DaemonJoin(
        (GatherRecord(P2, 1, (P0, P1, P2), (0, 3), 4), GatherRecord(P3, 1, (P3,), (2,), 4)), active=True
    )
    first.join(told, 10)

    assert decide(first) == FormView((P0, P1, P2, P3), ((SiteId(0), SiteId(2)),))


def test_an_unused_link_is_used_again_when_both_ends_hear_each_other() -> None:
    told, untold = [gather_of(P0) for _ in range(2)]
    for gather in (told, untold):
        gather.view_cut = ((0, 1),)
        gather.probe([P0, P1, P2], 0, wide=True)
        heard(gather, join(P3, hears=(0,)), 10)
    heard(told, DaemonJoin((GatherRecord(P2, 1, (P0, P1, P2), (0, 3), 4),), active=True), 10)
    heard(told, join(P3, hears=(0, 2), seq=2), 20)

    assert decide(told) == FormView((P0, P1, P2, P3), ())
    assert decide(untold) == FormView((P0, P1, P2, P3), ((SiteId(0), SiteId(1)),))


# From one search to the next, and recipients.


def test_records_of_an_earlier_search_are_not_new_in_the_next() -> None:
    first = gathering()
    heard(first, join(P2, hears=(0,), seq=7), OPTIONS.seg_us)
    later_us = OPTIONS.seg_us + 10 * GATHER_US
    again = gather_of()
    again.known, again.heard_at_us = first.known, first.heard_at_us
    again.seek(later_us)
    again.tick(later_us + OPTIONS.seg_us)

    heard(
        again,
        DaemonJoin((GatherRecord(P3, 1, (P3,), (), 4), GatherRecord(P2, 7, (P2,), (0,), 4))),
        later_us + OPTIONS.seg_us,
    )

    said = again.tick(again.say_at_us)[0]
    assert isinstance(said, SendDaemonMessage)
    assert isinstance(said.message, DaemonJoin)
    assert [record.rep for record in said.message.records] == [P0, P3]


def test_a_daemon_whose_representative_is_heard_is_not_contacted() -> None:
    gather = gathering(P2)
    gather.refer(DaemonRefer(P1, DaemonId(0)))
    assert said_to(gather.tick(gather.say_at_us)) == {0, 1, 3}

    heard(gather, join(P0, P1), gather.say_at_us)
    assert said_to(gather.tick(gather.say_at_us)) == {0, 3}

    heard(gather, join(P1), gather.say_at_us)
    assert said_to(gather.tick(gather.say_at_us)) == {0, 1, 3}


def test_a_represented_daemon_names_its_representative_to_other_sites() -> None:
    gather = gather_of(P1)
    gather.seek(0)
    heard(gather, join(P0, P1), 10)

    assert heard(gather, join(P2), 20) == [SendDaemonMessage((DaemonId(2),), DaemonRefer(P1, DaemonId(0)))]


def test_a_silent_daemon_of_the_site_is_no_longer_represented() -> None:
    gather = gather_of()
    gather.seek(0)
    heard(gather, alive(P1), 10)
    gather.tick(OPTIONS.seg_us)
    silent_us = 10 + FRESH_ALIVES * OPTIONS.alive_us
    while gather.say_at_us <= silent_us:
        gather.tick(gather.say_at_us)
        gather.deadline_us = silent_us * 2

    said = gather.tick(gather.say_at_us)[0]

    assert isinstance(said, SendDaemonMessage)
    assert isinstance(said.message, DaemonJoin)
    assert said.message.records[0].members == (P0,)


def test_a_daemon_that_others_leave_out_is_left_out_and_not_reported_as_ones_own_suspicion() -> None:
    gather = gathering()
    heard(gather, alive(P1), OPTIONS.seg_us)
    says = GatherRecord(P2, 1, (P2,), (0, 3), 4, (), (P3,))
    heard(gather, DaemonJoin((says,)), OPTIONS.seg_us)
    heard(gather, join(P3, hears=(0, 2)), OPTIONS.seg_us)

    (said,) = gather.tick(gather.say_at_us)
    assert isinstance(said, SendDaemonMessage)
    assert isinstance(said.message, DaemonJoin)
    assert said.message.records[0].left_out == ()
    heard(gather, DaemonJoin((says,)), gather.deadline_us)
    heard(gather, join(P3, hears=(0, 2), seq=2), gather.deadline_us)
    heard(gather, DaemonJoin((GatherRecord(P2, 2, (P2,), (0, 3), 4, (), (P3,)),)), gather.deadline_us)
    form = decide(gather)
    assert isinstance(form, FormView)
    assert form.members == (P0, P1, P2)


# Waiting for other representatives.


def test_a_daemon_that_the_lowest_will_leave_out_does_not_wait_for_it() -> None:
    """P2 is linked with P0 alone; P3 hears P2 only, over a link that P3 suspects: P0 will not take it."""
    gather = gathering(P3, cut=((1, 2),))
    heard(
        gather,
        DaemonJoin((GatherRecord(P2, 1, (P2,), (0, 3), 4), GatherRecord(P0, 1, (P0,), (2,), 4))),
        OPTIONS.seg_us,
    )

    assert decide(gather) == FormView((P3,), ())


def test_a_whole_view_is_not_given_up_for_one_that_lacks_its_members() -> None:
    gather = gather_of(P0)
    gather.probe([P0, P1, P2], 0, wide=True)
    newcomer = GatherRecord(P3, 1, (P3,), (0, 2), 4, (), (P1,))
    heard(gather, DaemonJoin((newcomer,)), 10)
    heard(gather, DaemonJoin((GatherRecord(P2, 1, (P0, P1, P2), (0, 3), 4),), active=True), 10)

    assert decide(gather) == KeepView()


def test_a_new_incarnation_replaces_the_old_member_of_a_whole_view() -> None:
    gather = gather_of(P0)
    gather.probe([P0, P2], 0)
    again = Process(P2.daemon, Incarnation(77))
    heard(gather, join(again, hears=(0,)), 10)

    assert decide(gather) == FormView((P0, again), ())


def test_an_alive_of_another_site_is_ignored() -> None:
    gather = gather_of(P0)
    gather.seek(0)
    heard(gather, alive(P2), 10)

    assert P2.daemon not in gather.found


def test_a_daemon_that_leaves_is_no_longer_represented() -> None:
    gather = gather_of(P0)
    gather.seek(0)
    heard(gather, alive(P1), 10)
    assert gather.met() == [P0, P1]

    gather.forget(P1)

    assert gather.met() == [P0]


# Weights.


def test_a_record_reports_what_its_sender_measured_and_the_decider_collects_all_reports() -> None:
    gather = gathering(P0)
    gather.reports = ((0, 1, 40),)
    far = GatherRecord(P2, 1, (P2,), (0,), 4, weights=((0, 1, 56),))

    gather.join(DaemonJoin((far,)), OPTIONS.seg_us + 10)
    said = [one.message for one in gather.tick(gather.say_at_us) if isinstance(one, SendDaemonMessage)]
    assert isinstance(said[0], DaemonJoin)
    assert said[0].records[0].weights == ((0, 1, 40),)
    gather.join(DaemonJoin((msgspec.structs.replace(far, seq=2),)), gather.deadline_us - 1)
    form = decide(gather)

    assert isinstance(form, FormView)
    assert set(form.reports) == {(0, 1, 40), (0, 1, 56)}


# Who hears whom in the site.

FOUR = dict.fromkeys([DaemonId(at) for at in range(4)], SiteId(0))


def in_a_site_of_four(me: Process) -> Gather:
    others = tuple(one for one in FOUR if one != me.daemon)
    reach = SiteConnectivity(me, others, OPTIONS.represented_us)
    gather = Gather(me, FOUR, {}, OPTIONS, ROUND_TRIP_US, counter=4, connectivity=reach)
    gather.seek(0)
    return gather


def test_a_representative_takes_those_that_hear_each_other_in_pairs_and_tells_the_rest() -> None:
    gather = in_a_site_of_four(P0)
    heard(gather, alive(P1, (0, 2, 3)), 20_000)
    heard(gather, alive(P2, (0, 1, 3)), 20_000)
    heard(gather, alive(P3, (0, 1)), 20_000)
    gather.tick(OPTIONS.seg_us)

    out = gather.tick(gather.deadline_us)

    assert out == [SendDaemonMessage((DaemonId(3),), DaemonDecline(P0)), FormView((P0, P1, P2), ())]


def test_a_daemon_that_a_lower_one_does_not_hear_is_not_represented_by_it() -> None:
    gather = in_a_site_of_four(P2)
    heard(gather, alive(P0, (1, 3)), 20_000)
    heard(gather, alive(P1, (0, 2, 3)), 20_000)

    gather.tick(OPTIONS.seg_us)

    assert gather.representative == 1


def test_a_daemon_represented_by_another_is_not_represented_here() -> None:
    gather = in_a_site_of_four(P1)
    heard(gather, alive(P2, (0, 1)), 20_000)
    gather.tick(OPTIONS.seg_us)

    heard(gather, alive(P2, (0, 1), rep=0), 50_000)

    assert decide(gather) == FormView((P1,), ())


def test_a_declined_daemon_looks_for_other_declined_ones() -> None:
    gather = in_a_site_of_four(P2)
    heard(gather, alive(P0, (1, 2, 3)), 20_000)
    heard(gather, alive(P3, (0, 1, 2)), 20_000)
    gather.tick(OPTIONS.seg_us)
    assert gather.representative == 0

    gather.decline(DaemonDecline(P0), 60_000)
    heard(gather, alive(P3, (0, 1, 2)), 70_000)
    gather.tick(60_000 + OPTIONS.seg_us)

    assert gather.phase is GatherPhase.GATHER
    assert decide(gather) == FormView((P2, P3), ())


def test_a_represented_daemon_represents_nobody() -> None:
    gather = in_a_site_of_four(P2)
    heard(gather, alive(P1, (0, 2, 3)), 20_000)
    gather.tick(OPTIONS.seg_us)
    assert gather.representative == 1

    heard(gather, alive(P1, (0, 2, 3), rep=0), 50_000)

    gather.tick(50_000 + OPTIONS.seg_us)
    assert gather.phase is GatherPhase.GATHER


def test_a_whole_view_takes_a_daemon_of_its_site_only_if_it_and_all_of_the_site_hear_each_other() -> None:
    for said, heard_by_it, taken in [((2,), (0, 1), True), ((), (0, 1), False), ((2,), (0,), False)]:
        gather = in_a_site_of_four(P0)
        gather.probe([P0, P1], 0)
        gather.connectivity.heard(DaemonAlive(P1, 4, hears=said, active=True), 10_000)
        hears = (0,) if set(heard_by_it) == {0, 1} else ()
        heard(gather, join(P2, hears=hears), 10_000)

        assert (decide(gather) == FormView((P0, P1, P2), ())) is taken


def test_a_view_of_several_sites_is_not_merged_by_a_daemon_that_hears_only_its_remote_site() -> None:
    """Daemon 1 hears the view's representative in another site, and not the one in its own."""
    gather = gather_of(P1)
    gather.probe([P1], 0)
    heard(gather, join(P2, P0, hears=(1,), active=True), 10)

    assert decide(gather) == KeepView()


def test_the_higher_of_two_in_a_site_does_not_take_daemons_that_go_with_the_lower() -> None:
    """Daemon 2 in another site hears both 0 and 1, and these two do not hear each other."""
    gather = gathering(P1)
    lower = GatherRecord(P0, 1, (P0,), (2,), 4)
    far = GatherRecord(P2, 1, (P2,), (0, 1), 4)
    heard(gather, DaemonJoin((far, lower)), 50_000)

    assert decide(gather) == FormView((P1,), ())
