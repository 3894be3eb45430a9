"""Random runs on ideal daemons: clients come and go, daemons split, merge, crash and drop out of attempts."""

from random import Random

from tests.unit.groups.ideal_daemons import IdealWorld
from tests.unit.groups.judged_histories import judge

from hopring.groups.events import Disconnect, JoinGroup, LeaveGroup
from hopring.ids import GroupName
from hopring.links.events import Tick
from hopring.services import Service

GROUPS = ("red", "green", "blue")
SPARSE = ("a", "b", "c", "d", "e")  # With this many sites, most of them want few groups.
SERVICES = (Service.RELIABLE, Service.FIFO, Service.CAUSAL, Service.AGREED, Service.SAFE)

FAST = 0.3


def play(seed: int, steps: int = 300) -> list[str]:
    """Violations in the random run of this seed."""
    rng = Random(seed)
    sites = rng.choice([[0, 0, 0], [0, 0, 1], [0, 1, 2], [0, 0, 1, 1], [0, 1, 1, 2, 2]])
    return _play(seed, rng, sites, GROUPS, steps)


def play_sparse(seed: int, steps: int = 300) -> list[str]:
    """The same with much pruning and one fast daemon, which goes past messages that others lack."""
    rng = Random(seed)
    sites = rng.choice([[0, 1, 2], [0, 0, 1, 2], [0, 1, 2, 3], [0, 1, 1, 2, 2]])
    return _play(seed, rng, sites, SPARSE, steps, fast=rng.randrange(len(sites)))


def _play(
    seed: int, rng: Random, sites: list[int], groups: tuple[str, ...], steps: int, fast: int | None = None
) -> list[str]:
    world = IdealWorld(sites, seed)
    changes = rng.choice([0.01, 0.04, 0.1, 0.2])
    world.unite()
    for at in range(len(sites)):
        for name in "ab":
            session = world.connect(at, name)
            for group in rng.sample(groups, rng.randint(0, 2)):
                world.request(at, JoinGroup(session, GroupName(group)))
    if rng.random() < 0.5:
        world.settle()
    for _ in range(steps):
        world.now_us += rng.randint(0, 1)
        if rng.random() < changes:
            change(world, rng)
        elif rng.random() < 0.35:
            ask(world, rng, groups)
        else:
            move(world, rng)
        if fast is not None and rng.random() < FAST:
            _hurry(world, fast)
    world.unite()
    return judge(world.book, [host.groups for host in world.hosts])


def ask(world: IdealWorld, rng: Random, names: tuple[str, ...]) -> None:
    at = rng.randrange(len(world.hosts))
    host = world.hosts[at]
    here = [
        trace
        for trace in world.book.traces.values()
        if trace.member.process == host.process and not trace.ended
    ]
    if len(here) < 2 or rng.random() < 0.1:
        world.connect(at, rng.choice("abc"))
        return
    trace = rng.choice(here)
    session, group = trace.member.session, GroupName(rng.choice(names))
    chance = rng.random()
    if chance < 0.4 and group not in trace.joined:
        world.request(at, JoinGroup(session, group))
    elif chance < 0.5 and group in trace.joined:
        world.request(at, LeaveGroup(session, group))
    elif chance < 0.54:
        world.request(at, Disconnect(session))
    else:
        groups: list[str] = rng.sample(names, rng.choice([1, 1, 2]))
        if rng.random() < 0.1:
            other = rng.choice(list(world.book.traces.values())).member
            groups.append(f"#{other.name}#d{other.daemon}")
        world.send(at, session, rng.choice(SERVICES), tuple(groups), rng.random() < 0.15)


def move(world: IdealWorld, rng: Random) -> None:
    host = rng.choice(world.hosts)
    kind = rng.random()
    if kind < 0.3:
        world.stamp(host)
    elif kind < 0.8:
        missing = world.missing(host)
        for at in rng.sample(missing, min(len(missing), rng.randint(1, 4))):
            world.receive(host, at)
    elif kind < 0.97:
        world.walk(host, rng.randint(1, 5))
    else:
        world.now_us += 10
        host.groups.step(Tick(), world.now_us)


def _hurry(world: IdealWorld, at: int) -> None:
    """The daemon receives everything, and delivers as much as it can."""
    host = world.hosts[at]
    for one in world.missing(host):
        world.receive(host, one)
    world.walk(host)


def change(world: IdealWorld, rng: Random) -> None:
    kind = rng.random()
    if kind < 0.1:
        world.crash(rng.randrange(len(world.hosts)))
        return
    if kind < 0.2:
        world.settle()
        return
    hosts = list(world.hosts)
    rng.shuffle(hosts)
    cut = rng.randint(1, len(hosts))
    for some in (hosts[:cut], hosts[cut:]):
        if some and rng.random() < 0.8:
            installers = some if rng.random() < 0.6 else rng.sample(some, rng.randint(0, len(some)))
            world.attempt(some, installers)
