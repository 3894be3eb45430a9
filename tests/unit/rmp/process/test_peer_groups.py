"""Sessions of processes without daemons: views, messages, receipts, private groups, refusals, ends."""

import pytest
from tests.unit.rmp.process.peer_world import TRADES, PeerWorld

from hopring.groups.events import (
    Cause,
    ClaimLock,
    Connect,
    DeliverBundle,
    Disconnect,
    GroupRequestRefused,
    JoinGroup,
    LeaveGroup,
    LeftGroup,
    LockEnded,
    LockGranted,
    OwnDelivered,
    RefusalReason,
    RequestDenied,
    SessionConnected,
    SessionGone,
    ShowView,
)
from hopring.groups.locks import LockEnd
from hopring.groups.names import GroupMember
from hopring.ids import GroupName
from hopring.ordering.holders import MAJORITY
from hopring.rmp.process.bundles import BUNDLE_BYTES_MAX, MESSAGE_BYTES_MAX
from hopring.rmp.process.group import IN_DOUBT, NOT_PRIMARY, SUSPENDED, PeerTerms
from hopring.rmp.process.groups import NOT_OFFERED
from hopring.rmp.process.numbers import SESSION
from hopring.services import Service
from hopring.wire.rmp.lists import MINIMUM_MAJORITY


def bodies(events: list[DeliverBundle]) -> list[bytes]:
    return [bytes(one) for event in events for one in event.bundle.messages()]


def test_a_session_is_named_by_the_address_of_its_process() -> None:
    anna = PeerWorld().add("anna")

    assert anna.told == [SessionConnected(SESSION, GroupName("#anna#127.0.0.1:5000"))]


def test_a_process_has_one_session() -> None:
    anna = PeerWorld().add("anna")
    anna.step(Connect(2, "bert"))

    assert anna.told[-1] == GroupRequestRefused(2, RefusalReason.NAME_IN_USE, "bert")


def test_the_first_view_of_a_joiner_is_its_join_and_others_see_the_same_members() -> None:
    anna, bert = PeerWorld().joined("anna", "bert")

    first, second = anna.all(ShowView)
    (joined,) = bert.all(ShowView)
    assert (first.view.cause, first.view.who.name) == (Cause.JOIN, "anna")
    assert (joined.view.cause, joined.view.who.name, joined.view.who.session) == (Cause.JOIN, "bert", SESSION)
    assert [one.name for one in joined.view.together] == ["bert"]
    assert [one.name for one in second.view.together] == ["anna"]
    assert joined.view.id == second.view.id
    names = [
        [node.groups.names[one.daemon] for one in seen.view.members]
        for node, seen in ((anna, second), (bert, joined))
    ]
    assert names == [["127.0.0.1:5000", "127.0.0.1:5001"]] * 2


def test_messages_of_all_are_in_one_order_and_have_the_same_places() -> None:
    world = PeerWorld()
    nodes = world.joined("anna", "bert", "carl")
    for turn in range(5):
        for node in nodes:
            node.send(f"{node.name} {turn}".encode())
    world.run_until(lambda: all(len(bodies(node.all(DeliverBundle))) == 15 for node in nodes))

    orders = [bodies(node.all(DeliverBundle)) for node in nodes]
    places = [[(one.view, one.position) for one in node.all(DeliverBundle)] for node in nodes]
    assert orders[0] == orders[1] == orders[2]
    assert places[0] == places[1] == places[2]
    assert nodes[0].all(DeliverBundle)[0].sender in {node.private for node in nodes}


def test_a_sender_that_has_not_joined_is_in_no_view_and_its_receipt_counts_the_members() -> None:
    world = PeerWorld()
    anna, bert = world.joined("anna", "bert")
    carl = world.add("carl")
    carl.send(b"from outside", ticket=7)
    world.run_until(lambda: bool(carl.all(OwnDelivered)))
    world.run(100_000)

    assert bodies(anna.all(DeliverBundle)) == bodies(bert.all(DeliverBundle)) == [b"from outside"]
    assert anna.all(DeliverBundle)[0].sender == "#carl#127.0.0.1:5002"
    assert anna.views()[-1] == bert.views()[-1] == ("anna", "bert")
    assert carl.all(DeliverBundle) == carl.all(ShowView) == []
    assert {one.name for one in carl.groups.table.groups[TRADES].members} == {"anna", "bert"}


