"""Scenarios that once broke a property, or nearly did: found by reading, run in the ideal world."""

from collections.abc import Callable, Mapping

import pytest
from tests.unit.groups.ideal_daemons import IdealWorld
from tests.unit.groups.scripted_events import broken, members, receive, send, split, stamp

from hopring.check.trace import GroupInstalled
from hopring.engine import Rift
from hopring.groups.events import Disconnect, JoinGroup, LeaveGroup
from hopring.groups.groups import Groups
from hopring.groups.names import GroupViewId
from hopring.groups.views import GroupViews, ViewNumbering
from hopring.ids import DaemonId, GroupName, SiteId, ViewId
from hopring.links.events import Tick
from hopring.services import Service

Story = Callable[[], IdealWorld]


def a_hole_and_a_group_that_loses_nobody() -> IdealWorld:
    """A daemon past the hole lets others continue.

    One of them is bound, drops out, and finds the body elsewhere.
    """
    world = IdealWorld([0, 0, 1, 2])
    world.unite()
    ann, _ = members(world, "red", (0, "ann"), (1, "ben"))
    hole = send(world, 3, world.connect(3, "sam"), "red")
    behind = send(world, 0, ann, "red")
    receive(world, hole, 2)
    receive(world, behind, 1, 2, 3)
    world.walk(world.hosts[2])
    hosts = world.hosts
    world.attempt(hosts[:3], [hosts[0], hosts[2]])
    split(world, [hosts[1], hosts[3]])
    return world


def fifo_behind_a_pruned_bundle() -> IdealWorld:
    """Where the bundle before it is pruned, it is delivered early; where that one is skipped, it never is."""
    world = IdealWorld([0, 1, 2])
    world.unite()
    (ann,) = members(world, "one", (0, "ann"))
    world.request(0, JoinGroup(ann, GroupName("two")))
    _, sam = members(world, "two", (1, "ben"), (2, "sam"))
    send(world, 2, world.connect(2, "tom"), "two")  # Lost.
    for place in (send(world, 2, sam, "one"), send(world, 2, sam, "two", Service.FIFO)):
        receive(world, place, 0, 1)
    world.crash(2)
    split(world, world.hosts[:2])
    return world


def a_known_hole_above_what_was_delivered() -> IdealWorld:
    """Like the first, in one site, with the hole after the daemons' signal."""
    world = IdealWorld([0, 0, 0])
    world.unite()
    ann, _ = members(world, "red", (0, "ann"), (1, "ben"))
    sam = world.connect(2, "sam")
    send(world, 2, sam, "red")  # Lost.
    after = send(world, 2, sam, "other")
    behind = send(world, 0, ann, "red")
    receive(world, after, 0)
    receive(world, behind, 1, 2)
    hosts = world.hosts
    world.attempt(hosts[:2], hosts[:1])
    split(world, hosts[1:])
    return world


def a_lost_join() -> IdealWorld:
    """Daemons without the join believe that the group loses nobody, and give no signal before what follows."""
    world = IdealWorld([0, 0, 0])
    world.unite()
    ann, _ = members(world, "red", (0, "ann"), (1, "ben"))
    world.request(2, JoinGroup(world.connect(2, "eve"), GroupName("red")))
    stamp(world, 2)
    receive(world, send(world, 0, ann, "red"), 1, 2)
    world.walk(world.hosts[2])
    split(world, world.hosts[:2], world.hosts[2:])
    return world


def a_line_beyond_what_was_known() -> IdealWorld:
    """A daemon that is bound without knowing of any hole takes all that it hears of later as promised."""
    world = IdealWorld([0, 0, 0, 0])
    world.unite()
    members(world, "red", (0, "ann"), (1, "ben"))
    eve = world.connect(2, "eve")
    world.request(2, JoinGroup(eve, GroupName("red")))
    stamp(world, 2)  # Lost.
    world.walk(world.hosts[2])
    receive(world, send(world, 2, eve, "red"), 0)
    hosts = world.hosts
    world.attempt([hosts[1], hosts[3]], [])
    split(world, hosts[:2], hosts[2:3])
    return world


