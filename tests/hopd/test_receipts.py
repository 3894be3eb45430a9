"""Receipts of real daemons in two sites: they name the position that members see, or report doubt."""

import asyncio
import itertools
import signal
from pathlib import Path

import pytest
from tests.hopd.served_cluster import SECONDS_MAX, ServedCluster
from tests.support.waiting import comes

from hopring import (
    AGREED,
    CAUSAL,
    FIFO,
    RELIABLE,
    SAFE,
    InDoubt,
    Member,
    Message,
    NoReceipt,
    Receipt,
    Session,
    View,
    connect,
    sync,
)

pytestmark = pytest.mark.slow


def test_receipts_name_the_position_that_a_remote_member_sees(served: ServedCluster) -> None:
    async def story() -> None:
        async with (
            asyncio.timeout(SECONDS_MAX),
            connect(served.url("eu1"), name="anna") as anna,
            connect(served.url("us1"), name="bert") as bert,
        ):
            group = await anna.join("g")
            services = [RELIABLE, FIFO, CAUSAL, AGREED, SAFE] * 4
            receipts = await asyncio.gather(
                *[
                    bert.multicast_wait("g", b"%d" % at, service=service, self_discard=bool(at % 2))
                    for at, service in enumerate(services)
                ]
            )
            seen: dict[int, Message] = {}
            async for message in group.messages():
                seen[int(message.data)] = message
                if len(seen) == len(services):
                    break
            for at, receipt in enumerate(receipts):
                assert (receipt.place, receipt.service) == (seen[at].place, services[at])
                assert not receipt.closing
                assert receipt.holders == (2 if receipt.service is SAFE else None)

    asyncio.run(story())


def test_the_blocking_call_does_the_same_and_a_silent_daemon_is_a_doubt(served: ServedCluster) -> None:
    with sync.connect(served.url("eu1"), name="anna") as anna, anna.join("g") as group:
        first = group.multicast_wait(b"one", timeout_seconds=SECONDS_MAX)
        second = anna.multicast_wait("elsewhere", b"two", service=SAFE, timeout_seconds=SECONDS_MAX)
        assert first.place < second.place
        assert next(group.messages()).place == first.place

        sleeper = served.daemons.processes["us1"]
        sleeper.send_signal(signal.SIGSTOP)
        with pytest.raises(NoReceipt, match="may still be delivered"):
            group.multicast_wait(b"three", service=SAFE, timeout_seconds=0.3)
        sleeper.send_signal(signal.SIGCONT)
        assert next(group.messages()).data == b"three"


