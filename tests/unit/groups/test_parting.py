"""Members that left one view on different paths meet again: each side first sees a view of itself."""

from tests.unit.groups.ideal_daemons import IdealWorld
from tests.unit.groups.scripted_events import broken, members, receive, send, split, stamp

from hopring.groups.events import JoinGroup
from hopring.ids import GroupName


def test_members_before_and_after_a_rift_part() -> None:
    """Their last views differ, and their paths are the same."""
    world = IdealWorld([0, 0, 1, 1, 2])
    world.unite()
    *_, yan = members(world, "red", (0, "ann"), (1, "amy"), (4, "yan"))
    announced = []
    for at, name in ((2, "eve"), (3, "eva")):
        world.request(at, JoinGroup(world.connect(at, name), GroupName("red")))
        announced.append(stamp(world, at))
    hole = send(world, 4, yan, "red")
    for place in announced:
        receive(world, place, *range(5))
    receive(world, hole, 2, 3)
    for at in (2, 3):
        world.walk(world.hosts[at])
        stamp(world, at)
    world.crash(4)
    hosts = world.hosts
    split(world, hosts[:4])
    split(world, [hosts[1], hosts[3]])

    assert broken(world) == []


def test_two_sides_merge_and_part_before_the_exchange() -> None:
    """Different last views with the same step and the same path, without any rift."""
    world = IdealWorld([0, 0, 0, 0])
    hosts = world.hosts
    split(world, hosts[:2], hosts[2:])
    world.settle()
    for at, name in enumerate(["ann", "amy", "bob", "bea"]):
        members(world, "red", (at, name))
    split(world, hosts)
    split(world, [hosts[1], hosts[3]])

    assert broken(world) == []
