"""Clients of real daemons that lose their connections: they come back, and nothing is sent twice."""

import asyncio
import time

import pytest
from tests.hopd.cutting_proxy import Proxy
from tests.hopd.served_cluster import SECONDS_MAX, ServedCluster, data, meet, take
from tests.support.waiting import comes

from hopring import (
    Event,
    Group,
    Reconnect,
    Reconnected,
    Session,
    SessionClosed,
    Transition,
    View,
    connect,
    sync,
)

pytestmark = pytest.mark.slow


async def until_back(stream: Group | Session) -> tuple[list[Event], Reconnected]:
    """Receives up to the reconnection; returns the events before it and the reconnection."""
    seen: list[Event] = []
    while True:
        event = await stream.receive()
        if isinstance(event, Reconnected):
            return seen, event
        seen.append(event)


def test_a_client_of_a_killed_daemon_reconnects_to_the_other_and_rejoins_its_groups(
    served: ServedCluster,
) -> None:
    async def story() -> None:
        urls = [served.url("us1"), served.url("eu1")]
        async with (
            asyncio.timeout(2 * SECONDS_MAX),
            connect(served.url("eu1"), name="anna") as anna,
            connect(urls, name="bert") as bert,
        ):
            groups = [await one.join("trades") for one in (anna, bert)]
            other = await bert.join("news")
            await meet(*groups)
            before = time.time()
            served.daemons.kill("us1")
            _, back = await until_back(groups[1])
            assert (back.groups, back.daemon, back.private_group) == (("news", "trades"), "eu1", "#bert#eu1")
            assert before <= back.gap.lost_at_seconds <= back.gap.back_at_seconds <= time.time()
            assert (bert.daemon, bert.private_group) == ("eu1", "#bert#eu1")
            view = await groups[1].receive()
            assert isinstance(view, View)
            assert (view.cause, [one.name for one in view.together]) == ("join", ["bert"])
            assert [type(await other.receive()) for _ in range(3)] == [View, Reconnected, View]

            await groups[1].multicast(b"again")
            (seen, here) = await asyncio.gather(take(groups[0], 1), take(groups[1], 1))
            assert (data(seen), data(here)) == ([b"again"], [b"again"])
            causes = [event.cause for event in seen if isinstance(event, View)]
            assert sorted(causes) == ["join", "network"]
            assert sum(isinstance(event, Transition) for event in seen) == 1

    asyncio.run(story())


def test_a_blocking_client_waits_for_its_daemon_to_be_started_again(served: ServedCluster) -> None:
    with sync.connect(served.url("us1"), name="bert") as bert, bert.join("g") as group:
        assert isinstance(group.receive(timeout_seconds=SECONDS_MAX), View)
        served.daemons.kill("us1")
        served.daemons.start("us1")
        back = group.receive(timeout_seconds=SECONDS_MAX)
        assert isinstance(back, Reconnected)
        assert (back.private_group, back.groups) == ("#bert#us1", ("g",))
        assert back.gap.tries > 1
        group.multicast(b"again")
        assert isinstance(group.receive(timeout_seconds=SECONDS_MAX), View)
        assert next(group.messages()).data == b"again"


def test_a_daemon_that_is_ended_sends_its_clients_to_another(served: ServedCluster) -> None:
    async def story() -> None:
        async with (
            asyncio.timeout(2 * SECONDS_MAX),
            connect(f"{served.url('us1')},{served.url('eu1')}", name="bert") as bert,
        ):
            await bert.join("g")
            await asyncio.to_thread(served.daemons.stop, "us1")
            seen, back = await until_back(bert)
            assert {type(event) for event in seen} <= {View, Transition}
            assert (back.gap.reason, back.daemon) == ("the daemon ends", "eu1")

    asyncio.run(story())


def test_a_client_gets_its_name_back_once_the_daemon_has_noticed_the_lost_connection(
    served: ServedCluster,
) -> None:
    async def story() -> None:
        async with (
            asyncio.timeout(2 * SECONDS_MAX),
            Proxy(served.ports["eu1"]) as proxy,
            connect(proxy.url, name="anna") as anna,
        ):
            group = await anna.join("g")
            await group.receive()
            proxy.cut_clients()
            waiting = asyncio.ensure_future(group.receive())
            # It tries again only after the last attempt was refused.
            await comes(lambda: proxy.accepted >= 4)
            assert not waiting.done()
            proxy.cut_daemon()
            back = await waiting
            assert isinstance(back, Reconnected)
            assert back.gap.tries > 1
            assert anna.private_group == "#anna#eu1"

    asyncio.run(story())


def test_a_connection_that_breaks_repeatedly_sends_nothing_twice_and_counts_messages_in_doubt(
    served: ServedCluster,
) -> None:
    async def talk(session: Session, numbers: list[int]) -> None:
        while True:
            await session.multicast("g", b"%d" % len(numbers))
            numbers.append(len(numbers))
            if len(numbers) % 5 == 0:
                await asyncio.sleep(0)

    async def story() -> None:
        soon = Reconnect(delay_seconds_min=0.02, delay_seconds_max=0.1)
        async with (
            asyncio.timeout(2 * SECONDS_MAX),
            Proxy(served.ports["us1"]) as proxy,
            connect(served.url("eu1"), name="anna") as anna,
            connect(proxy.url, name="bert", reconnect=soon) as bert,
        ):
            group = await anna.join("g")
            sent: list[int] = []
            talking = asyncio.ensure_future(talk(bert, sent))
            doubts = 0
            for _ in range(8):
                before = len(sent)
                await comes(lambda before=before: len(sent) >= before + 100)  # type: ignore[misc]
                proxy.cut_clients()
                proxy.cut_daemon()
                doubts += (await until_back(bert))[1].gap.in_doubt
            talking.cancel()
            await bert.multicast("g", b"end")
            got: list[int] = []
            async for message in group.messages():
                if message.data == b"end":
                    break
                got.append(int(message.data))
            assert got == sorted(set(got))
            missing = set(range(len(sent))) - set(got)
            assert len(missing) <= doubts
            assert len(got) > 50

    asyncio.run(story())


def test_reconnecting_can_be_switched_off(served: ServedCluster) -> None:
    with sync.connect(served.url("us1"), reconnect=False) as bert:
        served.daemons.kill("us1")
        with pytest.raises(SessionClosed, match="the daemon is gone; connect again"):
            bert.receive(timeout_seconds=SECONDS_MAX)
