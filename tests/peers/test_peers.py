"""Peers on real sockets, on the loopback interface: in threads, in event loops, in processes of their own."""

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from itertools import count

import pytest
from tests.peers.peer_processes import peer_programs
from tests.support.waiting import until

from hopring import (
    MAJORITY,
    SAFE,
    ConnectError,
    Message,
    NotOffered,
    NotPrimary,
    Service,
    View,
    connect,
    sync,
)

pytestmark = pytest.mark.slow

_count = count()


@pytest.fixture
def domain() -> Iterator[str]:
    """A domain of its own for each test: others on this host use the same interface."""
    yield f"test-{os.getpid()}-{next(_count)}"
    until(lambda: not [one for one in threading.enumerate() if one.name == "hopring-peer"])


@pytest.mark.parametrize("host", ["thread", "loop", "process"])
def test_two_sessions_talk_wherever_their_peers_run(domain: str, host: str) -> None:
    async def talk() -> None:
        url = f"rmp:///{domain}?host={host}"
        async with connect(url, name="anna") as anna, connect(url, name="bert") as bert:
            group = await anna.join("trades")
            await bert.join("trades")
            assert [len((await view(bert)).members)] == [2]
            await group.multicast(b"EURUSD 1.0842", headers={"source": "desk 7"})
            got = await message(bert)
            assert (bytes(got.data), got.headers["source"], got.sender) == (
                b"EURUSD 1.0842",
                "desk 7",
                anna.private_group,
            )
            receipt = await group.multicast_wait(b"close", service=SAFE, timeout_seconds=60)
            assert receipt.members == 2
            assert bytes((await message(bert)).data) == b"close"
            await bert.multicast(anna.private_group, b"only you")
            assert [bytes((await message(anna)).data) for _ in range(3)][2] == b"only you"
            found = await anna.members("trades")
            assert sorted([one.name for one in found.members]) == ["anna", "bert"]

    asyncio.run(asyncio.wait_for(talk(), 60))


async def view(session: object) -> View:
    while True:
        event = await session.receive()  # type: ignore[attr-defined]
        if isinstance(event, View):
            return event


async def message(session: object) -> Message:
    while True:
        event = await session.receive()  # type: ignore[attr-defined]
        if isinstance(event, Message):
            return event


@pytest.mark.parametrize("service", list(Service))
def test_messages_of_each_service_between_blocking_sessions(domain: str, service: Service) -> None:
    url = f"rmp:///{domain}"
    with sync.connect(url, name="anna") as anna, sync.connect(url, name="bert") as bert:
        anna.join("g")
        bert.join("g")
        for number in range(100):
            anna.multicast("g", str(number).encode(), service=service)
        anna.multicast_wait("g", b"last", timeout_seconds=60)
        got: list[bytes] = []
        while b"last" not in got:
            event = bert.receive(timeout_seconds=60)
            if isinstance(event, Message):
                got.append(bytes(event.data))
    expected = [str(number).encode() for number in range(100)]
    if service.fifo:
        assert got == [*expected, b"last"]
    else:
        assert set(got) <= {*expected, b"last"}
        assert len(got) == len(set(got))


def test_a_sender_that_has_not_joined_reaches_the_members_and_is_in_no_view(domain: str) -> None:
    url = f"rmp:///{domain}"
    with sync.connect(url, name="anna") as anna, sync.connect(url, name="bert") as bert:
        anna.join("g")
        receipt = bert.multicast_wait("g", b"from outside", timeout_seconds=60)
        assert receipt.members == 1
        assert [one.name for one in bert.members("g").members] == ["anna"]
        events = [anna.receive(timeout_seconds=60) for _ in range(2)]
    assert isinstance(events[0], View)
    assert isinstance(events[1], Message)
    assert bytes(events[1].data) == b"from outside"


