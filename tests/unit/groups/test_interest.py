"""Interest in groups: it is announced before a join, and decides where bundles are sent."""

from tests.unit.groups.one_daemon import ALL, BLUE, FAR, ME, NEAR, RED, FedGroups, view_id

from hopring.engine import SubmitMessage
from hopring.groups.events import (
    Connect,
    Disconnect,
    GroupRequestRefused,
    JoinGroup,
    LeaveGroup,
    LeftGroup,
    RefusalReason,
    ShowView,
)
from hopring.groups.interest import IDLE_MAX, InterestTable, OwnInterest
from hopring.groups.messages import (
    GroupInterest,
    GroupJoin,
    GroupLeave,
    GroupsPart,
    decode_group_message,
    encode_group_message,
)
from hopring.groups.payloads import append_sender
from hopring.ids import NEVER, DaemonId, GroupName, SiteId, SiteMask
from hopring.links.events import Tick
from hopring.ordering.entry import DAEMON_SESSION, OrderedMessage, encode_message
from hopring.services import Service
from hopring.wire.bundle import BundleKey, encode_bundle

SITES = SiteMask(0b111)
A, B, C, D = (DaemonId(at) for at in range(4))
SITE_OF = {A: SiteId(0), B: SiteId(1), C: SiteId(1), D: SiteId(2)}


def table() -> InterestTable:
    one = InterestTable(A, SITE_OF, {"a": A, "b": B, "c": C, "d": D})
    one.agree([])
    return one


def mask(one: InterestTable, *groups: str) -> int:
    names = tuple([GroupName(name) for name in groups])
    bundle = append_sender(encode_bundle(BundleKey(A, 1, Service.AGREED, names), [b""], [0], [0]), "ann")
    return one.mask(encode_message(OrderedMessage(Service.AGREED, A, 1, bundle)), SITES)


def say(daemon: DaemonId, group_message: GroupInterest | GroupsPart) -> OrderedMessage:
    return OrderedMessage(Service.SAFE, daemon, DAEMON_SESSION, encode_group_message(group_message))


def group_messages(submits: list[SubmitMessage]) -> list[object]:
    return [decode_group_message(one.payload, one.service) for one in submits]


# The table.


def test_a_site_is_in_the_mask_if_any_of_its_daemons_is_interested_and_the_own_always() -> None:
    one = table()
    assert mask(one, "red") == 0b001
    one.heard(say(C, GroupInterest(1, ("red",))))
    assert mask(one, "red") == 0b011
    one.heard(say(D, GroupInterest(1, ("blue",))))
    assert mask(one, "red", "blue") == 0b111


def test_a_private_group_is_at_its_daemon_and_an_unknown_one_nowhere() -> None:
    one = table()

    assert mask(one, "#bob#d") == 0b101
    assert mask(one, "#bob#x") == mask(one, "#bob") == 0b001


def test_group_messages_go_to_all_sites() -> None:
    one = table()

    assert (
        one.mask(
            encode_message(OrderedMessage(Service.AGREED, A, 1, encode_group_message(GroupJoin("ann", "red")))),
            SITES,
        )
        == SITES
    )


def test_links_may_change_the_order_of_announcements() -> None:
    one = table()
    one.heard(say(B, GroupInterest(3, ("red",))))
    one.heard(say(B, GroupInterest(2, (), ("red",))))

    assert mask(one, "red") == 0b011

    one.heard(say(B, GroupInterest(4, (), ("red",))))
    one.heard(say(B, GroupInterest(1, ("red",))))
    assert mask(one, "red") == 0b001


def test_one_daemon_of_a_site_loses_interest_and_the_other_does_not() -> None:
    one = table()
    one.heard(say(B, GroupInterest(1, ("red",))))
    one.heard(say(C, GroupInterest(1, ("red",))))

    one.delivered(B, GroupInterest(2, (), ("red",)))

    assert mask(one, "red") == 0b011


def test_nothing_is_pruned_until_all_groups_are_complete() -> None:
    one = table()
    one.stop_pruning()
    assert mask(one, "red") == SITES

    one.agree([(FAR, 0, {RED})])

    assert mask(one, "red") == 0b011
    assert mask(one, "blue") == 0b001


