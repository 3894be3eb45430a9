"""One member of a group with view synchrony, with literal events and times."""

import pytest

from hopring.blocks.flushing import (
    HELD_MAX,
    AgreementArrived,
    AgreeToFlush,
    AskToFlush,
    BaseClosing,
    BaseView,
    DeliverContent,
    ExclusionArrived,
    FlushMember,
    FlushPhase,
    GiveUp,
    InstallView,
    MemberDisconnected,
    Output,
    SendAgreement,
    SendExclusion,
    ShowClosing,
    ViewMessage,
    service_in_view,
)
from hopring.ids import NEVER
from hopring.links.events import Tick
from hopring.services import AGREED, CAUSAL, FIFO, RELIABLE, SAFE, UNRELIABLE, Service


def base(name: str, members: str, together: str = "", joined_as: str = "", primary: bool = False) -> BaseView:
    return BaseView(name, tuple(members), frozenset(together or members), primary, joined_as)


def alone() -> FlushMember:
    """A member a with a view v1 of its own."""
    member = FlushMember(patience_us=10_000)
    member.step(base("v1", "a", joined_as="a"), 0)
    member.step(AgreementArrived("a", "v1", "a"), 0)
    return member


def pair() -> FlushMember:
    """A member a in a view v2 with b."""
    member = alone()
    member.step(base("v2", "ab", "a"), 0)
    member.step(AgreeToFlush(), 0)
    member.step(AgreementArrived("a", "v2", "a"), 0)
    member.step(AgreementArrived("b", "v2", "b"), 0)
    assert (member.view, member.phase) == ("v2", FlushPhase.OPEN)
    return member


def install(name: str, members: str, together: str, *sets: str, whole: bool = True) -> Output:
    return InstallView(name, tuple(members), tuple(together), tuple(map(tuple, sets)), whole)


def test_who_joins_has_nothing_to_flush_and_agrees_by_itself() -> None:
    member = FlushMember()

    assert member.step(base("v1", "a", joined_as="a"), 0) == [SendAgreement("v1", "a")]
    assert not member.may_send
    assert member.step(AgreementArrived("a", "v1", "a"), 0) == [install("v1", "a", "a", "a")]
    assert member.may_send


def test_a_member_is_asked_once_and_may_send_until_it_agrees() -> None:
    member = alone()

    assert member.step(base("v2", "ab", "a"), 0) == [AskToFlush("v1", ("a",))]
    assert member.may_send
    assert member.step(base("v3", "abc", "ab"), 0) == []
    assert member.may_send
    assert member.step(AgreeToFlush(), 0) == [SendAgreement("v3", "a")]
    assert not member.may_send


def test_a_view_comes_with_the_last_agreement() -> None:
    member = alone()
    member.step(base("v2", "ab", "a"), 0)
    member.step(AgreeToFlush(), 0)

    assert member.step(AgreementArrived("b", "v2", "b"), 0) == []
    assert member.step(AgreementArrived("a", "v2", "a"), 0) == [install("v2", "ab", "a", "a", "b")]


def test_an_agreement_for_an_earlier_attempt_does_not_count() -> None:
    member = pair()
    member.step(base("v3", "abc", "ab"), 0)
    member.step(AgreeToFlush(), 0)

    assert member.step(base("v4", "abcd", "abc"), 0) == [SendAgreement("v4", "a")]
    for sender, attempt in (("a", "v3"), ("b", "v3"), ("c", "v3"), ("b", "v4"), ("c", "v4"), ("d", "v4")):
        assert member.step(AgreementArrived(sender, attempt, sender), 0) == []
    assert member.step(AgreementArrived("a", "v4", "a"), 0) == [
        install("v4", "abcd", "ab", "a", "b", "c", "d", whole=False)
    ]


def test_messages_are_delivered_in_the_view_in_which_they_were_sent_or_not_at_all() -> None:
    member = pair()
    member.step(base("v3", "abc", "ab"), 0)

    assert member.step(ViewMessage("b", "v2", b"old"), 0) == [DeliverContent("b", b"old")]
    assert member.step(ViewMessage("b", "v1", b"older"), 0) == []
    member.step(AgreeToFlush(), 0)
    member.step(AgreementArrived("a", "v3", "a"), 0)
    assert member.step(ViewMessage("c", "v3", b"early"), 0) == []
    member.step(AgreementArrived("b", "v3", "a"), 0)
    assert member.step(AgreementArrived("c", "v3", "c"), 0) == [
        install("v3", "abc", "ab", "ab", "c"),
        DeliverContent("c", b"early"),
    ]
    assert member.step(ViewMessage("b", "v2", b"late"), 0) == []
    assert member.step(ViewMessage("x", "v3", b"of a stranger"), 0) == []


def test_early_messages_of_an_attempt_that_failed_are_lost_with_it() -> None:
    member = pair()
    member.step(base("v3", "abc", "ab"), 0)
    member.step(ViewMessage("c", "v3", b"early"), 0)
    member.step(base("v4", "ab", "ab"), 0)
    member.step(AgreeToFlush(), 0)
    member.step(AgreementArrived("a", "v4", "a"), 0)

    assert member.step(AgreementArrived("b", "v4", "a"), 0) == [install("v4", "ab", "ab", "ab", whole=False)]


