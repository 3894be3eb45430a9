"""Messages with both engines: services, receipts, columns, private groups, and what travels with a message."""

import asyncio

import pytest
from tests.engines.engines import SECONDS_MAX, Engine, group_of, next_of, session

from hopring import (
    MAJORITY,
    SAFE,
    AlreadyMember,
    Message,
    MessageTooLarge,
    Service,
    View,
    WrongType,
    WrongValue,
    sync,
)

pytestmark = pytest.mark.slow

TOTAL = [one for one in Service if one.total]


def test_messages_of_all_ordered_services_have_one_order_and_others_that_of_their_sender(
    engine: Engine,
) -> None:
    async def story() -> None:
        async with session(engine, 0) as ann, session(engine, 1) as bob:
            groups = [await one.join(group_of(engine)) for one in (ann, bob)]
            await next_of(groups[0], View, lambda view: len(view.members) == 2)
            for number in range(40):
                for service in Service:
                    for group in groups:
                        body = f"{group.session.name} {service.value} {number}".encode()
                        await group.multicast(body, service=service)
            receipts = [await one.multicast_wait(b"last", service=SAFE, timeout_seconds=60) for one in groups]
            assert [one.members for one in receipts] == [2, 2]
            seen = [await until_both_ended(one) for one in groups]
            orders = [[one.data for one in some if one.service.total] for some in seen]
            assert orders[0] == orders[1]
            assert len(orders[0]) == 2 * (40 * len(TOTAL) + 1)
            places = [[one.place for one in some if one.service.total] for some in seen]
            assert places[0] == places[1]
            for some in seen:
                for service in Service:
                    for name in ("ann", "bob"):
                        begin = f"{name} {service.value} ".encode()
                        numbers = [int(one.data.split()[2]) for one in some if one.data.startswith(begin)]
                        assert len(numbers) == len(set(numbers))
                        assert service.loose or sorted(numbers) == list(range(40))
                        assert not service.fifo or numbers == list(range(40))

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


async def until_both_ended(group: object) -> list[Message]:
    """The messages up to the last one of each of two senders."""
    out: list[Message] = []
    while sum(one.data == b"last" for one in out) < 2:
        out.append(await next_of(group, Message))
    return out


def test_many_messages_come_as_columns_and_the_sender_may_leave_its_own_out(engine: Engine) -> None:
    async def story() -> None:
        async with session(engine, 0) as ann, session(engine, 1) as bob:
            ours, theirs = await ann.join(group_of(engine)), await bob.join(group_of(engine))
            await next_of(ours, View, lambda view: len(view.members) == 2)
            await next_of(theirs, View)
            bodies = [b"%d" % number for number in range(3_000)]
            await ours.multicast_many(bodies, self_discard=True)
            await theirs.multicast_wait(b"end", timeout_seconds=60)
            got: list[bytes] = []
            runs = 0
            while len(got) < 3_001:
                events = await theirs.receive_many(max_messages=500)
                runs += len(events.runs)
                got += [bytes(body) for run in events.runs for body in run.bodies()]
            assert sorted(got) == sorted([*bodies, b"end"])
            assert [one for one in got if one != b"end"] == bodies
            assert runs < 500, "messages of a bundle come together"
            assert (await next_of(ours, Message)).data == b"end"

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


def test_headers_values_and_types_travel_with_a_message(engine: Engine) -> None:
    async def story() -> None:
        async with session(engine, 0, codec="json") as ann, session(engine, 1) as bob:
            group = await ann.join(group_of(engine))
            await bob.join(group_of(engine))
            await group.multicast({"price": 1.5}, headers={"desk": "7"}, type=9, ttl_seconds=30)
            got = await next_of(bob, Message)
            assert (got.data, got.headers["desk"], got.type) == (b'{"price":1.5}', "7", 9)
            assert got.sender == ann.private_group
            own = await next_of(group, Message)
            assert own.value == {"price": 1.5}
            assert ann.expired == 0

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


def test_a_member_gets_messages_of_the_domains_that_it_wants_alone(engine: Engine) -> None:
    async def story() -> None:
        async with session(engine, 0) as ann, session(engine, 1) as bob:
            everything = await ann.join(group_of(engine))
            some = await bob.join(group_of(engine), only=["eu", "us"])
            domains = ["eu", "ap", None, "us", "e", "eu"]
            for number, domain in enumerate(domains):
                headers = None if domain is None else {"domain": domain}
                await everything.multicast(b"%d" % number, headers=headers)
            await everything.multicast_many([b"x"] * 50)
            await everything.multicast_wait(b"end", headers={"domain": "eu"}, timeout_seconds=60)
            await bob.multicast(bob.private_group, b"private")
            got: list[bytes] = []
            while b"end" not in got:
                got.append((await next_of(some, Message)).data)
            assert got == [b"0", b"3", b"5", b"end"]
            all_of_them = [(await next_of(everything, Message)).data for _ in range(57)]
            assert all_of_them == [b"0", b"1", b"2", b"3", b"4", b"5", *[b"x"] * 50, b"end"]
            assert (await next_of(bob, Message)).data == b"private"
            with pytest.raises(WrongValue, match="beside since"):
                await bob.join("other", since=0, only=["eu"])
            with pytest.raises(WrongType):
                await bob.join("other", only="eu")

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