def is_unread(port: int) -> bool:
    """Whether the kernel holds unread bytes for a connection at this port."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    queues = [one[4].partition(":")[2] for one in lines if int(one[1].rpartition(":")[2], 16) == port]
    return any(int(queue, 16) for queue in queues)


def test_a_daemon_that_is_killed_leaves_its_clients_in_doubt(served: ServedCluster) -> None:
    async def story() -> None:
        async with asyncio.timeout(2 * SECONDS_MAX):
            bert = await connect([served.url("us1"), served.url("eu1")], name="bert")
            sleeper = served.daemons.processes["us1"]
            sleeper.send_signal(signal.SIGSTOP)
            waiting = asyncio.ensure_future(bert.multicast_wait("g", b"x"))
            await comes(lambda: is_unread(served.ports["us1"]))
            served.daemons.kill("us1")
            with pytest.raises(InDoubt, match="the connection was lost"):
                await waiting
            receipt = await bert.multicast_wait("g", b"once more")
            assert receipt.groups == ("g",)
            assert bert.daemon == "eu1"
            await bert.close()

    asyncio.run(story())


async def counts_seen(watcher: Session, messages: int) -> dict[bytes, int]:
    """By message, the number of sessions in its groups according to the views that a member saw before it."""
    views: dict[str, tuple[Member, ...]] = {}
    seen: dict[bytes, int] = {}
    while len(seen) < messages:
        event = await watcher.receive()
        if isinstance(event, View):
            views[event.group] = event.members
        elif isinstance(event, Message):
            seen[event.data] = len({one for group in event.groups for one in views[group]})
    return seen


def test_a_receipt_counts_the_members_at_its_place_while_others_come_and_go(served: ServedCluster) -> None:
    async def come_and_go(at: str, name: str, groups: list[str], stop: asyncio.Event) -> None:
        async with connect(served.url(at), name=name, membership=False) as session:
            for group in itertools.cycle(groups):
                if stop.is_set():
                    return
                async with session.join(group):
                    await asyncio.sleep(0.003)

    async def story() -> tuple[dict[bytes, Receipt], dict[bytes, int]]:
        stop = asyncio.Event()
        async with (
            asyncio.timeout(SECONDS_MAX),
            connect(served.url("eu1"), name="watcher") as watcher,
            connect(served.url("us1"), name="bert") as bert,
            asyncio.TaskGroup() as tasks,
        ):
            for group in ("red", "blue"):
                await watcher.join(group)
            tasks.create_task(come_and_go("eu1", "e", ["red", "blue"], stop))
            tasks.create_task(come_and_go("us1", "u", ["blue", "red"], stop))
            to = [["red"], ["blue"], ["red", "blue"]]
            watching = asyncio.ensure_future(counts_seen(watcher, 150))
            receipts = {}
            for at in range(150):
                data = b"%d" % at
                service = (AGREED, SAFE, CAUSAL)[at % 7 % 3]
                receipts[data] = await bert.multicast_wait(to[at % 3], data, service=service)
            seen = await watching
            stop.set()
        return receipts, seen

    receipts, seen = asyncio.run(story())
    assert {data: one.members for data, one in receipts.items() if not one.closing} == seen
    assert len(set(seen.values())) > 1, "the number of members never changed"


def test_a_receipt_counts_the_live_session_of_a_private_group(served: ServedCluster) -> None:
    with (
        sync.connect(served.url("eu1"), name="anna") as anna,
        sync.connect(served.url("us1"), name="bert") as bert,
        sync.connect(served.url("us1"), name="carl") as carl,
        anna.join("g"),
        bert.join("g"),
    ):

        def members(*groups: str) -> int | None:
            return anna.multicast_wait(groups, b"x", timeout_seconds=SECONDS_MAX).members

        assert members(anna.private_group) == members(carl.private_group) == 1
        assert members(anna.private_group, bert.private_group, carl.private_group, "g") == 3
        assert members("#nobody#us1", "#nobody#eu1", "#carl#nowhere", "nobody") == 0
        carl.close()
        assert members(carl.private_group) == 0
        assert members(carl.private_group, bert.private_group) == 1
        assert members("nobody") == 0


def test_a_silent_daemon_delays_no_receipt_for_ever_and_its_sessions_do_not_count(
    served: ServedCluster,
) -> None:
    with (
        sync.connect(served.url("eu1"), name="anna") as anna,
        sync.connect(served.url("us1"), name="bert", reconnect=False) as bert,
    ):
        sleeper = served.daemons.processes["us1"]
        sleeper.send_signal(signal.SIGSTOP)
        try:
            receipts = [
                anna.multicast_wait(bert.private_group, b"x", service=service, timeout_seconds=SECONDS_MAX)
                for service in (RELIABLE, AGREED)
            ]
            # Meanwhile the view contains eu1 alone, and sessions at us1 are not in it.
            last = anna.multicast_wait(bert.private_group, b"x", timeout_seconds=SECONDS_MAX)
        finally:
            sleeper.send_signal(signal.SIGCONT)
        bert.abort()
    # In the closing view the count is unknown; in the next view it is known.
    assert all(one.members in (None, 0) for one in receipts)
    assert (last.members, last.closing) == (0, False)