def test_the_signal_is_shown_once_with_those_who_are_left() -> None:
    member = pair()

    assert member.step(BaseClosing(frozenset("a")), 0) == [ShowClosing("v2", ("a",))]
    assert member.step(base("v3", "a", "a"), 0) == [AskToFlush("v2", ("a",))]
    assert member.step(BaseClosing(frozenset("a")), 0) == []


def test_nothing_is_installed_after_the_signal_of_an_attempt() -> None:
    member = alone()
    member.step(base("v2", "ab", "a"), 0)
    member.step(AgreeToFlush(), 0)
    member.step(AgreementArrived("a", "v2", "a"), 0)

    assert member.step(BaseClosing(frozenset("a")), 0) == [ShowClosing("v1", ("a",))]
    assert member.step(AgreementArrived("b", "v2", "b"), 0) == []
    assert member.step(base("v3", "a", "a"), 0) == [SendAgreement("v3", "a")]


def test_members_that_were_elsewhere_in_between_are_not_together_though_they_have_the_same_view() -> None:
    """Split and merged before any view was agreed on: both sides still have v2."""
    member = pair()
    member.step(base("v3", "a", "a"), 0)
    member.step(base("v4", "ab", "a"), 0)

    assert member.step(ViewMessage("b", "v2", b"of the other side"), 0) == []
    member.step(AgreeToFlush(), 0)
    member.step(AgreementArrived("a", "v4", "a"), 0)
    assert member.step(AgreementArrived("b", "v4", "b"), 0) == [install("v4", "ab", "a", "a", "b", whole=False)]


def test_a_late_member_is_left_behind_by_those_who_have_agreed() -> None:
    member = pair()
    member.step(base("v3", "abc", "ab"), 1_000)
    assert member.wake_at_us == NEVER  # It is late itself.
    member.step(AgreeToFlush(), 2_000)
    member.step(AgreementArrived("a", "v3", "a"), 3_000)
    member.step(AgreementArrived("c", "v3", "c"), 3_000)

    assert member.wake_at_us == 11_000
    assert member.step(Tick(), 10_999) == []
    assert member.step(Tick(), 11_000) == [SendExclusion("v3")]
    assert member.wake_at_us == NEVER
    assert member.step(ExclusionArrived("b", "v3"), 12_000) == []  # Of one who has not agreed.
    assert member.step(ExclusionArrived("a", "v2"), 12_000) == []  # Of an earlier attempt.
    assert member.step(ExclusionArrived("a", "v3"), 12_000) == [install("v3", "ac", "a", "a", "c", whole=False)]
    assert member.step(AgreementArrived("b", "v3", "a"), 12_000) == []


def test_the_late_member_gives_up_and_is_a_joiner_when_it_is_back() -> None:
    member = pair()
    member.step(base("v3", "abc", "ab"), 0)
    member.step(AgreementArrived("b", "v3", "a"), 0)

    assert member.step(ExclusionArrived("b", "v3"), 0) == [GiveUp("v2")]
    assert not member.may_send
    assert member.step(base("v4", "bc", "bc"), 0) == []
    assert member.step(base("v5", "abc", "a", joined_as="a"), 0) == [SendAgreement("v5", "a")]


def test_nobody_is_asked_when_the_excluded_member_leaves() -> None:
    member = pair()
    member.step(base("v3", "abc", "ab"), 0)
    member.step(AgreeToFlush(), 0)
    member.step(AgreementArrived("a", "v3", "a"), 0)
    member.step(AgreementArrived("c", "v3", "c"), 0)
    member.step(ExclusionArrived("a", "v3"), 0)

    assert member.step(base("v4", "ac", "ac"), 0) == []
    assert member.may_send
    assert member.step(ViewMessage("c", "v3", b"x"), 0) == [DeliverContent("c", b"x")]
    assert member.step(base("v5", "ac", "ac", primary=True), 0) == [AskToFlush("v3", ("a", "c"))]


def test_a_member_without_patience_waits_for_ever() -> None:
    member = FlushMember()
    member.step(base("v1", "ab", "a", joined_as="a"), 0)
    member.step(AgreementArrived("a", "v1", "a"), 0)

    assert member.wake_at_us == NEVER


def test_without_a_connection_there_is_no_view_and_nothing_to_agree_to() -> None:
    member = pair()
    member.step(base("v3", "abc", "ab"), 0)

    assert member.step(MemberDisconnected(), 0) == []
    assert not member.may_send
    assert member.step(ViewMessage("b", "v2", b"x"), 0) == []
    assert member.step(base("v7", "ab", "a", joined_as="a"), 0) == [SendAgreement("v7", "a")]


def test_more_early_messages_than_the_limit_are_lost() -> None:
    member = pair()
    member.step(base("v3", "abc", "ab"), 0)
    member.step(AgreeToFlush(), 0)
    for sender in "ab":
        member.step(AgreementArrived(sender, "v3", "a"), 0)
    for _ in range(HELD_MAX + 1):
        assert member.step(ViewMessage("c", "v3", b""), 0) == []

    assert len(member.step(AgreementArrived("c", "v3", "c"), 0)) == 1 + HELD_MAX


@pytest.mark.parametrize(
    ("service", "sent"),
    [
        (UNRELIABLE, UNRELIABLE),
        (RELIABLE, CAUSAL),
        (FIFO, CAUSAL),
        (CAUSAL, CAUSAL),
        (AGREED, AGREED),
        (SAFE, SAFE),
    ],
)
def test_all_but_unreliable_messages_have_a_place_in_the_order(service: Service, sent: Service) -> None:
    assert service_in_view(service) is sent
