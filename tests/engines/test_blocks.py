"""Blocks with both engines: locks, election, requests, view synchrony, states, and maps."""

import asyncio
import json
from collections.abc import Callable

import pytest
from tests.engines.engines import SECONDS_MAX, Engine, group_of, names, next_of, session

from hopring import (
    ALL,
    MAJORITY,
    FlushRequest,
    LockNotHeld,
    LockTimedOut,
    MapChange,
    Message,
    NoResponders,
    Ready,
    ReplicatedDict,
    Request,
    RequestFailed,
    StateSnapshot,
    View,
    sync,
)

pytestmark = pytest.mark.slow


def test_a_lock_waits_for_its_holder_and_fences_rise(engine: Engine) -> None:
    async def story() -> None:
        async with session(engine, 0, True) as ann, session(engine, 1, True) as bob:
            ours, theirs = await ann.join(group_of(engine)), await bob.join(group_of(engine))
            await next_of(theirs, View, lambda view: view.primary)
            async with ours.lock("row", timeout_seconds=60) as first:
                with pytest.raises(LockTimedOut):
                    await theirs.lock("row", timeout_seconds=0.2)
                waiting = asyncio.ensure_future(theirs.lock("row", timeout_seconds=60).__aenter__())
                other = await theirs.lock("other", timeout_seconds=60)
                assert other > first
                assert not waiting.done()
            second = await waiting
            assert second > other
            with pytest.raises(LockNotHeld):
                await theirs.unlock("row", first)
            await theirs.unlock("row", second)
            await theirs.unlock("other", other)
            async with theirs.elect(timeout_seconds=60) as leader:
                assert leader > second
                claim = asyncio.ensure_future(ours.elect(timeout_seconds=60).__aenter__())
            assert await claim > leader

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


def test_holders_of_locks_are_listed(engine: Engine) -> None:
    with (
        sync.connect(engine.url(0, True), name="ann") as ann,
        ann.join(group_of(engine)) as group,
        group.lock("row", timeout_seconds=60) as fence,
    ):
        (listed,) = ann.locks(group_of(engine))
        assert (listed.name, listed.fence, listed.waiting) == ("row", fence, 0)
        assert listed.holder is not None
        assert listed.holder.name == "ann"


def test_a_lock_goes_on_when_its_holder_closes_and_fences_are_above_those_of_earlier_groups(
    engine: Engine,
) -> None:
    with sync.connect(engine.url(1, True), name="bob") as bob:
        with sync.connect(engine.url(0, True), name="ann") as ann:
            ours = ann.join(group_of(engine))
            old = ours.lock("row", timeout_seconds=60).acquire()
            theirs = bob.join(group_of(engine))
        fence = theirs.lock("row", timeout_seconds=60).acquire()
        assert fence > old
        bob.leave(group_of(engine))
    with sync.connect(engine.url(0, True), name="cat") as cat:
        assert cat.join(group_of(engine)).lock("row", timeout_seconds=60).acquire() > fence


def test_requests_are_answered_by_as_many_servers_as_are_wanted(engine: Engine) -> None:
    async def story() -> None:
        async with session(engine, 0) as ann, session(engine, 1) as bob, session(engine, 2) as cat:
            group = group_of(engine)
            with pytest.raises(NoResponders):
                await cat.request(group, b"x", timeout_seconds=60)

            def shout(request: Request) -> bytes:
                if request.data == b"bad":
                    raise ValueError("no such word")
                return request.data.upper()

            async with ann.serve(group, shout), bob.serve(group, shout):
                one = await cat.request(group, b"word", headers={"k": "v"}, timeout_seconds=60)
                assert one.data == b"WORD"
                for wait in (2, MAJORITY, ALL):
                    replies = await cat.request(group, b"word", wait=wait, timeout_seconds=60)
                    assert sorted(reply.server for reply in replies) == sorted(
                        [ann.private_group, bob.private_group]
                    )
                with pytest.raises(RequestFailed, match="no such word"):
                    await cat.request(group, b"bad", timeout_seconds=60)
                members = await cat.join(group)
                await members.multicast(b"before")
                await ann.request(group, b"y", wait=ALL, reply_to="group", timeout_seconds=60)
                heard = [(await next_of(members, Message)).data for _ in range(3)]
                assert heard[0] == b"before"
                assert heard[1:] == [b"Y", b"Y"]
                many = await asyncio.gather(*[cat.request(group, b"x", timeout_seconds=60) for _ in range(100)])
                assert [one.data for one in many] == [b"X"] * 100

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


def test_view_synchrony_delivers_the_last_messages_before_the_next_view(engine: Engine) -> None:
    async def story() -> None:
        async with session(engine, 0) as ann, session(engine, 1) as bob:
            group = group_of(engine)
            seen: dict[str, list[object]] = {"ann": [], "bob": []}

            async def follow(one: object, log: list[object]) -> None:
                async for event in one:  # type: ignore[attr-defined]
                    if isinstance(event, FlushRequest):
                        await ann.multicast(group, b"last words")
                        await ann.flush_ok(event)
                    elif isinstance(event, View):
                        log.append(names(event))
                    elif isinstance(event, Message):
                        log.append(event.data)

            tasks = []
            for one in (ann, bob):
                joined = await one.join(group, synchrony="view")
                tasks.append(asyncio.create_task(follow(joined, seen[one.name])))
                while not seen[one.name]:
                    await asyncio.sleep(0.01)
            await bob.multicast(group, b"from bob")
            while b"from bob" not in seen["ann"] or b"from bob" not in seen["bob"]:
                await asyncio.sleep(0.01)
            assert seen["ann"] == [["ann"], b"last words", ["ann", "bob"], b"from bob"]
            assert seen["bob"] == [["ann", "bob"], b"from bob"]
            for task in tasks:
                task.cancel()

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