def test_who_only_sends_leaves_the_ring_after_a_while() -> None:
    world = PeerWorld()
    (anna,) = world.joined("anna")
    carl = world.add("carl")
    carl.send(b"once")
    world.run_until(lambda: bool(anna.all(DeliverBundle)))
    ring = anna.groups.by_name[TRADES]
    assert ring.list is not None
    assert len(ring.list) == 2

    world.run_until(lambda: ring.list is not None and len(ring.list) == 1)
    assert anna.views() == [("anna",)]


def test_a_sender_that_joins_later_is_a_member_like_others() -> None:
    world = PeerWorld()
    (anna,) = world.joined("anna")
    carl = world.add("carl")
    carl.send(b"before")
    world.run_until(lambda: bool(anna.all(DeliverBundle)))
    carl.join()
    world.run_until(lambda: bool(carl.views()))

    assert set(carl.views()[-1]) == {"anna", "carl"}
    world.run_until(lambda: len(anna.views()[-1]) == 2)


def test_private_messages_go_through_a_common_group() -> None:
    world = PeerWorld()
    anna, bert, carl = world.joined("anna", "bert", "carl")
    anna.send(b"for bert", groups=(bert.private,), ticket=3)
    world.run_until(lambda: bool(bert.all(DeliverBundle)) and bool(anna.all(OwnDelivered)))

    assert bodies(bert.all(DeliverBundle)) == [b"for bert"]
    assert carl.all(DeliverBundle) == anna.all(DeliverBundle) == []
    holder = anna.groups.private_holder(GroupName(bert.private))
    assert isinstance(holder, GroupMember)
    assert (holder.name, anna.groups.names[holder.daemon]) == ("bert", "127.0.0.1:5001")
    assert anna.groups.private_holder(GroupName("#bert#127.0.0.1:5002")) is None


def test_a_private_message_to_oneself_arrives() -> None:
    world = PeerWorld()
    anna, _ = world.joined("anna", "bert")
    anna.send(b"note", groups=(anna.private,))
    world.run_until(lambda: bool(anna.all(DeliverBundle)))

    assert bodies(anna.all(DeliverBundle)) == [b"note"]


def test_what_rings_cannot_offer_is_refused_with_a_remedy() -> None:
    world = PeerWorld()
    (anna,) = world.joined("anna")
    bert = world.add("bert")
    anna.send(b"x", groups=("trades", "quotes"), ticket=5)
    anna.send(b"x", groups=(bert.private,), ticket=6)

    several, private = anna.all(RequestDenied)
    assert (several.name, several.tickets, several.request) == ("trades", (5,), "send")
    assert several.reason.startswith(NOT_OFFERED)
    assert "trades quotes" in several.reason
    assert private.reason.startswith(NOT_OFFERED)
    assert private.tickets == (6,)
    assert all("hop://" in one.remedy for one in (several, private))


def test_a_mixed_bundle_goes_to_each_of_its_groups() -> None:
    world = PeerWorld()
    anna, bert = world.joined("anna", "bert")
    quotes = GroupName("quotes")
    bert.join(quotes)
    world.run_until(lambda: len(bert.all(ShowView)) == 2)
    anna.send(b"1", b"2", b"3", groups=("trades", "quotes"), indexes=[0, 1, 0])
    world.run_until(lambda: len(bodies(bert.all(DeliverBundle))) == 3)

    got = {one.bundle.key.groups: bodies([one]) for one in bert.all(DeliverBundle)}
    assert got == {("trades",): [b"1", b"3"], ("quotes",): [b"2"]}
    assert bodies(anna.all(DeliverBundle)) == [b"1", b"3"]


def test_a_bundle_that_is_too_long_for_a_packet_is_cut() -> None:
    world = PeerWorld()
    anna, bert = world.joined("anna", "bert")
    long = [bytes([at]) * 20_000 for at in range(5)]
    anna.send(*long)
    anna.send(b"w" * MESSAGE_BYTES_MAX)
    world.run_until(lambda: len(bodies(bert.all(DeliverBundle))) == 6)

    assert bodies(bert.all(DeliverBundle))[:5] == long
    assert all(len(one.bundle.whole) <= BUNDLE_BYTES_MAX for one in bert.all(DeliverBundle))


def test_a_majority_message_without_a_primary_list_is_refused() -> None:
    world = PeerWorld()
    anna, bert = world.joined("anna", "bert")
    anna.send(b"x", resilience=MAJORITY, ticket=9)
    world.run(50_000)

    (denied,) = anna.all(RequestDenied)
    assert (denied.reason, denied.tickets) == (NOT_PRIMARY, (9,))
    assert bert.all(DeliverBundle) == []
    assert not anna.groups.is_primary(TRADES)
    assert not anna.groups.is_primary(None)


