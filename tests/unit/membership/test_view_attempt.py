import pytest
from msgspec.structs import replace
from tests.unit.membership.state_reports import ATTEMPT, ELSEWHERE, OLD, A, B, C, body, site, sites, state

from hopring.errors import PeerError
from hopring.ids import DaemonId, Incarnation, Process, SiteId, SiteMask, ViewId
from hopring.membership.messages import (
    CLOCK_AHEAD_MAX,
    NewMemb,
    RecoveryDone,
    RecoveryMessage,
    RecoveryResend,
    SiteState,
    StateTrans,
)
from hopring.membership.primary import Electorate, PrimaryVoter
from hopring.membership.view import InstalledView, ViewAttempt
from hopring.ordering.entry import OrderedMessage, encode_message
from hopring.ordering.order import IN_FLIGHT_DEFAULT, new_order
from hopring.services import Service
from hopring.wire.routed import Meta

WHERE = sites(0, 1, 2)
ANOTHER_ATTEMPT = ViewId(8, DaemonId(0), Incarnation(1))


def old_view(me: Process = A) -> InstalledView:
    view = InstalledView(OLD, me, (A, B, C), new_order([SiteId(0), SiteId(1), SiteId(2)], 0))
    view.break_up()
    return view


def attempt_of(*members: Process, view: InstalledView | None = None) -> ViewAttempt:
    voter = PrimaryVoter(Electorate(WHERE, {}), marked=True)
    return ViewAttempt(NewMemb(ATTEMPT, members), view or old_view(), WHERE, 9, voter)


def kinds(sent: list[RecoveryMessage]) -> list[str]:
    return [type(one).__name__ for one in sent]


def test_a_single_daemon_is_done_at_once() -> None:
    attempt = attempt_of(A)

    assert kinds(attempt.start()) == ["StateTrans", "RecoveryDone"]
    assert attempt.complete


def test_nothing_is_decided_before_all_states_have_come() -> None:
    attempt = attempt_of(A, B, C)
    attempt.start()

    assert attempt.receive(B.daemon, old_view(B).state(ATTEMPT, 9)) == []
    assert attempt.silent == [C]
    assert not attempt.bound

    assert kinds(attempt.receive(C.daemon, old_view(C).state(ATTEMPT, 9))) == ["RecoveryDone"]
    assert attempt.bound
    assert not attempt.complete


def test_an_attempt_is_complete_when_all_are_done_in_any_order_of_messages() -> None:
    attempt = attempt_of(A, B)
    attempt.start()

    attempt.receive(B.daemon, RecoveryDone(ATTEMPT))
    assert not attempt.complete

    attempt.receive(B.daemon, old_view(B).state(ATTEMPT, 9))
    assert attempt.complete


def test_messages_of_another_attempt_or_of_strangers_are_ignored() -> None:
    attempt = attempt_of(A, B)
    attempt.start()

    attempt.receive(B.daemon, old_view(B).state(ANOTHER_ATTEMPT, 9))
    attempt.receive(B.daemon, RecoveryDone(ANOTHER_ATTEMPT))
    attempt.receive(C.daemon, old_view(C).state(ATTEMPT, 9))

    assert attempt.silent == [B]
    assert attempt.done == set()


def test_messages_of_another_incarnation_of_a_member_are_ignored() -> None:
    attempt = attempt_of(A, B)
    attempt.start()
    other_life = Process(B.daemon, Incarnation(9))

    attempt.receive(B.daemon, state(other_life))

    assert attempt.silent == [B]


def test_the_first_state_counts_and_a_second_changes_nothing() -> None:
    attempt = attempt_of(A, B, C)
    attempt.start()
    first = old_view(B).state(ATTEMPT, 9)

    attempt.receive(B.daemon, first)
    attempt.receive(B.daemon, state(B, installed=ELSEWHERE))

    assert attempt.states[B] == first


def test_a_daemon_is_bound_only_when_it_has_all_missing_bundles() -> None:
    holder = old_view(B)
    message = OrderedMessage(Service.AGREED, C.daemon, 1, b"m")
    holder.order.recover(Meta(SiteId(2), 1, 5, SiteMask(0b111), 0), message)
    lacking = old_view(A)
    mine, theirs = attempt_of(A, B, view=lacking), attempt_of(A, B, view=holder)
    (asked,) = mine.start()
    (told,) = theirs.start()
    assert isinstance(told, StateTrans)

    assert mine.receive(B.daemon, told) == []
    assert not mine.bound

    sent = theirs.receive(A.daemon, asked)
    assert kinds(sent) == ["RecoveryResend", "RecoveryDone"]
    assert kinds(mine.receive(B.daemon, sent[0])) == ["RecoveryDone"]
    mine.receive(B.daemon, sent[1])
    assert mine.complete


def test_a_resend_of_another_view_is_not_taken() -> None:
    view = old_view()
    attempt = attempt_of(A, B, view=view)
    attempt.start()

    attempt.receive(
        B.daemon, RecoveryResend(ATTEMPT, ELSEWHERE, 2, 1, 5, 0b111, 0, b"\x05\x02\x00\x01\x00\x00\x00m")
    )

    assert not view.order.entries


def test_a_failed_attempt_leaves_the_old_view_as_it_was() -> None:
    view = old_view()
    before = view.state(ATTEMPT, 9)
    attempt = attempt_of(A, B, C, view=view)
    attempt.start()
    attempt.receive(B.daemon, old_view(B).state(ATTEMPT, 9))

    assert view.state(ATTEMPT, 9) == before


