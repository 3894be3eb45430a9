"""Sessions in an event loop other than that of the standard library."""

import pytest

from hopring import Message, View, connect, sync

pytestmark = pytest.mark.slow

MESSAGES = 500


async def talk(urls: list[str]) -> None:
    async with connect(urls[0], name="one") as one, connect(urls[1], name="other") as other:
        groups = [await one.join("trades"), await other.join("trades")]
        while not isinstance(event := await groups[0].receive(), View) or len(event.members) < 2:
            pass
        await one.multicast("trades", bytes(100_000))
        for number in range(MESSAGES):
            await one.multicast("trades", b"%d" % number)
        for group in groups:
            got: list[bytes] = []
            while len(got) < MESSAGES + 1:
                event = await group.receive()
                if isinstance(event, Message):
                    got.append(event.data)
            assert got == [bytes(100_000), *[b"%d" % number for number in range(MESSAGES)]]


def test_a_session_works_under_uvloop() -> None:
    uvloop = pytest.importorskip("uvloop", reason="needs uvloop: make setup")

    with sync.local_cluster({"eu": 2}) as cluster:
        uvloop.run(talk([cluster.url("eu1"), cluster.url("eu2")]))