def test_what_rings_do_not_offer_is_refused_and_the_session_goes_on(domain: str) -> None:
    url = f"rmp:///{domain}"
    with sync.connect(url, name="anna") as anna:
        anna.join("g")
        with pytest.raises(NotOffered, match="several groups"):
            anna.multicast_wait(["g", "h"], b"x", timeout_seconds=60)
        with pytest.raises(NotOffered, match="private groups"):
            anna.multicast_wait("#bert#127.0.0.1:9", b"x", timeout_seconds=60)
        with pytest.raises(NotOffered, match="retained"):
            anna.multicast_wait("g", b"x", retain=True, timeout_seconds=60)
        with pytest.raises(NotPrimary):
            anna.multicast_wait("g", b"x", resilience=MAJORITY, timeout_seconds=60)
        assert anna.multicast_wait("g", b"x", timeout_seconds=60).members == 1


def test_a_ring_without_majority_grants_locks_to_those_who_accept_it_with_negative_fences(domain: str) -> None:
    with (
        sync.connect(f"rmp:///{domain}", name="anna") as anna,
        sync.connect(f"rmp:///{domain}", name="bert") as bert,
    ):
        ours, theirs = anna.join("g"), bert.join("g")
        with pytest.raises(NotPrimary):
            ours.lock("row", timeout_seconds=60).acquire()
        first = ours.lock("row", partial=True, timeout_seconds=60).acquire()
        ours.unlock("row", first)
        second = theirs.lock("row", partial=True, timeout_seconds=60).acquire()
        assert -(2**63) <= first < second < 0
        (listed,) = anna.locks("g")
        assert (listed.fence, listed.holder.name) == (second, "bert")  # type: ignore[union-attr]


def test_a_session_that_requires_a_primary_list_needs_a_minimum_in_its_url(domain: str) -> None:
    with pytest.raises(NotPrimary):
        sync.connect(f"rmp:///{domain}", require="primary")
    with sync.connect(f"rmp:///{domain}?minimum=majority&found=yes", require="primary") as anna:
        anna.join("g")
        first = anna.receive(timeout_seconds=60)
        assert isinstance(first, View)
        assert first.primary
        receipt = anna.multicast_wait("g", b"x", resilience=MAJORITY, timeout_seconds=60)
        assert receipt.members == 1


def test_an_address_or_interface_that_is_none_is_one_line_with_the_remedy(domain: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        urls = {
            f"rmp://127.0.0.1:{taken.getsockname()[1]}/{domain}": "a free port",
            f"rmp://192.0.2.7/{domain}?insecure=yes": "an address of this host",
            f"rmp:///{domain}?interface=none0": "ip link",
            f"rmp:///{domain}?host=loop": "host=thread",
        }
        for url, remedy in urls.items():
            with pytest.raises(ConnectError, match=remedy) as refused:
                sync.connect(url)
            assert "\n" not in str(refused.value)


def test_peers_of_different_domains_have_nothing_in_common(domain: str) -> None:
    with sync.connect(f"rmp:///{domain}a") as one, sync.connect(f"rmp:///{domain}b") as other:
        one.join("g")
        other.join("g")
        views = [session.receive(timeout_seconds=60) for session in (one, other)]
    assert [len(event.members) for event in views if isinstance(event, View)] == [1, 1]


def test_three_processes_get_all_messages_in_one_order(domain: str) -> None:
    with peer_programs(f"rmp:///{domain}", "anna", "bert", "carl") as peers:
        for peer in peers:
            peer.tell("many 500")
        for peer in peers:
            until(lambda peer=peer: len(peer.of("data")) == 1_500, lambda: [one.lines[-5:] for one in peers])  # type: ignore[misc]
        peers[0].tell("safe")
        peers[0].until("receipt", 3)
        for peer in peers:
            peer.until("data", "safe")
        orders = [peer.of("data") for peer in peers]
        places = [peer.of("place") for peer in peers]
    assert orders[0] == orders[1] == orders[2]
    assert places[0] == places[1] == places[2]
    for name in ("anna", "bert", "carl"):
        mine = [one for one in orders[0] if one.startswith(name)]
        assert mine == [f"{name} {number}" for number in range(500)]
