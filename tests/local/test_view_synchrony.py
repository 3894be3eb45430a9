"""View synchrony at real daemons: joins, leaves, kills, a split and a merge; late members; wrong calls."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress

import pytest

from hopring import (
    FIFO,
    SAFE,
    Event,
    Excluded,
    FlushPending,
    FlushRequest,
    Message,
    NotAsked,
    NotMember,
    Reconnected,
    RequestRefused,
    Session,
    Transition,
    View,
    ViewSynchrony,
    WrongValue,
    connect,
    local_cluster,
    sync,
)

pytestmark = pytest.mark.slow

SECONDS_MAX = 60.0
SITES = {"eu": 2, "us": 1}


class Member:
    """A member that sends a last message when it is asked to flush, and records its events."""

    def __init__(self, session: Session, hold: asyncio.Event | None = None) -> None:
        self.session = session
        self.events: list[Event] = []
        self.hold = hold  # It agrees only when this is set.
        self.news = asyncio.Event()
        self.task = asyncio.create_task(self.run())

    async def run(self) -> None:
        async for event in self.session:
            self.events.append(event)
            if isinstance(event, FlushRequest):
                await self.flush(event)
            self.news.set()

    async def flush(self, request: FlushRequest) -> None:
        if self.hold is not None:
            await self.hold.wait()
        with suppress(FlushPending):  # It was left behind meanwhile.
            await self.session.multicast(request.group, f"last of {self.session.name}".encode(), service=FIFO)
        await self.session.flush_ok(request)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(SECONDS_MAX):
            while not condition():
                self.news.clear()
                await self.news.wait()

    @property
    def views(self) -> list[str]:
        """The names in each view."""
        return [names(one) for one in self.events if isinstance(one, View)]

    async def view(self, of: str) -> View:
        """Waits for a view of these members, which is the last so far."""
        await self.until(lambda: bool(self.views) and self.views[-1] == of)
        return [one for one in self.events if isinstance(one, View)][-1]

    def in_view(self, at: int) -> list[bytes]:
        """The messages between a view and the next one."""
        starts = [number for number, one in enumerate(self.events) if isinstance(one, View)]
        start = starts[at]
        end = next((one for one in starts if one > start), len(self.events))
        part = self.events[start:end]
        return [one.data for one in part if isinstance(one, Message)]


def names(event: View | Transition | FlushRequest) -> str:
    return " ".join(sorted(member.name for member in event.members))


def run(story: Callable[[], Coroutine[object, object, None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(3 * SECONDS_MAX):
            await story()

    asyncio.run(limited())


async def refused(error: type[Exception], call: Awaitable[object], text: str) -> None:
    with pytest.raises(error, match=text):
        await call


def test_messages_of_a_flush_belong_to_the_view_that_ends_at_joins_leaves_and_kills() -> None:
    async def story() -> None:
        async with local_cluster(SITES, trace=False) as cluster, cluster.connect("eu1", name="ann") as one:
            ann = Member(one)
            await one.join("g", synchrony="view")
            await ann.view("ann")
            async with cluster.connect("us1", name="bob") as two:
                bob = Member(two)
                await two.join("g", synchrony="view")
                first = await bob.view("ann bob")
                assert await ann.view("ann bob") == View(
                    first.group,
                    first.id,
                    first.members,
                    first.members[:1],
                    "join",
                    first.members[1],
                    first.sets,
                    first.primary,
                )
                assert [len(one) for one in first.sets] == [1, 1]
                assert ann.in_view(0) == [b"last of ann"]
                await one.multicast_many("g", [b"1", b"2"])
                receipt = await two.multicast_wait("g", b"3", service=SAFE, headers={"k": "v"})
                assert receipt.members == 2
                third = await cluster.connect("eu2", name="cid")
                cid = Member(third)
                await third.join("g", synchrony="view")
                for member in (ann, bob, cid):
                    await member.view("ann bob cid")
                together = [b"1", b"2", b"3", b"last of ann", b"last of bob"]
                assert sorted(ann.in_view(1)) == sorted(bob.in_view(0)) == together
                assert cid.in_view(0) == []
                (safe,) = [one for one in ann.events if isinstance(one, Message) and one.data == b"3"]
                assert safe.headers["k"] == "v"
                third.abort()  # Its daemon sees the end of the connection.
                await ann.view("ann bob")
                await bob.view("ann bob")
                assert sorted(ann.in_view(2)) == sorted(bob.in_view(1)) == [b"last of ann", b"last of bob"]
                await two.leave("g")
                assert (await ann.view("ann")).cause == "leave"
                assert two.joined == ()
                await refused(
                    NotMember, two.flush_ok(FlushRequest("g", first.id, ())), "no view synchrony there"
                )

    run(story)


def test_a_split_and_a_merge_keep_messages_in_their_views() -> None:
    async def story() -> None:
        async with (
            local_cluster(SITES, trace=False) as cluster,
            cluster.connect("eu1", name="ann") as one,
            cluster.connect("us1", name="bob") as two,
        ):
            ann, bob = Member(one), Member(two)
            for session in (one, two):
                await session.join("g", synchrony="view")
            await ann.view("ann bob")
            await bob.view("ann bob")
            await cluster.partition({"eu"}, {"us"})
            await one.multicast("g", b"of ann")
            await two.multicast("g", b"of bob")
            alone = await ann.view("ann")
            assert names(alone) == "ann"
            assert [len(part) for part in alone.sets] == [1]
            await bob.view("bob")
            assert b"of ann" in ann.in_view(-2)
            assert b"of bob" in bob.in_view(-2)
            assert [names(event) for event in ann.events if isinstance(event, Transition)] == ["ann"]
            await one.multicast("g", b"side of ann")
            await cluster.heal()
            for member in (ann, bob):
                merged = await member.view("ann bob")
                assert [len(part) for part in merged.sets] == [1, 1]
                assert len(merged.together) == 1
            assert ann.in_view(-2)[:1] == [b"side of ann"]
            assert b"side of ann" not in [event.data for event in bob.events if isinstance(event, Message)]
            await two.multicast("g", b"again")
            await ann.until(lambda: ann.in_view(-1) == [b"again"])

    run(story)


def test_a_daemon_that_is_killed_moves_its_member_which_joins_again() -> None:
    async def story() -> None:
        async with (
            local_cluster(SITES, trace=False) as cluster,
            cluster.connect("us1", name="ann") as one,
            connect([cluster.url("eu1"), cluster.url("eu2")], name="bob") as two,
        ):
            ann, bob = Member(one), Member(two)
            await one.join("g", synchrony="view")
            await two.join("g", synchrony="view")
            await ann.view("ann bob")
            await bob.view("ann bob")
            await cluster.crash(two.daemon)
            await bob.until(lambda: any(isinstance(event, Reconnected) for event in bob.events))
            await bob.until(lambda: isinstance(bob.events[-1], View))

            def met(member: Member) -> bool:
                """Whether its last view has both, at their present daemons."""
                last = [one for one in member.events if isinstance(one, View)][-1]
                return {one.daemon for one in last.members} == {"us1", two.daemon} and names(last) == "ann bob"

            for member in (ann, bob):
                await member.until(lambda: met(member))  # noqa: B023  Awaited at once.
            await two.multicast("g", b"back")
            await ann.until(lambda: ann.in_view(-1) == [b"back"])

    run(story)


def test_a_late_member_is_left_behind_and_comes_back() -> None:
    async def story() -> None:
        async with (
            local_cluster(SITES, trace=False) as cluster,
            cluster.connect("eu1", name="ann") as one,
            cluster.connect("eu2", name="bob") as two,
            cluster.connect("us1", name="cid") as three,
        ):
            hold = asyncio.Event()
            ann, bob, cid = Member(one), Member(two, hold), Member(three)
            options = ViewSynchrony(late="exclude", flush_seconds=0.2)
            hold.set()
            await one.join("g", synchrony=options)
            await two.join("g", synchrony="view")
            await ann.view("ann bob")
            hold.clear()
            await three.join("g", synchrony="view")
            assert (await ann.view("ann cid")).cause == "network"
            await cid.view("ann cid")
            await one.multicast("g", b"without bob")
            await cid.until(lambda: b"without bob" in cid.in_view(-1))
            # It takes its events again only now; its request is void, and its agreement no error.
            hold.set()
            for member in (ann, bob, cid):
                await member.view("ann bob cid")
            assert [event.reason for event in bob.events if isinstance(event, Excluded)] == [
                "it had not agreed to the flush in time"
            ]
            assert b"without bob" not in [event.data for event in bob.events if isinstance(event, Message)]

    run(story)


def test_wrong_calls_are_refused_with_a_remedy_and_change_nothing() -> None:
    async def story() -> None:
        async with (
            local_cluster(SITES, trace=False) as cluster,
            cluster.connect("eu1", name="ann") as one,
            cluster.connect("us1", name="bob") as two,
        ):
            group = await one.join("g", synchrony="view")
            view = await group.receive()
            assert isinstance(view, View)
            wrong = FlushRequest("g", view.id, ())
            await refused(NotAsked, group.flush_ok(wrong), "once for each FlushRequest")
            await refused(RequestRefused, one.join("g", synchrony="view"), "leave it first")
            await refused(RequestRefused, one.multicast(["g", "h"], b"x"), "send a message to each group")
            batch = group.multicast_batch([b"x"], app="a", batch=1)
            await refused(WrongValue, batch, "use multicast_many there")
            other = await two.join("g", synchrony="view")
            await refused(FlushPending, other.multicast(b"x"), "take events until the first View")
            request = await group.receive()
            assert isinstance(request, FlushRequest)
            await group.multicast(b"last")
            await group.flush_ok(request)
            for call in (
                group.multicast(b"x"),
                group.multicast_many([b"x"]),
                group.multicast_wait(b"x"),
                one.multicast("g", b"x"),
            ):
                await refused(FlushPending, call, "send after the next View, or before flush_ok")
            await refused(NotAsked, group.flush_ok(request), "once for each FlushRequest")
            assert [type(await group.receive()) for _ in range(2)] == [Message, View]
            await group.multicast(b"allowed again")
            assert isinstance(await other.receive(), View)
            got = await other.receive()
            assert isinstance(got, Message)
            assert got.data == b"allowed again"

    run(story)


def test_members_without_view_synchrony_neither_delay_a_view_nor_lose_messages() -> None:
    async def story() -> None:
        async with (
            local_cluster(SITES, trace=False) as cluster,
            cluster.connect("eu1", name="ann") as one,
            cluster.connect("us1", name="plain") as plain,
        ):
            watched = await plain.join("g")
            ann = Member(one)
            await plain.multicast("g", b"before ann")
            await one.join("g", synchrony="view")
            await ann.view("ann")
            await plain.multicast("g", b"of a stranger")
            await one.multicast("g", b"of ann")
            await ann.until(lambda: len(ann.in_view(0)) == 2)
            seen: list[bytes] = []
            async for message in watched.messages():
                seen.append(message.data)
                if len(seen) == 3:
                    break
            assert seen[0] == b"before ann"
            assert sorted(seen[1:]) == sorted(ann.in_view(0)) == [b"of a stranger", b"of ann"]
            assert isinstance(ann.events[0], View)

    run(story)


def test_blocking_sessions_flush_while_they_receive() -> None:
    shown: dict[str, list[str]] = {"ann": [], "bob": []}

    def member(url: str, name: str, last: list[str]) -> None:
        seen = shown[name]
        with sync.connect(url, name=name) as session:
            session.join("g", synchrony=ViewSynchrony(late="exclude", flush_seconds=SECONDS_MAX))
            while seen[-len(last) :] != last:
                event = session.receive(timeout_seconds=SECONDS_MAX)
                if isinstance(event, View):
                    seen.append(names(event))
                    if seen[-1] == "ann bob" and name == "bob":
                        session.multicast_many("g", [b"1", b"2"])
                elif isinstance(event, Message):
                    seen.append(event.data.decode())
                elif isinstance(event, FlushRequest):
                    session.multicast("g", f"last of {name}".encode())
                    session.flush_ok(event)

    together = ["ann bob", "1", "2"]  # Whoever is first has a view alone before that.
    with sync.local_cluster({"eu": 1, "us": 1}, trace=False) as cluster:
        members = [
            threading.Thread(
                target=member, args=(cluster.url("eu1"), "ann", [*together, "last of ann", "ann"])
            ),
            threading.Thread(target=member, args=(cluster.url("us1"), "bob", together)),
        ]
        for thread in members:
            thread.start()
        for thread in members:
            thread.join(3 * SECONDS_MAX)
            assert not thread.is_alive()

    assert shown["bob"][-3:] == together
    assert shown["ann"][-5:] == [*together, "last of ann", "ann"]
