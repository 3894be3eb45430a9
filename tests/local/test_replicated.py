"""The map of a group at real daemons: own writes, compare-and-set, watchers, a split and its merge."""

import asyncio

import pytest

from hopring import InDoubt, MapChange, ReplicatedDict, local_cluster

pytestmark = pytest.mark.slow

SECONDS_MAX = 60.0


def run(story: object) -> None:
    async def limited() -> None:
        async with asyncio.timeout(3 * SECONDS_MAX):
            await story  # type: ignore[misc]

    asyncio.run(limited())


async def until(condition: object) -> None:
    """Waits for a condition, as long as the limit of the story."""
    while not condition():  # type: ignore[operator]
        await asyncio.sleep(0.01)


def test_own_writes_are_read_and_one_of_many_wins_a_compare_and_set() -> None:
    async def story() -> None:
        async with (
            local_cluster({"eu": 1, "us": 1}, trace=False) as cluster,
            cluster.connect("eu1", name="anna") as anna,
            cluster.connect("us1", name="bert") as bert,
            ReplicatedDict(anna, "prices") as first,
        ):
            await first.put("EURUSD", 1.0842)
            assert dict(first) == {"EURUSD": 1.0842}
            async with ReplicatedDict(bert, "prices") as second:
                assert dict(second) == {"EURUSD": 1.0842}
                watched = second.watch()
                next_change = asyncio.ensure_future(anext(watched))
                await asyncio.sleep(0)
                tries = [one.compare_and_set("EURUSD", 1.0842, n) for n, one in enumerate([first, second] * 5)]
                results = await asyncio.gather(*tries)
                assert results.count(True) == 1
                winner = results.index(True)
                assert await next_change == MapChange("EURUSD", winner, deleted=False)
                assert first["EURUSD"] == winner
                assert await second.put_if_missing("USDJPY", [151.2]) is True
                assert await first.put_if_missing("USDJPY", None) is False
                await second.delete("EURUSD")
                await first.put("end", None)
                assert dict(first) == {"USDJPY": [151.2], "end": None}
                await until(lambda: dict(second) == dict(first))
            assert bert.joined == ()

    run(story())


def test_after_a_split_the_map_of_the_primary_side_is_that_of_all() -> None:
    async def story() -> None:
        async with (
            local_cluster({"eu": 2, "us": 1}, trace=False) as cluster,
            cluster.connect("eu1", name="anna") as anna,
            cluster.connect("us1", name="bert") as bert,
            ReplicatedDict(anna, "m") as first,
            ReplicatedDict(bert, "m") as second,
        ):
            await first.put("a", 1)
            await cluster.partition(["eu1", "eu2"], ["us1"])
            await first.put("side", "majority")
            await second.put("side", "minority")
            assert second["side"] == "minority"
            await cluster.heal()
            await until(lambda: dict(second) == {"a": 1, "side": "majority"})
            await second.put("b", 2)
            await until(lambda: dict(first) == {"a": 1, "side": "majority", "b": 2})

    run(story())


def test_a_change_is_in_doubt_when_the_session_ends() -> None:
    async def story() -> None:
        async with local_cluster({"eu": 1}, trace=False) as cluster:
            anna = await cluster.connect("eu1", name="anna")
            entries = await ReplicatedDict(anna, "m").__aenter__()
            change = asyncio.ensure_future(entries.put("a", 1))
            await asyncio.sleep(0)
            anna.abort()
            with pytest.raises(InDoubt):
                await change

    run(story())