def a_group_that_some_do_not_know_to_be_closed() -> IdealWorld:
    """After the signal a message closes the group where it is delivered, two leave, and a third site joins."""
    world = IdealWorld([0, 0, 1, 2])
    world.unite()
    ann, ben = members(world, "red", (0, "ann"), (1, "ben"))
    members(world, "blue", (2, "joe"), (3, "sam"))
    eve, fay = world.connect(2, "eve"), world.connect(0, "fay")
    # The first join of a group at a daemon is announced; that of another session there is complete by then.
    for at, session in ((2, eve), (0, fay)):
        world.request(at, JoinGroup(session, GroupName("red")))
        world.settle()
        world.request(at, LeaveGroup(session, GroupName("red")))
    world.settle()
    lost = world.connect(3, "tom")
    world.request(3, JoinGroup(lost, GroupName("blue")))
    stamp(world, 3)
    behind = [send(world, 0, ann, "red")]
    for at, event in (
        (0, LeaveGroup(ann, GroupName("red"))),
        (1, LeaveGroup(ben, GroupName("red"))),
        (2, JoinGroup(eve, GroupName("red"))),
        (0, JoinGroup(fay, GroupName("red"))),
    ):
        world.request(at, event)
        behind.append(stamp(world, at))
    for place in behind:
        receive(world, place, 0, 1, 2)
    split(world, world.hosts[:3])
    return world


def an_end_behind_the_signal() -> IdealWorld:
    """A daemon past the leave sends in the view that it caused.

    After the signal there must be such a view too.
    """
    world = IdealWorld([0, 1])
    world.unite()
    _, bob, eve = members(world, "red", (0, "ann"), (0, "bob"), (1, "eve"))
    world.request(0, Disconnect(bob))
    receive(world, stamp(world, 0), 1)
    world.walk(world.hosts[1])
    receive(world, send(world, 1, eve, "red"), 0)
    split(world, world.hosts[:1], world.hosts[1:])
    return world


def a_leave_behind_a_rift() -> IdealWorld:
    """The same where the group closed before the daemons' signal."""
    world = IdealWorld([0, 0, 1, 2])
    world.unite()
    _, bob, eve = members(world, "red", (0, "ann"), (0, "bob"), (1, "eve"))
    send(world, 3, world.connect(3, "sam"), "red")  # Lost to the daemons that it is for.
    world.request(0, LeaveGroup(bob, GroupName("red")))
    places = [len(world.hosts[0].view.log) - 1, stamp(world, 0)]
    receive(world, places[0], 1, 2)
    receive(world, places[1], 1, 2)
    world.walk(world.hosts[1])
    sent = send(world, 1, eve, "red")
    receive(world, sent, 0, 2)
    world.walk(world.hosts[2])
    hosts = world.hosts
    split(world, [hosts[0], hosts[2]], [hosts[1]])
    return world


def a_view_that_a_member_never_installs() -> IdealWorld:
    """A group that loses nobody continues in it, while a daemon that dropped out delivers in the old view."""
    world = IdealWorld([0, 0, 0])
    world.unite()
    ann, _ = members(world, "red", (0, "ann"), (1, "ben"))
    send(world, 2, world.connect(2, "sam"), "red")
    hosts = world.hosts
    world.attempt(hosts[:2], hosts[:1])
    world.send(0, ann, Service.AGREED, ("red",))
    while world.stamp(hosts[0]):
        world.walk(hosts[0])
    split(world, hosts[1:])
    return world


def a_rift_after_a_view_that_not_all_know_to_be_closed() -> IdealWorld:
    """A view of one side has one id, although daemons know different ids of the last view."""
    world = IdealWorld([0, 1, 2, 3])
    world.unite()
    (ann,) = members(world, "red", (0, "ann"))
    members(world, "blue", (1, "bob"))
    send(world, 0, ann, "red")
    split(world, world.hosts)
    world.settle()
    eve = world.connect(1, "eve")
    world.request(1, JoinGroup(eve, GroupName("red")))
    interest = stamp(world, 1)
    receive(world, interest, 0, 1, 2, 3)
    for host in world.hosts:
        world.walk(host)
    world.send(3, world.connect(3, "sam"), Service.AGREED, ("red", "blue"))
    lost = stamp(world, 3)
    join = stamp(world, 1)
    receive(world, lost, 2)
    receive(world, join, 0, 2)
    world.walk(world.hosts[2])
    split(world, world.hosts[:3], world.hosts[3:])
    return world


