"""Durable calls between clusters: the answer comes, though callers, servers and members end meanwhile."""

import asyncio
import threading
from collections.abc import Iterator

import pytest
from tests.wide.worlds import Member, comes, run, serves

from hopring.client.aio import connect
from hopring.client.errors import WrongValue
from hopring.wide import sync
from hopring.wide.errors import NotAcceptedYet, NotAnswered
from hopring.wide.library.events import WideMessage
from hopring.wide.library.sets import JoinedSet, WideSender, link, sender
from hopring.wide.local_clusters.blocking import LocalWide

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world() -> Iterator[LocalWide]:
    with LocalWide({"hub": 1, "norway": 1}) as made:
        yield made


async def next_call(joined: JoinedSet) -> WideMessage:
    """The next call of a set."""
    while True:
        event = await joined.receive()
        if isinstance(event, WideMessage) and event.call:
            return event


async def serve(joined: JoinedSet) -> None:
    """Answers all calls in capitals."""
    while True:
        asked = await next_call(joined)
        await joined.answer(asked, asked.data.upper())


def test_a_call_is_answered_also_within_a_cluster(world: LocalWide) -> None:
    async def story() -> None:
        async with Member(world, "hub", "calls") as hub, Member(world, "norway", "calls") as norway:
            serving = [asyncio.create_task(serve(one)) for one in (hub, norway)]
            there = await hub.request(b"hello", to="norway")
            here = await hub.conversation("hub").request(b"hello", to="hub")
            assert (there.data, there.cluster, there.sender) == (b"HELLO", "norway", "app-norway")
            assert (here.data, here.cluster, here.sender) == (b"HELLO", "hub", "app-hub")
            for one in serving:
                one.cancel()
            # Nothing is kept of them.
            await comes(lambda: no_calls(world, "calls"))

    run(story())


async def calls_of(world: LocalWide, name: str) -> int:
    """How many calls of a set are open in the hub; -1 while its member is away."""
    found = await asyncio.to_thread(world.status, "hub")
    return next((int(one["calls"]) for member in found for one in member["sets"] if one["name"] == name), -1)


async def no_calls(world: LocalWide, name: str) -> bool:
    """Whether no call of a set is open in the hub."""
    return await calls_of(world, name) == 0


async def gives_up(orders: WideSender) -> None:
    """Asks, and does not wait for the answer."""
    for seconds in (0.2, 1.0, 5.0, 25.0):  # It has to be accepted within this time.
        try:
            await orders.request(b"3 please", to="norway", call="order 17", timeout_seconds=seconds)
        except NotAcceptedYet:
            continue
        except NotAnswered:
            return
    raise AssertionError("it was answered, or never accepted")


def test_the_answer_comes_after_crashes_of_caller_server_and_members(world: LocalWide) -> None:
    async def story() -> None:
        async with connect(world.url("hub")) as operator, Member(world, "hub", "orders"):
            async with Member(world, "norway", "orders", durable="clerk"):
                pass  # It is known as a durable consumer from here on.
            await link(operator, "norway").off()
            # The caller gives up, and its process ends: the call stays.
            async with connect(world.url("hub"), name="buyer") as session, sender(session, "orders") as orders:
                await gives_up(orders)
            for name in ("hub", "norway"):
                await asyncio.to_thread(world.crash_cluster, name)
                await asyncio.to_thread(world.restart, name)
            for name in ("hub", "norway"):
                await comes(lambda name=name: serves(world, name))  # type: ignore[misc]
            await link(operator, "norway").on()
            # A server dies with the call in hand; the next one gets it again, and answers twice.
            async with Member(world, "norway", "orders", durable="clerk") as norway:
                assert (await next_call(norway)).data == b"3 please"
            async with Member(world, "norway", "orders", durable="clerk") as norway:
                asked = await next_call(norway)
                assert (asked.data, asked.call, asked.sender) == (b"3 please", "order 17", "buyer")
                await norway.answer(asked, b"sold")
                await (await norway.answer(asked, b"sold twice")).everywhere()
                await norway.done(asked)
            await asyncio.to_thread(world.crash_cluster, "hub")
            await asyncio.to_thread(world.restart, "hub")
            await comes(lambda: serves(world, "hub"))
            # The caller asks by the same name: nothing is asked again.
            async with connect(world.url("hub"), name="buyer") as session, sender(session, "orders") as orders:
                for _ in range(2):
                    answer = await orders.request(b"3 please", to="norway", call="order 17")
                    assert (answer.data, answer.cluster) == (b"sold", "norway")
                await answer.done()
            await comes(lambda: no_calls(world, "orders"))
            async with Member(world, "norway", "orders", durable="clerk") as norway:
                await norway.cbcast(b"the end")
                event = await norway.receive()
                assert isinstance(event, WideMessage)
                assert event.data == b"the end", "the call came once"

    run(story())


def test_wrong_names_and_messages_that_are_no_calls_are_refused(world: LocalWide) -> None:
    async def story() -> None:
        async with Member(world, "hub", "wrong") as hub:
            for name, reason in (("", "empty or too long"), ("~mine", "begins with ~")):
                with pytest.raises(WrongValue, match=reason):
                    await hub.request(b"", to="norway", call=name)
            await hub.cbcast(b"no call")
            message = await hub.receive()
            assert isinstance(message, WideMessage)
            with pytest.raises(WrongValue, match="no call of this set"):
                await hub.answer(message, b"")
            await hub.end_call("never made")

    run(story())


def test_calls_without_an_event_loop(world: LocalWide) -> None:
    with sync.join(world.url("norway"), "plain") as norway, sync.join(world.url("hub"), "plain") as hub:

        def answer_one() -> None:
            asked = norway.receive()
            assert isinstance(asked, WideMessage)
            norway.answer(asked, b"4").everywhere()

        server = threading.Thread(target=answer_one)
        server.start()
        found = hub.request(b"2 + 2", to="norway", call="sum")
        server.join()
        assert (found.data, found.call) == (b"4", "sum")
        assert hub.conversation().request(b"2 + 2", to="norway", call="sum").data == b"4"
        found.done()
        hub.end_call("sum")