def test_interest_announced_after_the_own_groups_were_sent_is_not_lost() -> None:
    one = table()
    one.stop_pruning()
    one.heard(say(C, GroupInterest(4, ("old",))))
    one.heard(say(C, GroupInterest(6, ("red",))))

    one.agree([(FAR, 5, {BLUE})])

    assert [mask(one, name) for name in ("red", "blue", "old")] == [0b011, 0b011, 0b001]


def test_daemons_that_are_gone_are_forgotten() -> None:
    one = table()
    one.heard(say(B, GroupInterest(1, ("red",))))
    one.heard(say(D, GroupInterest(1, ("red",))))

    one.keep({A, D})

    assert mask(one, "red") == 0b101


# The interest of the daemon itself.


def test_interest_is_announced_once_with_many_groups_in_one_message() -> None:
    own = OwnInterest(linger_us=10)
    own.want(RED)
    own.want(BLUE)
    own.want(RED)

    assert own.next_message() == GroupInterest(1, ("red", "blue"))
    assert own.next_message() is None


def test_interest_lasts_a_while_after_nobody_needs_it() -> None:
    own = OwnInterest(linger_us=10)
    own.want(RED)
    own.agree([RED])
    own.idle(RED, now_us=5)

    own.tick(14)
    assert own.next_message() is None
    own.tick(15)

    assert own.next_message() == GroupInterest(1, (), ("red",))
    assert not own.known


def test_interest_in_the_earliest_idle_group_ends_first() -> None:
    own = OwnInterest(linger_us=10)
    names = [GroupName(f"g{number}") for number in range(6)]
    own.agree(names)
    for now_us, name in enumerate(names):
        own.idle(name, now_us)
    own.want(names[0])
    own.idle(names[1], 7)  # It is idle already.
    own.idle(names[0], 8)

    assert own.wake_at_us == min(own.idle_at_us.values()) == 11
    own.tick(13)
    assert list(own.to_withdraw) == names[1:4]
    assert own.wake_at_us == 14
    own.tick(18)
    assert set(own.to_withdraw) == set(names)
    assert own.wake_at_us == NEVER


def test_a_rejoin_before_interest_has_ended_announces_nothing() -> None:
    own = OwnInterest(linger_us=10)
    own.want(RED)
    own.agree([RED])
    own.idle(RED, now_us=5)
    own.want(RED)

    own.tick(100)

    assert own.next_message() is None
    assert RED in own.known


# Both, at a daemon among several sites.


def test_the_first_join_is_announced_safe_and_sent_when_that_is_delivered() -> None:
    fed = FedGroups(*ALL)
    fed.step(Connect(1, "ann"))
    fed.step(JoinGroup(1, RED))

    (announcement,) = fed.taken()
    assert (announcement.service, announcement.session) == (Service.SAFE, DAEMON_SESSION)
    assert group_messages([announcement]) == [GroupInterest(1, ("red",))]
    fed.delivered(ME, [announcement])

    assert group_messages(fed.taken()) == [GroupJoin("ann", "red")]


def test_later_joins_of_the_group_need_no_announcement() -> None:
    fed = FedGroups(*ALL)
    fed.join(1, "ann", RED)
    fed.step(Connect(2, "bob"))
    fed.step(JoinGroup(2, RED))

    assert group_messages(fed.taken()) == [GroupJoin("bob", "red")]


def test_requests_of_a_session_wait_for_its_join_and_other_sessions_continue() -> None:
    fed = FedGroups(*ALL)
    fed.step(Connect(1, "ann"))
    fed.step(Connect(2, "bob"))
    fed.step(JoinGroup(1, RED))
    fed.send(1, Service.RELIABLE, "red")
    fed.send(2, Service.RELIABLE, "red")

    announcement, others = fed.taken()
    assert others.session == 2
    fed.delivered(ME, [announcement])

    assert [one.service for one in fed.taken()] == [Service.AGREED, Service.RELIABLE]