def a_lost_join_that_nobody_knows_of() -> IdealWorld:
    """A daemon past the join sends in a view that those after the signal never have."""
    world = IdealWorld([0, 0, 0])
    world.unite()
    ann, _ = members(world, "red", (0, "ann"), (1, "ben"))
    world.request(2, JoinGroup(world.connect(2, "eve"), GroupName("red")))
    receive(world, stamp(world, 2), 0)
    world.walk(world.hosts[0])
    receive(world, send(world, 0, ann, "red"), 1)
    split(world, world.hosts[1:2])
    return world


def a_join_from_where_the_view_is_not_known_to_be_closed() -> IdealWorld:
    """After the signal a message closes the group where it is delivered.

    Later a client joins from elsewhere.
    """
    world = IdealWorld([0, 1, 2])
    world.unite()
    (ann,) = members(world, "red", (0, "ann"))
    for _ in range(3):  # Its ids have been counting for a while.
        (eve,) = members(world, "red", (1, "eve"))
        world.request(1, Disconnect(eve))
        world.settle()
    world.now_us += 100
    for host in world.hosts:
        host.groups.step(Tick(), world.now_us)
    world.settle()
    send(world, 0, ann, "red")
    split(world, world.hosts[:2])
    world.settle()
    members(world, "red", (1, "eve"))
    world.send(0, ann, Service.AGREED, ("red",))
    world.settle()
    return world


STORIES: list[Story] = [
    a_join_from_where_the_view_is_not_known_to_be_closed,
    a_view_that_a_member_never_installs,
    a_rift_after_a_view_that_not_all_know_to_be_closed,
    a_lost_join_that_nobody_knows_of,
    an_end_behind_the_signal,
    a_leave_behind_a_rift,
    a_hole_and_a_group_that_loses_nobody,
    fifo_behind_a_pruned_bundle,
    a_known_hole_above_what_was_delivered,
    a_lost_join,
    a_line_beyond_what_was_known,
    a_group_that_some_do_not_know_to_be_closed,
]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: str(story.__name__))
def test_a_scenario_keeps_every_property(story: Story) -> None:
    assert broken(story()) == []


def test_a_view_of_one_side_has_one_id() -> None:
    world = a_rift_after_a_view_that_not_all_know_to_be_closed()

    shown = {
        event.view
        for event in world.book.history
        if isinstance(event, GroupInstalled) and event.group == "red" and len(event.members) == 2
    }
    assert len(shown) == 1


# Each rule that one of the scenarios led to, removed again.


def no_signal_behind_the_signal(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupViews, "close_addressed", lambda *_: None)


def only_losers_close_at_a_hole(patch: pytest.MonkeyPatch) -> None:
    close_early = GroupViews.close_early

    def as_if_safe(self: GroupViews, rift: Rift, site_of: Mapping[DaemonId, SiteId]) -> None:
        close_early(self, rift.replace(lost=False), site_of)

    patch.setattr(GroupViews, "close_early", as_if_safe)


def nobody_is_waited_for(patch: pytest.MonkeyPatch) -> None:
    gather = Groups._gather

    def at_once(self: Groups, view: ViewId, alike: bool) -> None:
        if not alike:
            gather(self, view, alike)
            return
        self.views.begin_unchanged(view, primary=False)
        self._resume()

    patch.setattr(Groups, "_gather", at_once)


def ids_count_what_not_all_know(patch: pytest.MonkeyPatch) -> None:
    def step(_self: ViewNumbering, last: GroupViewId | None) -> int:
        return 0 if last is None else last.step

    patch.setattr(ViewNumbering, "_step", step)


@pytest.mark.interpreted
@pytest.mark.parametrize(
    ("story", "plant"),
    [
        (a_known_hole_above_what_was_delivered, no_signal_behind_the_signal),
        (a_lost_join, no_signal_behind_the_signal),
        (a_hole_and_a_group_that_loses_nobody, only_losers_close_at_a_hole),
        (a_view_that_a_member_never_installs, nobody_is_waited_for),
        (a_join_from_where_the_view_is_not_known_to_be_closed, ids_count_what_not_all_know),
    ],
    ids=lambda one: str(one.__name__),
)
def test_without_its_rule_the_scenario_breaks_a_property(
    story: Story, plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    assert broken(story()) != []