def test_the_clock_of_the_new_view_is_the_highest_of_all_members() -> None:
    attempt = attempt_of(A, B)
    attempt.start()

    attempt.receive(B.daemon, state(B, installed=ELSEWHERE, clock=77))

    assert attempt.clock == 77


def test_a_clock_far_ahead_is_refused_and_changes_nothing() -> None:
    attempt = attempt_of(A, B)
    attempt.start()

    with pytest.raises(PeerError):
        attempt.receive(B.daemon, state(B, installed=ELSEWHERE, clock=CLOCK_AHEAD_MAX + 1))

    assert attempt.silent == [B]


@pytest.mark.parametrize(
    "impossible",
    [
        state(B, clock=IN_FLIGHT_DEFAULT + 1),
        state(B, site(0, 0, 1, highest=IN_FLIGHT_DEFAULT + 1)),
        state(B, site(0, IN_FLIGHT_DEFAULT + 1, 1)),
        state(B, site(5, 2, 9)),
        state(B, commit=(B, Process(A.daemon, Incarnation(77)))),
    ],
)
def test_a_state_of_the_same_view_stays_within_the_windows_of_its_members(impossible: StateTrans) -> None:
    attempt = attempt_of(A, B)
    attempt.start()

    with pytest.raises(PeerError):
        attempt.receive(B.daemon, impossible)

    assert attempt.silent == [B]


def test_the_cost_of_a_decision_does_not_grow_with_the_numbers_in_states() -> None:
    view = InstalledView(OLD, A, (A, B, C), new_order([SiteId(0)], 0, in_flight_max=2**60))
    view.break_up()
    attempt = attempt_of(A, B, view=view)
    attempt.start()

    attempt.receive(B.daemon, state(B, site(0, 0, 1, body(2**50, 9), highest=2**59)))

    assert attempt.decision is not None
    assert [(gap.first, gap.last) for gap in attempt.decision.gaps] == [(1, 2**50 - 1), (2**50 + 1, 2**59)]
    assert attempt.decision.edge == (1, 0)


@pytest.mark.parametrize(
    "impossible",
    [
        site(9, 1, 5, body(1, 4)),
        site(1, 1, 5, highest=2**40),
        site(1, 1, 5, body(2**40, 6)),
    ],
    ids=["a site outside the view", "more known than any window holds", "a sequence beyond any window"],
)
def test_an_invalid_state_is_refused_and_changes_nothing(impossible: SiteState) -> None:
    attempt = attempt_of(A, B)
    attempt.start()

    with pytest.raises(PeerError):
        attempt.receive(B.daemon, state(B, impossible))

    assert attempt.silent == [B]


@pytest.mark.parametrize(
    "resend",
    [
        RecoveryResend(ATTEMPT, OLD, 2, 1, 5, 0b111, 0, b""),
        RecoveryResend(ATTEMPT, OLD, 2, 1, 5, 0b111, 0, b"\x05\x63\x00\x01\x00\x00\x00m"),
        RecoveryResend(ATTEMPT, OLD, 2, 1, 2**62, 0b111, 0, None),
    ],
    ids=["no message", "of a daemon outside the view", "stamped far ahead"],
)
def test_an_invalid_resend_is_refused_and_changes_nothing(resend: RecoveryResend) -> None:
    view = old_view()
    attempt = attempt_of(A, B, view=view)
    attempt.start()

    with pytest.raises(PeerError):
        attempt.receive(B.daemon, resend)

    assert not view.order.entries


@pytest.mark.parametrize("clock", [2**32 - 1, 2**40])
def test_a_clock_just_below_a_limit_is_taken(clock: int) -> None:
    attempt = attempt_of(A, B)
    attempt.start()

    attempt.receive(B.daemon, state(B, installed=ELSEWHERE, clock=clock))

    assert attempt.clock == clock


def test_the_highest_counter_of_all_members_is_known() -> None:
    attempt = attempt_of(A, B)
    attempt.start()

    attempt.receive(B.daemon, replace(state(B), counter=100))

    assert attempt.counter == 100


@pytest.mark.parametrize(
    "message",
    [
        OrderedMessage(Service.AGREED, A.daemon, 1, b"never sent"),
        OrderedMessage(Service.AGREED, B.daemon, 1, b"of another site"),
        OrderedMessage(Service.UNRELIABLE, C.daemon, 1, b"outside the order"),
    ],
    ids=lambda one: bytes(one.payload).decode(),
)
def test_a_resent_bundle_that_no_correct_daemon_has_is_refused(message: OrderedMessage) -> None:
    attempt = attempt_of(A, B)
    attempt.start()
    place = WHERE[message.daemon] if message.payload != b"of another site" else SiteId(2)
    resend = RecoveryResend(ATTEMPT, OLD, place, 1, 5, 0b111, 0, encode_message(message))

    with pytest.raises(PeerError):
        attempt.receive(B.daemon, resend)

    assert not attempt.old.order.listed


def test_after_the_decision_only_its_bundles_are_resent() -> None:
    attempt = attempt_of(A, B)
    attempt.start()
    attempt.receive(B.daemon, state(B, site(2, 1, 6, body(1, 5, 0b111))))
    message = encode_message(OrderedMessage(Service.AGREED, C.daemon, 1, b"m"))

    for seq, lts in ((2, 6), (1, 4)):
        with pytest.raises(PeerError):
            attempt.receive(B.daemon, RecoveryResend(ATTEMPT, OLD, SiteId(2), seq, lts, 0b111, 0, message))

    attempt.receive(B.daemon, RecoveryResend(ATTEMPT, OLD, SiteId(2), 1, 5, 0b111, 0, message))
    assert attempt.bound
