"""Random worlds of rings: joins, leaves, messages of all services, loss, crashes, splits, stops."""

from functools import partial
from random import Random

from tests.unit.rmp.ring_judge import RingJudge
from tests.unit.rmp.ring_world import Faults, Node, World

from hopring.ordering.holders import MAJORITY
from hopring.rmp.events import JoinRing
from hopring.rmp.options import PeerRingOptions
from hopring.services import Service
from hopring.wire.rmp.lists import MINIMUM_MAJORITY

SERVICES_DRAWN = [
    Service.UNRELIABLE,
    Service.RELIABLE,
    Service.FIFO,
    Service.AGREED,
    Service.AGREED,
    Service.SAFE,
]


def random_world(seed: int) -> World:
    """A world with its whole story in the heap; `settle` lets it end quietly."""
    dice = Random(seed)
    faults = Faults(
        dice.choice([0, 0, 0.02, 0.1, 0.2]), dice.choice([0, 0.1]), 500, dice.choice([0, 200, 3_000])
    )
    world = World(seed, PeerRingOptions(), faults)
    quorate = dice.random() < 0.5
    count = dice.randint(2, 6)
    for number in range(1, count + 1):
        minimum = MINIMUM_MAJORITY if quorate else 1
        capable = number == 1 or dice.random() < 0.9
        node = world.add(number, JoinRing(f"n{number}", minimum, 0, capable, not quorate or number == 1))
        world.at(0 if number == 1 else 200_000 + dice.randrange(600_000), partial(first_join, world, node))
    for _ in range(dice.randint(20, 120)):
        when = 200_000 + dice.randrange(4_000_000)
        world.at(when, partial(submit_something, world, dice))
    crashes = dice.randrange(max(1, (count - 1) // 2 if quorate else count))
    for _ in range(dice.randint(0, 6)):
        when = 800_000 + dice.randrange(3_500_000)
        action = dice.choice(["split", "heal", "crash", "freeze", "leave", "burst"])
        if action == "crash":
            crashes -= 1
        if action != "crash" or crashes >= 0:
            world.at(when, partial(act, world, dice, action))
    return world


def first_join(world: World, node: Node) -> None:
    """Joins, and again while there is no ring to join."""
    if node.alive and (not node.stays or node.stays[-1].ended):
        world.join(node)


def submit_something(world: World, dice: Random) -> None:
    """Some process sends something, some of them resilient."""
    node = dice.choice(list(world.nodes.values()))
    for _ in range(dice.choice([1, 1, 1, 5])):
        service = dice.choice(SERVICES_DRAWN)
        resilience = dice.choice([0, 0, 1, 2, MAJORITY]) if service is Service.AGREED else 0
        world.submit(node, service, resilience)


def act(world: World, dice: Random, action: str) -> None:
    """One fault, or a leave."""
    nodes = list(world.nodes.values())
    node = dice.choice(nodes)
    if action == "split":
        world.split({one.process: dice.randrange(2) for one in nodes})
    elif action == "heal":
        world.heal()
    elif action == "crash":
        world.crash(node)
    elif action == "freeze":
        world.freeze(node, dice.choice([20_000, 200_000, 1_500_000]))
    elif action == "leave":
        world.leave(node)
    else:
        for _ in range(30):
            submit_something(world, dice)


def settle(world: World) -> list[str]:
    """Ends all faults, lets the world come to rest, and judges it."""
    world.run_until(4_500_000)
    world.heal()
    world.faults.loss = world.faults.doubled = 0
    for _ in range(12):
        world.run_until(world.now_us + 1_000_000)
    return RingJudge(world).judge()
