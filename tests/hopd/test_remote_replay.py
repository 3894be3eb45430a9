"""Replays whose spool is elsewhere: a spooler answers for it, and the live events follow without a gap."""

import asyncio
import signal
from pathlib import Path

import pytest
from tests.hopd.served_cluster import ServedCluster
from tests.hopd.spooling_cluster import SpoolingCluster, both_are_in
from tests.support.waiting import until

from hopring import Message, NoResponders, RequestFailed, View, WrongValue, connect, sync
from hopring.spool.reading import bounds

pytestmark = pytest.mark.slow
SECONDS = 60.0


def bodies(group: sync.Group, last: bytes) -> list[bytes]:
    found: list[bytes] = []
    for event in group:
        if isinstance(event, Message):
            found.append(event.data)
            if event.data == last:
                return found
    raise AssertionError("the group has ended")


def test_the_past_comes_over_the_network_and_the_live_events_follow(
    served: ServedCluster, tmp_path: Path
) -> None:
    with (
        SpoolingCluster(tmp_path / "s", served.url("eu1"), "--group", "trades") as spool,
        sync.connect(served.url("us1")) as anna,
        sync.connect(served.url("us1")) as bert,
    ):
        until(lambda: both_are_in(anna, "trades", 1))
        for number in range(600):
            anna.multicast("trades", b"%d" % number, headers={"n": str(number)} if number % 2 else None)
        anna.multicast("trades", bytes(140_000))
        anna.multicast_wait("trades", b"600")
        until(lambda: len(spool.messages()) == 602)
        with bert.join("trades", since=0, timeout_seconds=SECONDS) as group:
            anna.multicast("trades", b"live")
            found = bodies(group, b"live")

            assert [one for one in found if len(one) < 10] == [b"%d" % number for number in range(601)] + [
                b"live"
            ]
            assert len(found) == 603
            anna.multicast("trades", b"later")
            assert bodies(group, b"later") == [b"later"]


def test_a_place_is_the_same_in_all_spools_and_headers_and_views_come_along(
    served: ServedCluster, tmp_path: Path
) -> None:
    async def main() -> None:
        async with connect(served.url("us1")) as anna, connect(served.url("eu1")) as bert:
            places = []
            for number in range(10):
                receipt = await anna.multicast_wait("trades", b"%d" % number, headers={"n": str(number)})
                places.append(receipt.place)
            await asyncio.to_thread(until, lambda: all(len(one.messages()) >= 10 for one in (first, second)))
            async with bert.join("trades", since=places[5]) as group:
                await anna.multicast("trades", b"live")
                seen = []
                async for event in group:
                    seen.append(event)
                    if isinstance(event, Message) and event.data == b"live":
                        break
            messages = [one for one in seen if isinstance(one, Message)]
            assert [one.data for one in messages] == [b"6", b"7", b"8", b"9", b"live"]
            assert [one.headers.get("n") for one in messages] == ["6", "7", "8", "9", None]
            assert any(isinstance(one, View) for one in seen)

    with (
        SpoolingCluster(tmp_path / "one", served.url("eu1"), "--group", "trades") as first,
        SpoolingCluster(tmp_path / "two", served.url("us1"), "--group", "trades") as second,
        sync.connect(served.url("eu1")) as session,
    ):
        until(lambda: both_are_in(session, "trades", 2))
        asyncio.run(main())


def test_without_a_spooler_or_with_a_wrong_offset_the_join_fails_and_the_session_goes_on(
    served: ServedCluster, tmp_path: Path
) -> None:
    with sync.connect(served.url("us1")) as anna:
        with pytest.raises(NoResponders):
            anna.join("trades", since=0, timeout_seconds=SECONDS)
        with SpoolingCluster(tmp_path / "s", served.url("eu1"), "--group", "trades"):
            until(lambda: both_are_in(anna, "trades", 1))
            with pytest.raises(RequestFailed, match="OffsetMissing"):
                anna.join("trades", since=10_000, timeout_seconds=SECONDS)
            with pytest.raises(WrongValue):
                anna.join("trades", since=-1)
            assert anna.joined == ()
            with anna.join("trades", timeout_seconds=SECONDS) as group:
                anna.multicast("trades", b"x")
                assert bodies(group, b"x") == [b"x"]


def test_a_spooler_that_is_killed_and_comes_back_serves_the_rest(served: ServedCluster, tmp_path: Path) -> None:
    arguments = (tmp_path / "s", served.url("eu1"), "--group", "trades", "--name", "spooler")
    with sync.connect(served.url("us1")) as anna, sync.connect(served.url("us1")) as bert:
        with SpoolingCluster(*arguments) as spool:
            until(lambda: both_are_in(anna, "trades", 1))
            for number in range(1_500):
                anna.multicast("trades", b"%d" % number + bytes(200))
            until(lambda: len(spool.messages()) == 1_500)
            group = bert.join("trades", since=0, timeout_seconds=SECONDS)
            taken = [group.receive() for _ in range(20)]
            # The view of this join has to be in the spool before the spooler dies.
            until(lambda: bounds(tmp_path / "s" / "trades").end > 1_501)
            spool.end(signal.SIGKILL)
        with SpoolingCluster(*arguments):
            seen = len([one for one in taken if isinstance(one, Message)])
            while seen < 1_500:
                seen += isinstance(group.receive(timeout_seconds=SECONDS), Message)
        assert seen == 1_500
