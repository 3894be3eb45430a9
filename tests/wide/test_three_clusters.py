"""Three clusters with one member each, as processes on loopback: messages, links, spools, durable consumers."""

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack

import pytest
from tests.wide.worlds import NAMES, Member, best, comes, events, run, spool, texts

from hopring.client.aio import connect
from hopring.client.errors import WrongValue
from hopring.wide import isis, sync
from hopring.wide.errors import ClustersDiffer, NoLongHaul, NotEverywhere, NotInSet, UnknownCluster
from hopring.wide.library.events import Completed, WideMessage
from hopring.wide.library.sets import JoinedSet, link, sender
from hopring.wide.local_clusters.blocking import LocalWide

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def world() -> Iterator[LocalWide]:
    with LocalWide(dict.fromkeys(NAMES, 1)) as made:
        yield made


def test_a_message_comes_to_all_clusters_and_its_sender_learns_that(world: LocalWide) -> None:
    async def story() -> None:
        async with AsyncExitStack() as stack:
            joined = {one: await stack.enter_async_context(Member(world, one, "tickets")) for one in NAMES}
            receipt = await joined["hub"].abcast(b"hello", entry=7, notify=True)
            await receipt.everywhere()
            for one in NAMES:
                (message,) = await events(joined[one], 1)
                assert isinstance(message, WideMessage)
                assert (message.data, message.sender, message.entry) == (b"hello", "app-hub", 7)
                assert (message.id, message.order, message.clusters) == (receipt.id, 1, NAMES)
            assert await events(joined["hub"], 1) == [Completed("tickets", receipt.id, 2)]
            answer = await joined["norway"].cbcast(b"to the hub", to="hub")
            await answer.everywhere()
            (message,) = await events(joined["hub"], 1)
            assert isinstance(message, WideMessage)
            assert (message.data, message.to, message.order) == (b"to the hub", ("hub",), None)
            talk = joined["norway"].conversation("norway", "sandiego", name="pair")
            await talk.cbcast(b"between two")
            (message,) = await events(joined["sandiego"], 1)
            assert isinstance(message, WideMessage)
            assert (message.clusters, message.conversation) == (("norway", "sandiego"), "pair")

    run(story())


def test_what_cannot_be_sent_waits_in_a_spool_until_the_link_is_on_again(world: LocalWide) -> None:
    async def story() -> None:
        async with AsyncExitStack() as stack:
            hub = await stack.enter_async_context(Member(world, "hub", "waits"))
            norway = await stack.enter_async_context(Member(world, "norway", "waits"))
            operator = await stack.enter_async_context(connect(world.url("hub")))
            await link(operator, "norway").off()
            receipt = await hub.cbcast(b"later")
            assert (await spool(world, "hub", "waits", "norway"))["on"]
            assert (await spool(world, "hub", "waits", "norway"))["messages"] == 1
            with pytest.raises(NotEverywhere):
                await receipt.everywhere(timeout_seconds=0.1)
            await link(operator, "norway").on()
            assert await texts(norway, 1) == ["later"]
            # Sandiego has no representative of this set: it waits there, and that is enough for its sender.
            await receipt.everywhere()
            assert (await spool(world, "sandiego", "waits", None))["messages"] == 1

            async def empty() -> bool:
                return not (await spool(world, "hub", "waits", "norway"))["on"]

            await comes(empty)

    run(story())


def test_a_cut_link_is_made_again_when_it_heals(world: LocalWide) -> None:
    async def story() -> None:
        async with (
            Member(world, "hub", "cut", clusters=["hub", "norway"]) as hub,
            Member(world, "norway", "cut", clusters=["hub", "norway"]) as norway,
        ):
            await asyncio.to_thread(world.cut, "hub", "norway")
            await hub.cbcast(b"behind the cut")
            await asyncio.to_thread(world.heal)
            assert await texts(norway, 1) == ["behind the cut"]
        await asyncio.to_thread(world.settled)

    run(story())


def test_a_durable_consumer_gets_again_what_it_has_not_done_with(world: LocalWide) -> None:
    async def story() -> None:
        async with Member(world, "hub", "work") as hub:
            async with Member(world, "norway", "work", durable="worker") as norway:
                for text in (b"one", b"two", b"three"):
                    await hub.cbcast(text)
                first, second = await events(norway, 2)
                assert isinstance(first, WideMessage)
                assert isinstance(second, WideMessage)
                assert (first.data, second.data) == (b"one", b"two")
                await norway.done(first)
            async with Member(world, "norway", "work", durable="worker") as norway:
                assert await texts(norway, 2) == ["two", "three"]
                await norway.end_durable()

    run(story())