def test_a_message_whose_time_has_ended_is_not_sent() -> None:
    world = PeerWorld()
    anna, bert = world.joined("anna", "bert")
    anna.send(b"late", deadline_us=world.now_us)
    anna.send(b"in time", deadline_us=world.now_us + 1_000)
    world.run_until(lambda: bool(bert.all(DeliverBundle)))

    assert anna.groups.has_dropped
    assert len(anna.groups.take_expired()) == 1
    assert not anna.groups.has_dropped
    assert bodies(bert.all(DeliverBundle)) == [b"in time"]


def test_a_leave_comes_behind_everything_that_was_sent() -> None:
    world = PeerWorld()
    anna, bert = world.joined("anna", "bert")
    for number in range(20):
        bert.send(str(number).encode())
    bert.step(LeaveGroup(SESSION, TRADES))
    world.run_until(lambda: bool(bert.all(LeftGroup)))
    world.run_until(lambda: anna.views()[-1] == ("anna",))

    last = anna.told.index(anna.all(ShowView)[-1])
    delivered = [at for at, one in enumerate(anna.told) if isinstance(one, DeliverBundle)]
    assert bodies(anna.all(DeliverBundle)) == [str(number).encode() for number in range(20)]
    assert max(delivered) < last
    assert anna.all(ShowView)[-1].view.cause is Cause.LEAVE
    assert anna.all(ShowView)[-1].view.who.name == "bert"
    assert TRADES not in bert.groups.table.groups


def test_a_session_ends_when_it_has_left_and_its_process_serves_others_a_while() -> None:
    world = PeerWorld()
    anna, bert = world.joined("anna", "bert")
    bert.send(b"last")
    bert.step(Disconnect(SESSION))
    world.run_until(lambda: bool(bert.all(SessionGone)))

    assert bodies(anna.all(DeliverBundle)) == [b"last"]
    world.run_until(lambda: bert.groups.over)
    assert bert.groups.joins == 0
    assert not bert.groups.has_session("bert")


def test_joins_and_leaves_that_make_no_sense_are_refused() -> None:
    world = PeerWorld()
    (anna,) = world.joined("anna")
    anna.step(JoinGroup(SESSION, TRADES))
    anna.step(JoinGroup(SESSION, GroupName("#private#x")))
    anna.step(LeaveGroup(SESSION, GroupName("quotes")))
    anna.step(ClaimLock(SESSION, GroupName("quotes"), "1", 4))

    reasons = [one.refusal for one in anna.all(GroupRequestRefused)]
    assert reasons == [RefusalReason.ALREADY_MEMBER, RefusalReason.ILLEGAL_GROUP, RefusalReason.NOT_A_MEMBER]
    assert [(one.serial, one.end) for one in anna.all(LockEnded)] == [(4, LockEnd.NOT_A_MEMBER)]


def test_requests_wait_while_a_ring_is_full_and_nothing_is_lost() -> None:
    world = PeerWorld()
    anna, bert = world.joined("anna", "bert")
    for number in range(400):
        anna.send(number.to_bytes(2, "big") * 2_000, service=Service.FIFO if number % 2 else Service.AGREED)
    assert anna.groups.queued_bytes(SESSION) > 0
    assert not anna.groups.idle
    world.run_until(lambda: len(bodies(bert.all(DeliverBundle))) == 400, for_us=60_000_000)

    assert sorted([int.from_bytes(one[:2], "big") for one in bodies(bert.all(DeliverBundle))]) == list(
        range(400)
    )
    assert anna.groups.queued_bytes(SESSION) == 0
    assert not any(one.reason == IN_DOUBT for one in anna.all(RequestDenied))


@pytest.mark.parametrize("service", [Service.UNRELIABLE, Service.RELIABLE, Service.FIFO, Service.SAFE])
def test_each_service_is_delivered_to_the_sender_too(service: Service) -> None:
    world = PeerWorld()
    anna, bert = world.joined("anna", "bert")
    anna.send(b"one", service=service, ticket=2)
    world.run_until(lambda: bool(bert.all(DeliverBundle)) and bool(anna.all(OwnDelivered)))

    assert bodies(anna.all(DeliverBundle)) == bodies(bert.all(DeliverBundle)) == [b"one"]
    world.run(1_000_000)
    assert anna.groups.idle


def test_the_last_member_leaves_an_empty_ring_and_can_found_another() -> None:
    world = PeerWorld()
    (anna,) = world.joined("anna")
    anna.step(LeaveGroup(SESSION, TRADES))
    world.run_until(lambda: bool(anna.all(LeftGroup)))
    anna.join()
    world.run_until(lambda: len(anna.views()) == 2)

    assert anna.views() == [("anna",), ("anna",)]
    first, second = [one.view.id for one in anna.all(ShowView)]
    assert first < second


