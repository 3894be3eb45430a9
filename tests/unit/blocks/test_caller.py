"""The caller's half of request and reply, with literal events."""

import pytest

from hopring.blocks.caller import (
    HANDLER_POLLS,
    POLL_US,
    AbandonCall,
    AcceptReply,
    AskServers,
    CallEnded,
    Caller,
    CallOutcome,
    CallPlaced,
    CallsInterrupted,
    CallsResumed,
    FenceReturned,
    Output,
    ReplyArrived,
    SendCall,
    SendFence,
    ServersKnown,
    StartCall,
)
from hopring.client.events import ALL, MAJORITY, Member, Quorum, Reply
from hopring.ids import NEVER, DaemonId, Incarnation, Place, ViewId
from hopring.links.events import Tick

PLACE = Place(ViewId(1, DaemonId(0), Incarnation(1)), 5, 0)
ANN, BOB, CAT = (Member("d1", name, 7, number) for number, name in enumerate(("ann", "bob", "cat"), 1))


def reply(who: Member, error: str = "", again: bool = False) -> Reply:
    return Reply(who.private_group, b"" if error else who.name.encode(), PLACE, again, error)


def placed(*servers: Member, serials: tuple[int, ...] = (1,), view: int = 1) -> CallPlaced:
    return CallPlaced(serials, servers, len(servers), view)


def names(*members: Member) -> tuple[str, ...]:
    return tuple([one.private_group for one in members])


def known(*members: Member, view: int = 1) -> ServersKnown:
    return ServersKnown("g", frozenset(members), view)


def started(wait: int | Quorum = 1, deadline_us: int = NEVER, patient: bool = False) -> Caller:
    caller = Caller()
    assert caller.step(StartCall(1, "g", wait, deadline_us, patient), 0) == [SendCall(1, 1)]
    return caller


def asked(caller: Caller, now_us: int) -> None:
    assert caller.step(Tick(), now_us) == [AskServers("g")]


def test_one_reply_ends_a_call_that_waits_for_one() -> None:
    caller = started()

    assert caller.step(placed(ANN, BOB), 10) == []
    assert caller.step(ReplyArrived(1, reply(BOB)), 20) == [
        AcceptReply(1, reply(BOB)),
        CallEnded(1, CallOutcome.ENOUGH, (), 2),
    ]
    assert caller.step(ReplyArrived(1, reply(ANN)), 30) == []
    assert caller == Caller()


def test_nobody_serves_the_group() -> None:
    assert started().step(placed(), 10) == [CallEnded(1, CallOutcome.NO_SERVERS)]


@pytest.mark.parametrize(("wait", "replies"), [(1, 1), (2, 2), (MAJORITY, 2), (ALL, 3)])
def test_how_many_replies_end_a_call(wait: int | Quorum, replies: int) -> None:
    caller = started(wait)
    caller.step(placed(ANN, BOB, CAT), 10)

    ends = [caller.step(ReplyArrived(1, reply(who)), 20)[1:] for who in (ANN, BOB, CAT)]
    assert ends == [[CallEnded(1, CallOutcome.ENOUGH, (), 3)] if at == replies else [] for at in (1, 2, 3)]


def test_more_replies_than_servers_are_missing_at_once() -> None:
    assert started(3).step(placed(ANN, BOB), 10) == [CallEnded(1, CallOutcome.MISSING, names(ANN, BOB), 2)]


def test_a_server_counts_once_and_others_do_not_count() -> None:
    caller = started(ALL)
    caller.step(placed(ANN, BOB), 10)

    assert caller.step(ReplyArrived(1, reply(ANN)), 20) == [AcceptReply(1, reply(ANN))]
    assert caller.step(ReplyArrived(1, reply(ANN, again=True)), 20) == []
    assert caller.step(ReplyArrived(1, reply(CAT)), 20) == []  # It did not get the request.
    assert caller.step(ReplyArrived(2, reply(BOB)), 20) == []  # No such call.
    assert caller.step(ReplyArrived(1, reply(BOB)), 20)[1:] == [CallEnded(1, CallOutcome.ENOUGH, (), 2)]


def test_a_reply_before_the_receipt_waits_for_it() -> None:
    caller = started(ALL)

    assert caller.step(ReplyArrived(1, reply(CAT)), 5) == []
    assert caller.step(ReplyArrived(1, reply(ANN)), 5) == []
    assert caller.step(placed(ANN), 10) == [
        AcceptReply(1, reply(ANN)),
        CallEnded(1, CallOutcome.ENOUGH, (), 1),
    ]


