"""Primary views: votes, judgements, and what a process remembers."""

import pytest
from msgspec import structs

from hopring.engine import PrimaryBasis
from hopring.errors import PeerError
from hopring.ids import DaemonId, Incarnation, Process, SiteId, ViewId
from hopring.membership.messages import (
    VOTED_VIEWS_MAX,
    EpochMark,
    PrimaryVote,
    StateTrans,
    VotedView,
    check_state,
)
from hopring.membership.primary import ATTEMPTS_MAX, OPERATOR_STEP, Electorate, PrimaryVoter, judge

A, B, C, D, E = (Process(DaemonId(at), Incarnation(10 + at)) for at in range(5))
ALL = (A, B, C, D, E)
SITE_OF = {one.daemon: SiteId(one.daemon // 2) for one in ALL}
FIVE = Electorate(SITE_OF, {})
FRESH = PrimaryVote(marked=False)


def again(process: Process) -> Process:
    """The next life of this process."""
    return Process(process.daemon, Incarnation(process.incarnation + 100))


def view(counter: int, *voters: Process) -> VotedView:
    return VotedView(ViewId(counter, voters[0].daemon, voters[0].incarnation), voters)


def basis(votes: dict[Process, PrimaryVote], electorate: Electorate = FIVE) -> PrimaryBasis:
    return judge(votes, electorate).basis


def test_the_first_primary_is_a_majority_of_the_configured_daemons() -> None:
    assert basis({A: FRESH, B: FRESH}) is PrimaryBasis.NONE
    assert basis({A: FRESH, B: FRESH, C: FRESH}) is PrimaryBasis.FIRST


def test_a_daemon_that_may_have_voted_before_its_restart_founds_no_primary() -> None:
    votes = {A: FRESH, B: FRESH, C: FRESH, D: PrimaryVote(marked=True)}

    assert basis(votes) is PrimaryBasis.NONE
    assert basis({**votes, E: FRESH}) is PrimaryBasis.ALL


def test_a_primary_is_followed_by_a_majority_of_it_however_small() -> None:
    three, two = view(3, A, B, C), view(4, A, B)

    assert basis({A: PrimaryVote(three), B: PrimaryVote(three)}) is PrimaryBasis.MAJORITY
    assert basis({D: FRESH, E: FRESH, C: PrimaryVote(three)}) is PrimaryBasis.NONE
    assert basis({A: PrimaryVote(two), C: PrimaryVote(three), D: FRESH, E: FRESH}) is PrimaryBasis.NONE


def test_the_next_life_of_a_voter_does_not_vote() -> None:
    last = view(3, A, B, C)

    assert basis({A: PrimaryVote(last), again(B): PrimaryVote(), D: FRESH, E: FRESH}) is PrimaryBasis.NONE


def test_an_attempt_that_may_have_succeeded_counts_like_a_primary() -> None:
    whole, side = view(2, A, B, C, D, E), view(3, A, B, C)
    c = PrimaryVote(whole, (side,))

    assert basis({C: c, D: PrimaryVote(whole), E: PrimaryVote(whole)}) is PrimaryBasis.NONE
    assert basis({B: c, C: c, D: PrimaryVote(whole)}) is PrimaryBasis.MAJORITY


def test_a_voter_that_has_not_noted_an_attempt_refutes_it() -> None:
    whole, side = view(2, A, B, C, D, E), view(3, A, B, C)
    judgement = judge({B: PrimaryVote(whole), C: PrimaryVote(whole, (side,)), D: PrimaryVote(whole)}, FIVE)

    assert judgement.basis is PrimaryBasis.MAJORITY
    assert judgement.attempts == ()


def test_a_later_primary_settles_the_attempts_before_it() -> None:
    whole, side, later = view(2, A, B, C, D, E), view(3, C, D, E), view(4, A, B, C)
    judgement = judge({C: PrimaryVote(whole, (side,)), A: PrimaryVote(later), B: PrimaryVote(later)}, FIVE)

    assert judgement.basis is PrimaryBasis.MAJORITY
    assert (judgement.last, judgement.attempts) == (later, ())


def test_all_configured_daemons_are_primary_even_if_most_have_forgotten() -> None:
    last = view(3, A, B, C)
    votes = dict.fromkeys([again(A), again(B), C, D, E], PrimaryVote())

    assert basis({**votes, C: PrimaryVote(last)}) is PrimaryBasis.ALL


def test_an_operator_makes_any_view_primary() -> None:
    assert basis({A: PrimaryVote(view(3, B, C, D), forced=True)}) is PrimaryBasis.OPERATOR


def test_a_daemon_that_cannot_write_its_mark_has_no_vote() -> None:
    lame = PrimaryVote(marked=False, abstains=True)
    votes = {A: FRESH, B: FRESH, C: lame}

    assert basis(votes) is PrimaryBasis.NONE
    judgement = judge({**votes, D: FRESH}, FIVE)
    assert judgement.basis is PrimaryBasis.WEIGHTED
    assert judgement.voters == (A, B, D)


def test_weights_count_and_views_judged_by_them_say_so() -> None:
    heavy = Electorate(SITE_OF, {A.daemon: 4})

    assert basis({A: FRESH}, heavy) is PrimaryBasis.NONE
    assert basis({A: FRESH, B: FRESH}, heavy) is PrimaryBasis.WEIGHTED
    assert basis(dict.fromkeys([B, C, D, E], FRESH), heavy) is PrimaryBasis.NONE


def test_the_deciding_site_breaks_a_tie_for_one_half_only() -> None:
    four = {daemon: site for daemon, site in SITE_OF.items() if daemon < 4}
    last = PrimaryVote(view(2, A, B, C, D))
    halves = [{A: last, B: last}, {C: last, D: last}, {A: last, C: last}, {B: last, D: last}]

    assert [basis(half, Electorate(four, {})) for half in halves] == [PrimaryBasis.NONE] * 4
    tied = Electorate(four, {}, tie_site=SITE_OF[C.daemon])
    assert [bool(basis(half, tied)) for half in halves] == [False, True, False, False]


def test_too_many_open_attempts_keep_a_view_from_being_primary() -> None:
    last = view(1, A, B, C)
    attempts = tuple([view(2 + at, A, B, C) for at in range(ATTEMPTS_MAX)])
    vote = PrimaryVote(last, attempts)

    assert basis({A: vote, B: vote}) is PrimaryBasis.NONE
    few = PrimaryVote(last, attempts[1:])
    assert basis({A: few, B: few}) is PrimaryBasis.MAJORITY


def test_a_process_says_done_only_when_its_mark_is_on_disk() -> None:
    voter = PrimaryVoter(FIVE, marked=False, has_disk=True)
    judgement = judge({A: voter.vote, B: FRESH, C: FRESH}, FIVE)

    assert not voter.may_bind(judgement)
    assert voter.begin_mark(judgement) == EpochMark(1, (0, 1, 2))
    assert voter.begin_mark(judgement) is None
    voter.mark_written(durable=True)

    assert voter.may_bind(judgement)
    assert voter.begin_mark(judgement) is None
    assert not voter.vote.marked, "its own votes are known in this life"


def test_a_view_that_is_not_primary_needs_no_mark() -> None:
    voter = PrimaryVoter(FIVE, marked=False)

    assert voter.may_bind(judge({A: voter.vote}, FIVE))


def test_a_process_notes_its_attempt_and_then_the_primary() -> None:
    voter = PrimaryVoter(FIVE, marked=True)
    last = view(3, A, B, C)
    judgement = judge({A: PrimaryVote(last), B: PrimaryVote(last)}, FIVE)
    next_view = ViewId(9, A.daemon, A.incarnation)

    voter.bind(judgement, next_view)
    assert voter.vote == PrimaryVote(last, (VotedView(next_view, (A, B), 1),))

    voter.install(judgement, next_view)
    assert voter.vote == PrimaryVote(VotedView(next_view, (A, B), 1))


def test_the_word_of_an_operator_counts_for_one_view() -> None:
    voter = PrimaryVoter(FIVE, marked=True)
    voter.force()
    judgement = judge({A: voter.vote}, FIVE)
    voter.bind(judgement, ViewId(9, A.daemon, A.incarnation))
    assert voter.vote.forced

    voter.install(judgement, ViewId(9, A.daemon, A.incarnation))
    assert not voter.vote.forced


def test_the_epoch_is_above_all_that_any_member_knows_and_sure_along_the_chain() -> None:
    last = VotedView(ViewId(3, A.daemon, A.incarnation), (A, B, C), 7, sure=True)
    bound = VotedView(ViewId(4, A.daemon, A.incarnation), (A, B, C), 8, sure=True)
    judgement = judge({A: PrimaryVote(last, (bound,)), B: PrimaryVote(last, (bound,))}, FIVE)

    assert (judgement.epoch, judgement.sure) == (9, True)


def test_the_first_epoch_of_a_cluster_is_sure() -> None:
    judgement = judge({A: FRESH, B: FRESH, C: FRESH}, FIVE)
    assert (judgement.epoch, judgement.sure) == (1, True)


def marked(epoch: int, *voters: Process) -> PrimaryVote:
    """The vote of a daemon that was restarted, with an undamaged mark."""
    return PrimaryVote(mark=EpochMark(epoch, tuple([one.daemon for one in voters])))


def test_after_a_restart_of_all_a_majority_of_the_last_voters_has_to_tell_its_marks() -> None:
    spoiled = PrimaryVote()
    for wrong, sure in (((), True), ((B,), True), ((B, C), False), ((A, B, C), False)):
        votes = {one: marked(7, A, B, C) for one in (A, B, C)} | {
            one: marked(5, A, B, C, D, E) for one in (D, E)
        }
        judgement = judge({one: spoiled if one in wrong else vote for one, vote in votes.items()}, FIVE)
        assert judgement.basis is PrimaryBasis.ALL
        assert judgement.sure is sure, wrong
        assert judgement.epoch == (6 if wrong == (A, B, C) else 8)


def test_a_lost_mark_of_a_small_last_primary_stops_locks_though_a_majority_of_all_tell_theirs() -> None:
    votes = {A: PrimaryVote(), B: PrimaryVote()} | {
        C: marked(6, A, B, C),
        D: marked(5, *ALL),
        E: marked(5, *ALL),
    }
    assert not judge(votes, FIVE).sure


def test_a_chain_that_was_not_sure_becomes_so_when_enough_marks_are_told() -> None:
    last = VotedView(ViewId(3, A.daemon, A.incarnation), ALL, 8, sure=False)
    told = {one: PrimaryVote(last, mark=EpochMark(8, (0, 1, 2, 3, 4))) for one in (A, B, C)}
    assert judge(told, FIVE).sure
    assert not judge({one: PrimaryVote(last) for one in (A, B, C)}, FIVE).sure


def test_an_operators_word_steps_over_what_the_others_may_have_reached() -> None:
    judgement = judge({A: structs.replace(marked(7, *ALL), forced=True)}, FIVE)
    assert (judgement.epoch, judgement.sure) == (7 + OPERATOR_STEP, True)


def test_each_vote_for_a_primary_is_on_disk_with_its_epoch_before_done() -> None:
    voter = PrimaryVoter(FIVE, marked=True, mark=EpochMark(7, (0, 1, 2)), has_disk=True)
    judgement = judge({one: PrimaryVote(view(3, A, B, C), mark=voter.vote.mark) for one in (A, B)}, FIVE)
    assert not voter.may_bind(judgement)
    assert voter.begin_mark(judgement) == EpochMark(8, (0, 1))


def state_with(vote: PrimaryVote) -> StateTrans:
    return StateTrans(
        ViewId(50, A.daemon, A.incarnation),
        A,
        ViewId(1, A.daemon, A.incarnation),
        0,
        0,
        (),
        0,
        (0, -1),
        (),
        vote,
    )


@pytest.mark.parametrize(
    "vote",
    [
        PrimaryVote(view(3, A), (view(2, A),)),
        PrimaryVote(None, (view(3, A), view(3, A))),
        PrimaryVote(view(60, A)),
        PrimaryVote(None, tuple([view(2 + at, A) for at in range(VOTED_VIEWS_MAX + 1)])),
        PrimaryVote(view(3, Process(A.daemon, Incarnation(1 << 64)))),
    ],
    ids=["falls", "twice", "later than the attempt", "too many", "no incarnation"],
)
def test_a_vote_that_contradicts_itself_is_refused(vote: PrimaryVote) -> None:
    check_state(state_with(PrimaryVote(view(3, A), (view(4, A),))), SITE_OF)

    with pytest.raises(PeerError):
        check_state(state_with(vote), SITE_OF)