def test_a_leave_after_a_waiting_join_gives_two_events_in_order() -> None:
    fed = FedGroups(ME, NEAR, FAR)
    fed.step(Connect(1, "ann"))
    fed.step(JoinGroup(1, RED))
    fed.step(LeaveGroup(1, RED))
    assert fed.step(LeaveGroup(1, RED)) == [GroupRequestRefused(1, RefusalReason.NOT_A_MEMBER, RED)]
    fed.step(JoinGroup(1, RED))
    fed.step(LeaveGroup(1, RED))
    (announcement,) = fed.taken()
    fed.delivered(ME, [announcement])
    sent = fed.taken()
    assert group_messages(sent) == [GroupJoin("ann", RED), GroupLeave(RED)] * 2
    shown = [type(one) for one in fed.delivered(ME, sent)]

    assert shown == [ShowView, LeftGroup] * 2
    fed.step(Tick(), 1_000_000_000)
    assert group_messages(fed.taken()) == [GroupInterest(2, (), (RED,))]


def test_groups_contain_announcements_that_were_in_flight() -> None:
    fed = FedGroups(*ALL)
    fed.step(Connect(1, "ann"))
    fed.step(JoinGroup(1, RED))
    (announcement,) = fed.taken()
    fed.move((ME, NEAR), ALL, 3)

    submits = fed.taken()
    assert group_messages(submits) == [GroupsPart(view_id(3), 0, 1, 1, (), ("red",))]
    fed.delivered(ME, submits)
    for one in (NEAR, FAR):
        fed.deliver(one, DAEMON_SESSION, GroupsPart(view_id(3), 0, 1, 0))

    assert group_messages(fed.taken()) == [GroupJoin("ann", "red")]
    # The announcement that was never stamped comes late and changes nothing.
    assert fed.delivered(ME, [announcement]) == []
    assert fed.taken() == []


def test_an_announcement_that_is_delivered_after_the_signal_counts_if_nobody_new_comes() -> None:
    fed = FedGroups(*ALL)
    fed.step(Connect(1, "ann"))
    fed.step(JoinGroup(1, RED))
    submits = fed.taken()
    fed.signal((ME, FAR), 3)
    fed.delivered(ME, submits)
    assert fed.taken() == []

    fed.installed((ME, FAR), (ME, FAR), 3)
    fed.exchange(ME, FAR)

    assert group_messages(fed.taken()) == [GroupJoin("ann", "red")]


def test_the_last_leave_ends_the_interest_later_but_not_while_a_join_is_in_flight() -> None:
    fed = FedGroups(*ALL)
    fed.join(1, "ann", RED)
    fed.step(LeaveGroup(1, RED))
    fed.delivered(ME, fed.taken())
    assert fed.groups.wake_at_us == 100
    fed.step(JoinGroup(1, RED), now_us=50)
    fed.step(LeaveGroup(1, RED), now_us=60)

    fed.step(Tick(), now_us=200)
    submits = fed.taken()
    assert group_messages(submits) == [GroupJoin("ann", "red"), GroupLeave("red")]
    fed.delivered(ME, submits)
    fed.step(Tick(), now_us=300)

    assert group_messages(fed.taken()) == [GroupInterest(2, (), ("red",))]


def test_interest_of_a_withdrawn_join_ends() -> None:
    fed = FedGroups(*ALL)
    fed.step(Connect(1, "ann"))
    fed.step(JoinGroup(1, RED))
    announcement = fed.taken()
    fed.step(Disconnect(1), now_us=10)
    fed.delivered(ME, announcement)
    fed.taken()

    fed.step(Tick(), now_us=110)

    assert group_messages(fed.taken()) == [GroupInterest(2, (), ("red",))]


def test_interest_lingers_in_so_many_groups_and_the_oldest_is_withdrawn_first() -> None:
    own = OwnInterest(linger_us=1_000_000)
    names = [GroupName(f"g{at}") for at in range(IDLE_MAX + 2)]
    for at, name in enumerate(names):  # A client that joins and leaves another group each time.
        own.agree([name])
        own.idle(name, at)

    assert list(own.to_withdraw) == names[:2]
    assert len(own.idle_at_us) == IDLE_MAX
