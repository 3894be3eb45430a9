"""What waits for a cluster that is away is on the disks of the members, and outlives them."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.wide.worlds import Member, comes, run, serves, spool

from hopring.client.aio import connect
from hopring.wide.library.events import WideMessage
from hopring.wide.library.sets import link
from hopring.wide.local_clusters.blocking import LocalWide

pytestmark = [pytest.mark.slow, pytest.mark.long]

BODY_BYTES = 120_000
COUNT = 142
"""So much that members take a snapshot, which has no bodies."""


@pytest.fixture(scope="module")
def world() -> Iterator[LocalWide]:
    with LocalWide({"hub": 1, "norway": 1}, members=3) as made:
        yield made


def test_bodies_that_wait_are_on_disk_and_outlive_kills(world: LocalWide) -> None:
    sent = [bytes([number % 256]) * BODY_BYTES for number in range(COUNT)]

    async def on_disk() -> bool:
        return bool((await spool(world, "hub", "news", "norway")).get("on_disk"))

    async def story() -> None:
        first, second, third = world.members("hub")
        async with (
            Member(world, "norway", "news") as norway,
            connect(world.url("hub")) as operator,
            Member(world, "hub", "news") as hub,
        ):
            await link(operator, "norway").off()
            for at in range(0, COUNT, 8):
                await asyncio.gather(*[hub.cbcast(one) for one in sent[at : at + 8]])
            await comes(on_disk)
            # One of them loses its disk with everything, the others their processes.
            for one in (first, second, third):
                await asyncio.to_thread(world.crash, one)
            state = world.path.parent / "state"
            await asyncio.to_thread((state / third).rename, state / f"{third}.lost")
            await asyncio.to_thread(world.restart, "hub")
            await comes(lambda: serves(world, "hub"))
            waiting = await spool(world, "hub", "news", "norway")
            assert waiting["messages"] == COUNT
            await link(operator, "norway").on()
            got: list[WideMessage] = []
            while len(got) < COUNT:
                event = await norway.receive()
                if isinstance(event, WideMessage):
                    got.append(event)
            assert [one.data for one in sorted(got, key=lambda one: one.id.number)] == sent

    run(story())

    async def emptied() -> None:
        async def no_bodies() -> bool:
            places = [world.path.parent / "state" / one / "bodies" for one in world.members("hub")]
            return not any(list(place.glob("*.bodies")) for place in places if place.exists())

        # They are removed with the next records.
        async with Member(world, "hub", "news") as hub:
            while not await no_bodies():
                await hub.cbcast(b"one more")
                await asyncio.sleep(0.1)

    run(emptied())
