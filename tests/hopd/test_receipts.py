"""Receipts of real daemons in two sites: the place is the one that members see, and doubts are told."""

import asyncio
import signal
from pathlib import Path

import pytest
from tests.hopd.test_clients import SECONDS_MAX, Served
from tests.waiting import comes

from hopring import AGREED, CAUSAL, FIFO, RELIABLE, SAFE, InDoubt, Message, NoReceipt, connect, sync

pytestmark = pytest.mark.slow


def test_receipts_tell_the_place_that_a_member_far_away_sees(served: Served) -> None:
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

    asyncio.run(story())


def test_the_blocking_call_does_the_same_and_a_silent_daemon_leaves_a_doubt(served: Served) -> None:
    with sync.connect(served.url("eu1"), name="anna") as anna, anna.join("g") as group:
        first = group.multicast_wait(b"one", timeout_seconds=SECONDS_MAX)
        second = anna.multicast_wait("elsewhere", b"two", service=SAFE, timeout_seconds=SECONDS_MAX)
        assert first.place < second.place
        assert next(group.messages()).place == first.place

        sleeper = served.lives.processes["us1"]
        sleeper.send_signal(signal.SIGSTOP)
        with pytest.raises(NoReceipt, match="may still be delivered"):
            group.multicast_wait(b"three", service=SAFE, timeout_seconds=0.3)
        sleeper.send_signal(signal.SIGCONT)
        assert next(group.messages()).data == b"three"


def is_unread(port: int) -> bool:
    """Whether the kernel has bytes for a connection of this port that nobody has read."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    queues = [one[4].partition(":")[2] for one in lines if int(one[1].rpartition(":")[2], 16) == port]
    return any(int(queue, 16) for queue in queues)


def test_a_daemon_that_is_killed_leaves_its_clients_in_doubt(served: Served) -> None:
    async def story() -> None:
        async with asyncio.timeout(2 * SECONDS_MAX):
            bert = await connect([served.url("us1"), served.url("eu1")], name="bert")
            sleeper = served.lives.processes["us1"]
            sleeper.send_signal(signal.SIGSTOP)
            waiting = asyncio.ensure_future(bert.multicast_wait("g", b"x"))
            await comes(lambda: is_unread(served.ports["us1"]))
            served.lives.kill("us1")
            with pytest.raises(InDoubt, match="the connection was lost"):
                await waiting
            receipt = await bert.multicast_wait("g", b"once more")
            assert receipt.groups == ("g",)
            assert bert.daemon == "eu1"
            await bert.close()

    asyncio.run(story())
