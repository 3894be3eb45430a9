"""Steps of handwritten tests on ideal daemons."""

from tests.unit.groups.ideal_daemons import IdealDaemon, IdealWorld
from tests.unit.groups.judged_histories import judge

from hopring.groups.events import JoinGroup
from hopring.ids import GroupName
from hopring.services import Service


def stamp(world: IdealWorld, at: int) -> int:
    """The daemon stamps its waiting message; returns its position."""
    host = world.hosts[at]
    assert world.stamp(host)
    return len(host.view.log) - 1


def receive(world: IdealWorld, place: int, *daemons: int) -> None:
    for at in daemons:
        if place not in world.hosts[at].received:
            world.receive(world.hosts[at], place)


def members(world: IdealWorld, group: str, *clients: tuple[int, str]) -> list[int]:
    """Connects clients and joins them to a group, until every daemon knows it."""
    sessions = [world.connect(at, name) for at, name in clients]
    for (at, _), session in zip(clients, sessions, strict=True):
        world.request(at, JoinGroup(session, GroupName(group)))
    world.settle()
    return sessions


def send(world: IdealWorld, at: int, session: int, group: str, service: Service = Service.AGREED) -> int:
    world.send(at, session, service, (group,))
    return stamp(world, at)


def split(world: IdealWorld, *sides: list[IdealDaemon]) -> None:
    for side in sides:
        world.attempt(side, side)


def broken(world: IdealWorld) -> list[str]:
    """Violations after all daemons have merged."""
    world.unite()
    return judge(world.book, [host.groups for host in world.hosts])
