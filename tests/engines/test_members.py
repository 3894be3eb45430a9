"""Members with both engines: views with their causes, private groups, queries, and the minimum of a group."""

import asyncio

import pytest
from tests.engines.engines import SECONDS_MAX, Engine, group_of, names, next_of, session

from hopring import ALL, MAJORITY, Expired, Message, Suspended, View, sync

pytestmark = pytest.mark.slow


def who(view: View) -> str:
    """The name of the member that the view is about."""
    assert view.who is not None
    return view.who.name


def test_views_say_who_came_and_who_left_in_one_order(engine: Engine) -> None:
    async def story() -> None:
        async with session(engine, 0) as ann, session(engine, 1) as bob:
            group = group_of(engine)
            ours = await ann.join(group)
            first = await next_of(ours, View)
            assert (names(first), first.cause, who(first)) == (["ann"], "join", "ann")
            theirs = await bob.join(group)
            joined = [await next_of(one, View) for one in (ours, theirs)]
            assert [(one.cause, who(one)) for one in joined] == [("join", "bob")] * 2
            assert joined[0].members == joined[1].members
            assert joined[0].id == joined[1].id
            assert [[one.name for one in view.together] for view in joined] == [["ann"], ["bob"]]
            await theirs.leave()
            left = await next_of(ours, View)
            assert (names(left), left.cause, who(left)) == (["ann"], "leave", "bob")
            await bob.join(group)
            await next_of(ours, View)
            assert ann.joined == bob.joined == (group,)
            # A member that says more than one group at once is told the same.
            found = await bob.members(group)
            assert [one.private_group for one in found.members if one.name == "ann"] == [ann.private_group]
            await bob.close()
            gone = await next_of(ours, View)
            assert (names(gone), who(gone)) == (["ann"], "bob")
            assert gone.cause in ("leave", "disconnect")

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


def test_a_session_is_in_many_groups_and_each_has_its_own_events(engine: Engine) -> None:
    with sync.connect(engine.url(0), name="ann") as ann:
        groups = [ann.join(f"{group_of(engine)}.{number}") for number in range(20)]
        for number, group in enumerate(groups):
            group.multicast_wait(b"%d" % number, timeout_seconds=60)
        for number, group in enumerate(groups):
            events = [group.receive(timeout_seconds=60) for _ in range(2)]
            assert isinstance(events[0], View)
            assert events[1].data == b"%d" % number  # type: ignore[union-attr]
        listed = {one.name: one.members for one in ann.groups()}
        assert all(listed[group.name] == 1 for group in groups)


def test_the_largest_minimum_counts_and_is_shown(engine: Engine) -> None:
    async def story() -> None:
        async with session(engine, 0) as ann, session(engine, 1) as bob:
            group = group_of(engine)
            ours = await ann.join(group)
            assert (await next_of(ours, View)).minimum == 1
            await bob.join(group, minimum=2)
            both = await next_of(ours, View)
            assert (both.minimum, both.suspended) == (2, False)
            found = await ann.members(group)
            assert (found.minimum, found.suspended) == (2, False)
            await bob.leave(group)
            alone = await next_of(ours, View)
            assert (alone.minimum, names(alone)) == (1, ["ann"])

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


def test_a_group_whose_first_member_wants_more_is_suspended_until_they_are_there(engine: Engine) -> None:
    async def story() -> None:
        async with session(engine, 0) as ann, session(engine, 1) as bob:
            group = group_of(engine)
            ours = await ann.join(group, minimum=2)
            alone = await next_of(ours, View)
            assert (alone.suspended, alone.minimum) == (True, 2)
            assert names(await next_of(ours, Suspended)) == ["ann"]
            await ours.multicast(b"waits")
            await bob.join(group)
            both = await next_of(ours, View)
            assert (names(both), both.suspended) == (["ann", "bob"], False)
            receipt = await ours.multicast_wait(b"goes", timeout_seconds=60)
            assert receipt.members == 2

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


def test_a_time_to_live_ends_while_the_message_waits_for_a_suspended_group(engine: Engine) -> None:
    async def story() -> None:
        async with session(engine, 0) as ann:
            ours = await ann.join(group_of(engine), minimum=2)
            await next_of(ours, Suspended)
            await ours.multicast(b"behind it", ttl_seconds=30)
            with pytest.raises(Expired):
                await ours.multicast_wait(b"never", ttl_seconds=0.2, timeout_seconds=SECONDS_MAX)
            async with session(engine, 1) as bob:
                await bob.join(group_of(engine))
                assert (await next_of(ours, Message)).data == b"behind it"

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


def test_a_join_passes_the_messages_that_wait_for_it(engine: Engine) -> None:
    async def story() -> None:
        async with session(engine, 0) as ann, session(engine, 1) as bob:
            group = group_of(engine)
            ours = await ann.join(group, minimum=2)
            assert (await next_of(ours, View)).suspended
            await bob.multicast(group, b"from outside")
            await bob.members(group)
            theirs = await bob.join(group)
            assert not (await next_of(ours, View)).suspended
            await theirs.multicast(b"from a member")
            got = [(await next_of(ours, Message)).data for _ in range(2)]
            assert got == [b"from outside", b"from a member"]

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


@pytest.mark.parametrize("minimum", [MAJORITY, ALL])
def test_groups_of_a_majority_have_primary_views(engine: Engine, minimum: object) -> None:
    async def story() -> None:
        async with session(engine, 0, True) as ann, session(engine, 1, True) as bob:
            ours = await ann.join(group_of(engine), minimum=minimum)
            await bob.join(group_of(engine), minimum=minimum)
            both = await next_of(ours, View, lambda view: len(view.members) == 2)
            assert (both.primary, both.suspended, both.minimum) == (True, False, minimum)

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))