def test_a_member_without_view_synchrony_is_not_waited_for_and_gets_the_messages(engine: Engine) -> None:
    async def story() -> None:
        async with session(engine, 0) as ann, session(engine, 1) as bob, session(engine, 2) as cat:
            group = group_of(engine)
            plain = await cat.join(group)
            synchronous = await ann.join(group, synchrony="view")
            assert names(await next_of(synchronous, View)) == ["ann"]
            joining = asyncio.ensure_future(bob.join(group, synchrony="view"))
            request = await next_of(synchronous, FlushRequest)
            await ann.multicast_wait(group, b"one", timeout_seconds=60)
            await ann.multicast_many(group, [b"two", b"three"])
            await ann.flush_ok(request)
            theirs = await joining
            assert names(await next_of(theirs, View)) == ["ann", "bob"]
            receipt = await theirs.multicast_wait(b"four", timeout_seconds=60)
            assert receipt.groups == (group,)
            assert [(await next_of(synchronous, Message)).data for _ in range(4)] == [
                b"one",
                b"two",
                b"three",
                b"four",
            ]
            got = [await next_of(plain, Message) for _ in range(4)]
            assert sorted(one.data for one in got) == [b"four", b"one", b"three", b"two"]
            assert {one.groups for one in got} == {(group,)}

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


class Entries:
    """A list of messages as the state of a group."""

    def __init__(self) -> None:
        self.entries: list[str] = []

    def snapshot(self) -> StateSnapshot:
        return StateSnapshot([json.dumps(self.entries).encode()])

    def restore(self, state: bytes) -> None:
        self.entries = json.loads(state)


def test_a_joiner_gets_the_state_and_the_messages_since(engine: Engine) -> None:
    async def story() -> None:
        async with session(engine, 0) as ann, session(engine, 1) as bob:
            logs = {one.name: Entries() for one in (ann, bob)}
            ready: list[str] = []

            async def follow(one: object, log: Entries, name: str) -> None:
                async for event in one:  # type: ignore[attr-defined]
                    if isinstance(event, Message):
                        log.entries.append(event.data.decode())
                    elif isinstance(event, Ready):
                        ready.append(name)

            groups = []
            tasks = []
            for number, one in enumerate((ann, bob)):
                group = await one.join(group_of(engine), state=logs[one.name])
                groups.append(group)
                tasks.append(asyncio.create_task(follow(group, logs[one.name], one.name)))
                while len(ready) <= number:
                    await asyncio.sleep(0.01)
                for step in range(20):
                    await groups[0].multicast(f"{number}.{step}".encode())
            while any(len(one.entries) < 40 for one in logs.values()):
                await asyncio.sleep(0.01)
            assert logs["ann"].entries == logs["bob"].entries
            for task in tasks:
                task.cancel()

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


def test_a_map_has_one_winner_of_many_and_tells_watchers(engine: Engine) -> None:
    async def story() -> None:
        async with (
            session(engine, 0) as ann,
            session(engine, 1) as bob,
            ReplicatedDict(ann, group_of(engine)) as first,
        ):
            await first.put("EURUSD", 1.0842)
            async with ReplicatedDict(bob, group_of(engine)) as second:
                assert dict(second) == {"EURUSD": 1.0842}
                next_change = asyncio.ensure_future(anext(second.watch()))
                await asyncio.sleep(0)
                tries = [one.compare_and_set("EURUSD", 1.0842, n) for n, one in enumerate([first, second] * 5)]
                results = await asyncio.gather(*tries)
                assert results.count(True) == 1
                assert await next_change == MapChange("EURUSD", results.index(True), deleted=False)

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


def test_the_holder_of_a_handler_lock_answers_and_the_next_one_takes_over(engine: Engine) -> None:
    async def story() -> None:
        group = group_of(engine)
        async with session(engine, 2, True) as cat, session(engine, 1, True) as bob:
            ann = await session(engine, 0, True)  # Of peers, the first one founds the rings.

            def answer(name: str) -> Callable[[Request], bytes]:
                return lambda request: f"{name} {request.fence}".encode()

            first = ann.serve(group, answer("ann"), handler=1)
            await first
            second = bob.serve(group, answer("bob"), handler=1)
            one = (await cat.request(group, b"x", handler=1, timeout_seconds=60)).data.split()
            assert one[0] == b"ann"
            await ann.close()
            await second
            two = (await cat.request(group, b"x", handler=1, timeout_seconds=60)).data.split()
            assert two[0] == b"bob"
            assert int(two[1]) > int(one[1])

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))