def test_a_failure_ends_a_call_only_if_too_few_others_are_left() -> None:
    caller = started(1)
    caller.step(placed(ANN, BOB), 10)

    assert caller.step(ReplyArrived(1, reply(ANN, "no")), 20) == [AcceptReply(1, reply(ANN, "no"))]
    assert caller.step(ReplyArrived(1, reply(BOB, "no")), 20)[1:] == [CallEnded(1, CallOutcome.FAILED, (), 2)]


def test_a_patient_call_takes_failures_and_ends_when_all_have_replied() -> None:
    caller = started(ALL, patient=True)
    caller.step(placed(ANN, BOB), 10)

    assert caller.step(ReplyArrived(1, reply(ANN, "no")), 20) == [AcceptReply(1, reply(ANN, "no"))]
    assert caller.step(ReplyArrived(1, reply(BOB)), 20)[1:] == [CallEnded(1, CallOutcome.ENOUGH, (), 2)]


def test_a_deadline_names_those_who_owe_a_reply() -> None:
    caller = started(ALL, deadline_us=1_000)
    caller.step(placed(ANN, BOB), 10)
    caller.step(ReplyArrived(1, reply(ANN)), 20)

    assert caller.wake_at_us == 1_000
    assert caller.step(Tick(), 999) == []
    assert caller.step(Tick(), 1_000) == [CallEnded(1, CallOutcome.TIMED_OUT, names(BOB), 2)]
    assert caller.wake_at_us == NEVER


def test_members_are_asked_for_while_a_call_waits_and_only_then() -> None:
    caller = started(ALL)
    assert caller.wake_at_us == NEVER
    caller.step(placed(ANN), 10)
    assert caller.wake_at_us == 10 + POLL_US
    asked(caller, 10 + POLL_US)
    assert caller.wake_at_us == NEVER  # Until the answer.
    assert caller.step(known(ANN), 400_000) == []
    assert caller.wake_at_us == 400_000 + POLL_US
    caller.step(ReplyArrived(1, reply(ANN)), 500_000)
    assert caller.wake_at_us == NEVER


def test_a_server_that_has_left_is_gone_only_after_a_fence() -> None:
    caller = started(ALL)
    caller.step(placed(ANN, BOB), 0)
    caller.step(ReplyArrived(1, reply(BOB)), 5)
    asked(caller, POLL_US)

    assert caller.step(known(BOB), POLL_US) == [SendFence(1)]
    assert caller.step(FenceReturned(1), POLL_US) == [CallEnded(1, CallOutcome.MISSING, names(ANN), 2)]


def test_a_reply_that_was_sent_before_the_leave_arrives_before_the_fence() -> None:
    caller = started(ALL)
    caller.step(placed(ANN), 0)
    asked(caller, POLL_US)

    assert caller.step(known(), POLL_US) == [SendFence(1)]
    assert caller.step(ReplyArrived(1, reply(ANN)), POLL_US)[1:] == [CallEnded(1, CallOutcome.ENOUGH, (), 1)]
    assert caller.step(FenceReturned(1), POLL_US) == []


def test_a_later_session_of_the_same_name_is_another_server() -> None:
    caller = started()
    caller.step(placed(ANN), 0)
    asked(caller, POLL_US)

    assert caller.step(known(Member("d1", "ann", 7, 99)), POLL_US) == [SendFence(1)]


def test_an_answer_says_nothing_about_calls_that_were_placed_after_the_question() -> None:
    caller = started()
    caller.step(placed(ANN), 0)
    asked(caller, POLL_US)
    caller.step(StartCall(2, "g", 1), POLL_US)
    caller.step(placed(BOB, serials=(2,)), POLL_US)

    assert caller.step(known(ANN), POLL_US) == []


def test_after_a_change_of_the_network_the_request_is_sent_again_to_those_who_are_left() -> None:
    caller = started(ALL)
    caller.step(placed(ANN, BOB), 0)
    asked(caller, POLL_US)

    assert caller.step(known(ANN, view=3), POLL_US) == [SendCall(1, 2), SendFence(1)]
    assert caller.step(placed(ANN, CAT, view=3), 300_000) == [SendFence(2)]
    assert caller.step(ReplyArrived(1, reply(ANN, again=True)), 300_000) == [
        AcceptReply(1, reply(ANN, again=True))
    ]
    assert caller.step(FenceReturned(1), 300_000) == [CallEnded(1, CallOutcome.MISSING, names(BOB, CAT), 3)]


def test_an_older_view_of_the_group_is_no_change() -> None:
    """A group keeps its view while the daemons' view changes elsewhere."""
    caller = started()
    caller.step(placed(ANN, view=5), 0)
    asked(caller, POLL_US)

    assert caller.step(known(ANN, view=2), POLL_US) == []