def test_a_ring_with_a_quorum_is_founded_only_if_that_is_said() -> None:
    world = PeerWorld()
    anna = world.add("anna")
    anna.step(JoinGroup(SESSION, TRADES, MINIMUM_MAJORITY))
    world.run_until(lambda: bool(anna.all(RequestDenied)))
    bert = world.add("bert", PeerTerms(found=True))
    bert.step(JoinGroup(SESSION, TRADES, MINIMUM_MAJORITY))
    world.run_until(lambda: bool(bert.views()))
    anna.step(JoinGroup(SESSION, TRADES, MINIMUM_MAJORITY))
    world.run_until(lambda: bool(anna.views()))

    (denied,) = anna.all(RequestDenied)
    assert (denied.request, denied.name) == ("join", TRADES)
    assert "found=yes" in denied.remedy
    (joined,) = anna.all(ShowView)
    assert (joined.view.primary, joined.view.minimum) == (True, MINIMUM_MAJORITY)
    assert anna.groups.table.groups[TRADES].minimum_in_force == MINIMUM_MAJORITY
    anna.send(b"x", resilience=MAJORITY)
    world.run_until(lambda: bool(bert.all(DeliverBundle)))


def test_the_minimum_of_a_join_counts_before_that_of_the_url() -> None:
    world = PeerWorld()
    anna = world.add("anna", PeerTerms(minimum=1))
    anna.step(JoinGroup(SESSION, TRADES, 2))
    world.run_until(lambda: bool(anna.views()))

    assert anna.all(ShowView)[0].view.minimum == 2


def test_a_group_below_its_minimum_is_suspended_and_messages_wait_until_enough_have_joined() -> None:
    world = PeerWorld()
    anna, bert = world.add("anna"), world.add("bert")
    anna.step(JoinGroup(SESSION, TRADES, 2))
    world.run_until(lambda: bool(anna.views()))
    anna.send(b"waits", ticket=7)
    world.run(300_000)

    assert [(one.view.suspended, one.view.minimum) for one in anna.all(ShowView)] == [(True, 2)]
    assert anna.groups.table.groups[TRADES].suspended
    assert not anna.all(DeliverBundle)

    bert.join()
    world.run_until(lambda: bool(bert.all(DeliverBundle)))
    assert [one.view.suspended for one in anna.all(ShowView)] == [True, False]
    assert bodies(bert.all(DeliverBundle)) == [b"waits"]


def test_a_message_that_is_ordered_behind_the_leave_that_suspends_its_group_is_delivered_nowhere() -> None:
    world = PeerWorld()
    anna, bert = world.add("anna"), world.add("bert")
    for node in (anna, bert):
        node.step(JoinGroup(SESSION, TRADES, 2))
        world.run_until(lambda node=node: bool(node.views()))  # type: ignore[misc]
    world.run_until(lambda: len(anna.views()) == 2)
    bert.step(LeaveGroup(SESSION, TRADES))
    count = 0
    while len(anna.views()) < 3:
        count += 1
        anna.send(b"%d" % count, ticket=count)
        world.run(20)
    anna.step(LeaveGroup(SESSION, TRADES))
    world.run_until(lambda: bool(anna.all(LeftGroup)))

    assert [one.view.suspended for one in anna.all(ShowView)][-2:] == [False, True]
    last_view = anna.told.index(anna.all(ShowView)[-1])
    assert not [one for one in anna.told[last_view:] if isinstance(one, DeliverBundle)]
    told = [one.reason for one in anna.all(RequestDenied)]
    refused = anna.groups.take_refused()
    assert told
    assert set(told) == {SUSPENDED}
    assert len(told) + len(refused) + len(anna.all(OwnDelivered)) == count


def test_fences_of_a_founded_group_begin_at_the_wall_clock_of_its_driver() -> None:
    world = PeerWorld()
    anna = world.add("anna", PeerTerms(minimum=MINIMUM_MAJORITY, found=True, wall_ms=lambda: 1_700_000_000_000))
    anna.join()
    world.run_until(lambda: bool(anna.views()))
    anna.step(ClaimLock(SESSION, TRADES, "row", 1))
    world.run_until(lambda: bool(anna.all(LockGranted)))

    (granted,) = anna.all(LockGranted)
    assert 0 <= granted.fence.number - (1_700_000_000_000 << 20) < 100
