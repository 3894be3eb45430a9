"""Members are killed: messages flow on, and nothing that was accepted is lost."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest
from tests.wide.worlds import Member, best, comes, run, serves, texts

from hopring.client.aio import connect
from hopring.wide.library.sets import link
from hopring.wide.local_clusters.blocking import LocalWide

pytestmark = pytest.mark.slow

BOTH = ("hub", "norway")


@pytest.fixture(scope="module")
def world() -> Iterator[LocalWide]:
    with LocalWide(dict.fromkeys(BOTH, 1), members=3) as made:
        yield made


def test_messages_flow_on_when_the_member_with_the_connection_is_killed(world: LocalWide) -> None:
    async def story() -> None:
        async with Member(world, "hub", "flow") as hub, Member(world, "norway", "flow") as norway:
            await hub.cbcast(b"0")
            assert await texts(norway, 1) == ["0"]
            (one,) = best(world, "hub")["links"]
            await asyncio.to_thread(world.crash, one["member"])
            sent = [str(number) for number in range(1, 21)]
            for text in sent:
                await hub.cbcast(text.encode())
            assert await texts(norway, len(sent)) == sent
            (other,) = best(world, "hub")["links"]
            assert other["member"] != one["member"]
            assert await texts(hub, len(sent) + 1) == ["0", *sent]
        await asyncio.to_thread(world.restart, "hub")
        await asyncio.to_thread(world.settled)

    run(story())


def test_nothing_accepted_is_lost_when_all_members_are_killed(world: LocalWide) -> None:
    async def story() -> None:
        async with AsyncExitStack() as stack:
            hub = await stack.enter_async_context(Member(world, "hub", "kept"))
            operator = await stack.enter_async_context(connect(world.url("hub")))
            await link(operator, "norway").off()
            sent = [f"kept {number}" for number in range(10)]
            receipts = [await hub.cbcast(text.encode()) for text in sent]
            for name in BOTH:
                await asyncio.to_thread(world.crash_cluster, name)
            for name in BOTH:
                await asyncio.to_thread(world.restart, name)
            for name in BOTH:
                await comes(lambda name=name: serves(world, name))  # type: ignore[misc]
            await link(operator, "norway").on()
            norway = await stack.enter_async_context(Member(world, "norway", "kept"))
            assert await texts(norway, len(sent)) == sent
            assert await texts(hub, len(sent)) == sent
            for receipt in receipts:
                await receipt.everywhere()
        await asyncio.to_thread(world.settled)

    run(story())


def test_a_request_without_a_majority_is_accepted_when_there_is_one(world: LocalWide) -> None:
    async def story() -> None:
        async with Member(world, "norway", "minority") as norway:
            first, second, _ = world.members("norway")
            for one in (first, second):
                await asyncio.to_thread(world.crash, one)
            sending = asyncio.create_task(norway.cbcast(b"patience"))
            while any(one["serving"] for one in await asyncio.to_thread(world.status, "norway")):
                await asyncio.sleep(0.05)
            assert not sending.done()
            await asyncio.to_thread(world.restart, first)
            receipt = await sending
            assert await texts(norway, 1) == ["patience"]
            await receipt.everywhere()
        await asyncio.to_thread(world.restart, "norway")

    run(story())


def test_a_member_serves_again_when_its_daemon_is_back(world: LocalWide) -> None:
    async def story() -> None:
        async with Member(world, "hub", "daemon") as hub, Member(world, "norway", "daemon") as norway:
            await norway.cbcast(b"before")
            assert await texts(hub, 1) == ["before"]
            daemons = world._core.daemons["hub"]
            await asyncio.to_thread(daemons.crash, "hub1")
            await asyncio.to_thread(daemons.restart, "hub1")
            # The sessions of the program come back as well, and its requests are repeated.
            await (await hub.cbcast(b"after")).everywhere()
            assert await texts(norway, 2) == ["before", "after"]
            assert await texts(hub, 1) == ["after"]

    run(story())