def test_wrong_requests_are_refused_with_a_remedy(world: LocalWide) -> None:
    async def story() -> None:
        async with Member(world, "hub", "refused", clusters=["hub", "norway"]) as hub:
            with pytest.raises(ClustersDiffer, match="1 is hub"):
                async with Member(world, "hub", "refused", "other", clusters=["hub", "sandiego"]):
                    pass
            with pytest.raises(UnknownCluster, match="choose of hub, norway, sandiego"):
                await hub.cbcast(b"x", to="oslo")
            with pytest.raises(NotInSet):
                await hub.conversation("hub", "sandiego").cbcast(b"x")
        async with connect(world.url("hub")) as session, sender(session, "nobody") as nobody:
            with pytest.raises(NotInSet, match="join it"):
                await nobody.cbcast(b"x")

    run(story())


def test_without_an_event_loop_the_calls_are_the_same(world: LocalWide) -> None:
    with (
        sync.join(world.url("hub"), "blocking", session={"name": "anna"}) as anna,
        sync.join(world.url("norway"), "blocking", session={"name": "bert"}) as bert,
    ):
        receipt = anna.abcast(b"first")
        receipt.everywhere(timeout_seconds=60.0)
        event = bert.receive()
        assert isinstance(event, WideMessage)
        assert (event.data, event.sender, event.id) == (b"first", "anna", receipt.id)
        anna.conversation("hub", "norway").cbcast(b"second", to="norway")
        assert next(iter(bert)).id == ("hub", 2)  # type: ignore[union-attr]


def test_the_calls_of_the_paper_have_its_names_and_arguments(world: LocalWide) -> None:
    async def story() -> None:
        async with AsyncExitStack() as stack:
            calls: dict[str, isis.IsisCalls] = {}
            vendors: dict[str, JoinedSet] = {}
            for name in NAMES:
                session = await stack.enter_async_context(connect(world.url(name), name=f"isis-{name}"))
                calls[name] = await stack.enter_async_context(isis.IsisCalls(session))
                vendors[name] = await calls[name].set_join("isis", "vendors", NAMES)
            hub = calls["hub"]
            assert await hub.set_join("isis") is vendors["hub"]
            everybody, pair = hub.getConvID("isis", NAMES), hub.getConvID("isis", ["norway", "hub"])
            assert (everybody, pair) == (0b111, 0b011)
            await (await hub.pc_cbcast("isis", isis.ALL, 1, b"restricted", pair)).everywhere()
            await hub.pc_cbcast("isis", "sandiego", 2, b"point to point", everybody)
            # A conversation is its participants: no cluster has to make it before it is used.
            await calls["norway"].pc_abcast("isis", isis.ALL, 3, b"ordered", everybody)

            expected = {"hub": [(1, pair), (3, everybody)], "sandiego": [(2, everybody), (3, everybody)]}
            expected["norway"] = expected["hub"]
            for name in NAMES:
                got = [one for one in await events(vendors[name], 2) if isinstance(one, WideMessage)]
                shown = [(one.entry, calls[name].getConvID("isis", one.clusters)) for one in got]
                assert sorted(shown) == expected[name]
            with pytest.raises(WrongValue, match="goes to all participants"):
                await hub.pc_abcast("isis", "norway", 1, b"", everybody)
            with pytest.raises(WrongValue, match="name the clusters"):
                hub.getConvID("isis", [])
            with pytest.raises(NotInSet, match="call set_join first"):
                await hub.pc_cbcast("other", isis.ALL, 1, b"", everybody)

    run(story())


def test_a_cluster_without_the_service_is_named(hop_cluster: object) -> None:
    cluster = hop_cluster({"alone": 1})  # type: ignore[operator]

    async def story() -> None:
        async with connect(cluster.url("alone1")) as session:
            with pytest.raises(NoLongHaul, match="hop wide run"):
                async with sender(session, "tickets"):
                    pass

    run(story())


def test_members_show_what_they_have(world: LocalWide) -> None:
    found = best(world, "hub")

    assert found["serving"]
    assert found["clusters"] == {"hub": 1, "norway": 2, "sandiego": 3}
    assert [one["cluster"] for one in found["links"]] == ["norway", "sandiego"]


def test_a_link_with_windows_is_open_in_them_alone(hop_wide: object) -> None:
    windows = hop_wide({"hub": 1, "norway": 1}, schedules={("hub", "norway"): "every 3s for 1s"})  # type: ignore[operator]

    async def story() -> None:
        async with Member(windows, "hub", "often") as hub, Member(windows, "norway", "often") as norway:
            for number in range(2):
                await hub.cbcast(b"%d" % number)
                assert await texts(norway, 1) == [str(number)]

                async def closed() -> bool:
                    return not (await asyncio.to_thread(best, windows, "hub"))["links"][0]["open"]

                await comes(closed)
        assert "the window is over" in windows.log("hub-m1")

    run(story())