def test_after_a_lost_connection_all_open_requests_are_sent_again_in_their_order() -> None:
    caller = started(ALL)
    caller.step(StartCall(2, "h", 1), 0)
    caller.step(placed(ANN, BOB), 0)
    caller.step(ReplyArrived(1, reply(ANN)), 1)

    assert caller.step(CallsInterrupted(), 2) == []
    assert caller.wake_at_us == NEVER
    assert caller.step(StartCall(3, "g", 1), 3) == []
    assert caller.step(CallsResumed(), 4) == [SendCall(1, 2), SendCall(2, 2), SendCall(3, 1)]
    assert caller.step(placed(BOB, view=2), 5) == []
    assert caller.step(ReplyArrived(1, reply(BOB)), 6)[1:] == [CallEnded(1, CallOutcome.ENOUGH, (), 2)]


def test_a_server_that_is_gone_after_a_reconnection_is_missing() -> None:
    caller = started(ALL)
    caller.step(placed(ANN, BOB), 0)
    caller.step(CallsInterrupted(), 2)
    caller.step(CallsResumed(), 4)

    assert caller.step(placed(BOB, view=2), 5) == [SendFence(1)]
    assert caller.step(FenceReturned(1), 6) == [CallEnded(1, CallOutcome.MISSING, names(ANN, BOB), 2)]


def test_calls_sent_together_share_their_place_and_end_in_any_order() -> None:
    caller = started()
    for serial in (2, 3):
        caller.step(StartCall(serial, "g", 1), 0)
    caller.step(placed(ANN, serials=(1, 2, 3)), 1)

    def end(serial: int) -> list[Output]:
        return caller.step(ReplyArrived(serial, reply(ANN)), 2)[1:]

    assert caller.low == 1
    assert [end(serial) for serial in (3, 1, 2)] == [
        [CallEnded(serial, CallOutcome.ENOUGH, (), 1)] for serial in (3, 1, 2)
    ]


def test_an_abandoned_call_takes_nothing() -> None:
    caller = started()
    assert caller.step(AbandonCall(1), 1) == []
    assert caller.step(placed(ANN), 2) == []
    assert caller.step(ReplyArrived(1, reply(ANN)), 3) == []
    assert caller == Caller()


def test_servers_that_are_too_many_to_list_are_counted() -> None:
    caller = started(2)
    caller.step(CallPlaced((1,), None, 5_000, 1), 0)

    assert caller.step(ReplyArrived(1, reply(ANN)), 1) == [AcceptReply(1, reply(ANN))]
    assert caller.step(ReplyArrived(1, reply(BOB)), 1)[1:] == [CallEnded(1, CallOutcome.ENOUGH, (), 5_000)]


# Calls to a handler: one server answers, and the others are silent.


def for_handler(*servers: Member) -> Caller:
    caller = Caller()
    caller.step(StartCall(1, "g", 1, handler=True), 0)
    caller.step(placed(*servers), 0)
    return caller


def test_the_failure_of_the_holder_ends_the_call_though_others_are_there() -> None:
    caller = for_handler(ANN, BOB)

    assert caller.step(ReplyArrived(1, reply(ANN, "no")), 20)[1:] == [
        CallEnded(1, CallOutcome.FAILED, names(BOB), 2)
    ]


def test_a_request_to_a_handler_is_sent_again_at_once_when_a_server_is_gone() -> None:
    caller = for_handler(ANN, BOB)
    asked(caller, POLL_US)

    assert caller.step(known(BOB), POLL_US + 1) == [SendCall(1, 2), SendFence(1)]
    assert caller.step(placed(BOB), POLL_US + 2) == [SendFence(2)]
    assert caller.step(FenceReturned(1), POLL_US + 3) == []
    assert caller.step(ReplyArrived(1, reply(BOB)), POLL_US + 4)[1:] == [
        CallEnded(1, CallOutcome.ENOUGH, (), 2)
    ]


def test_a_request_to_a_handler_is_sent_again_now_and_then_while_nobody_answers() -> None:
    caller = for_handler(ANN, BOB)
    for at in range(1, HANDLER_POLLS + 1):
        asked(caller, at * POLL_US)
        again = [SendCall(1, 2)] if at == HANDLER_POLLS else []
        assert caller.step(known(ANN, BOB), at * POLL_US) == again


def test_a_call_to_a_handler_ends_when_all_its_servers_are_gone() -> None:
    caller = for_handler(ANN)
    asked(caller, POLL_US)

    assert caller.step(known(), POLL_US) == [SendFence(1)]
    assert caller.step(FenceReturned(1), POLL_US) == [CallEnded(1, CallOutcome.MISSING, names(ANN), 1)]
