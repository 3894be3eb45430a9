"""Slow receivers at real daemons: each policy with forty megabytes that a client does not read."""

import asyncio
from pathlib import Path

import pytest
from tests.hopd.served_cluster import SECONDS_MAX, ServedCluster, take

from hopring import Event, Gap, Message, Session, SlowPolicy, SlowWarning, View, connect

pytestmark = pytest.mark.slow

MESSAGES = 400
BODY_BYTES = 100_000


def number(event: Message) -> int:
    return int(event.data[:6])


async def flood(session: Session, messages: int) -> None:
    """Sends to the group g and waits for the own copy of each message, so that it is ordered."""
    await session.join("g")
    for at in range(messages):
        await session.multicast("g", b"%06d" % at + bytes(BODY_BYTES))
        await take(session, 1)


async def slow_reader(served: ServedCluster, policy: SlowPolicy) -> list[Event]:
    """The messages that a client of eu1 gets if it sleeps while forty megabytes come from us1."""
    async with (
        asyncio.timeout(2 * SECONDS_MAX),
        connect(served.url("us1"), name="fast") as fast,
        connect(served.url("eu1"), name="slow", window_bytes=8192, slow=policy) as slow,
    ):
        await slow.join("g")
        await flood(fast, MESSAGES)
        await fast.multicast(slow.private_group, b"999999")
        seen: list[Event] = []
        while not (isinstance(seen[-1] if seen else None, Message) and data_of(seen[-1]) == b"999999"):
            seen.append(await slow.receive())
            if isinstance(seen[-1], Gap):
                await fast.multicast(slow.private_group, b"999999")  # The first message was dropped.
        return seen


def data_of(event: Event) -> bytes:
    return event.data if isinstance(event, Message) else b""


def test_spilled_messages_all_come_in_order(served: ServedCluster, tmp_path: Path) -> None:
    seen = asyncio.run(slow_reader(served, "spill"))

    assert [number(event) for event in seen if isinstance(event, Message)] == [*range(MESSAGES), 999_999]
    assert [event.policy for event in seen if isinstance(event, SlowWarning)] == ["spill"]
    assert not list(tmp_path.glob("**/*.spill/*"))
    assert len(list(tmp_path.glob("*.eu1.spill"))) == 1


def test_dropped_messages_are_counted_in_a_gap_and_views_are_not_dropped(served: ServedCluster) -> None:
    seen = asyncio.run(slow_reader(served, "drop"))

    at, missing = 0, 0
    for event in seen:
        if isinstance(event, Gap):
            missing += event.messages
            at += event.messages
        elif isinstance(event, Message) and number(event) < MESSAGES:
            assert number(event) == at
            at += 1
    assert 200 < missing < 300
    assert [event.cause for event in seen if isinstance(event, View)] == ["join", "join"]
    assert any(isinstance(event, SlowWarning) for event in seen)


@pytest.mark.parametrize("daemon", ["eu1", "us1"])
def test_a_sender_anywhere_waits_for_a_blocked_receiver_and_other_groups_do_not(
    served: ServedCluster, daemon: str
) -> None:
    async def story() -> None:
        async with (
            asyncio.timeout(2 * SECONDS_MAX),
            connect(served.url(daemon), name="fast") as fast,
            connect(served.url(daemon), name="other") as other,
            connect(served.url("eu1"), name="slow", window_bytes=8192, slow="block") as slow,
        ):
            await slow.join("g")
            await other.join("h")
            sending = asyncio.create_task(send(fast))
            await asyncio.wait([sending], timeout=3.0)
            assert not sending.done()
            await other.multicast("h", b"still here")
            await take(other, 1)
            seen = await take(slow, MESSAGES)
            await sending
            numbers = [number(event) for event in seen if isinstance(event, Message)]
            assert numbers == list(range(MESSAGES))

    async def send(session: Session) -> None:
        for at in range(MESSAGES):
            await session.multicast("g", b"%06d" % at + bytes(BODY_BYTES))

    asyncio.run(story())