def test_a_sender_that_is_no_member_gets_a_receipt_and_a_private_answer(engine: Engine) -> None:
    async def story() -> None:
        async with session(engine, 0) as ann, session(engine, 1) as bob:
            group = await ann.join(group_of(engine))
            receipt = await bob.multicast_wait(group_of(engine), b"question", timeout_seconds=60)
            assert receipt.members == 1
            question = await next_of(group, Message)
            await ann.multicast(question.sender, b"answer")
            answer = await next_of(bob, Message)
            assert (answer.data, answer.groups) == (b"answer", (bob.private_group,))
            assert [one.name for one in (await bob.members(group_of(engine))).members] == ["ann"]

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


def test_resilient_messages_share_the_order_where_there_is_a_primary_view(engine: Engine) -> None:
    async def story() -> None:
        async with session(engine, 0, True) as ann, session(engine, 1, True) as bob:
            groups = [await one.join(group_of(engine)) for one in (ann, bob)]
            await next_of(groups[0], View, lambda view: len(view.members) == 2 and view.primary)
            for number in range(10):
                for group in groups:
                    for level in (0, 1, MAJORITY):
                        await group.multicast(b"%d" % number, resilience=level)
            for group in groups:
                plain = await group.multicast_wait(b"plain", timeout_seconds=60)
                assert plain.holders is None
                receipt = await group.multicast_wait(b"last", resilience=MAJORITY, timeout_seconds=60)
                assert receipt.members == 2
                assert receipt.holders is not None
                assert receipt.holders >= 2, "more than half of two or three"
            seen = [await until_both_ended(one) for one in groups]
            assert [one.data for one in seen[0]] == [one.data for one in seen[1]]
            assert len(seen[0]) == 2 * (10 * 3 + 2)

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


def test_a_batch_counts_once(engine: Engine) -> None:
    async def story() -> None:
        async with session(engine, 0) as ann, session(engine, 1) as bob:
            await ann.join(group_of(engine))
            group = await bob.join(group_of(engine))
            for _ in range(2):
                receipt = await group.multicast_batch([b"a", b"b"], app="etl", batch=1, timeout_seconds=60)
                assert receipt is not None
            await group.multicast(b"end")
            got: list[bytes] = []
            while not got or got[-1] != b"end":
                got.append((await next_of(ann, Message)).data)
            assert got == [b"a", b"b", b"end"]
            assert ann.dropped_again == 2

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))


def test_a_message_that_is_too_large_is_refused_and_the_longest_one_arrives(engine: Engine) -> None:
    with (
        sync.connect(engine.url(0), name="ann") as ann,
        sync.connect(engine.url(1), name="bob") as bob,
        bob.join(group_of(engine)) as group,
    ):
        most = ann.message_bytes_max
        with pytest.raises(MessageTooLarge):
            ann.multicast(group_of(engine), bytes(most + 1))
        ann.multicast_wait(group_of(engine), b"x" * most, timeout_seconds=60)
        got: Message | None = None
        while got is None:
            event = group.receive(timeout_seconds=60)
            got = event if isinstance(event, Message) else None
        assert got.data == b"x" * most


def test_wrong_names_of_groups_are_refused_alike(engine: Engine) -> None:
    with (
        sync.connect(engine.url(0), name="ann") as ann,
        ann.join(group_of(engine)),
        pytest.raises(AlreadyMember),
    ):
        ann.join(group_of(engine))


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "one by one"])
def test_many_messages_share_bundles_as_long_as_the_engine_takes(engine: Engine, at_once: bool) -> None:
    """Peers take shorter bundles than daemons: a full one must not end the session."""
    bodies = [b"%04d" % number + bytes(1020) for number in range(300)]

    async def story() -> None:
        async with session(engine, 0) as ann:
            group = await ann.join(group_of(engine))
            if at_once:
                await group.multicast_many(bodies)
            else:
                for body in bodies:
                    await group.multicast(body)
            got = [await next_of(group, Message) for _ in bodies]
            assert [one.data for one in got] == bodies

    asyncio.run(asyncio.wait_for(story(), SECONDS_MAX))
