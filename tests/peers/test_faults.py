"""Faults of real peers: kills, a split with a majority, a return, and locks; their traces are judged."""

import os
import signal
import time
from collections.abc import Callable, Iterator

import pytest

from hopring import (
    MAJORITY,
    GroupSuspended,
    Member,
    Message,
    NotPrimary,
    SessionClosed,
    Suspended,
    TimedOut,
    Transition,
    View,
    sync,
)
from hopring.check.properties.property import Verdict
from hopring.check.rmp.client_form import check_rings
from hopring.check.rmp.peer_judge import check_peers
from hopring.client.events import Event

pytestmark = pytest.mark.slow

SECONDS_MAX = 90.0
VIEW_SECONDS = 30.0
"""A busy machine takes longer than the half second that a kill needs."""


class Watched:
    """A session whose events are kept."""

    def __init__(self, peers: sync.Peers, name: str, **options: object) -> None:
        self.session = peers.connect(name, **options)
        self.group = self.session.join("g", timeout_seconds=SECONDS_MAX)
        self.events: list[Event] = []

    def until(self, accepts: Callable[[Event], object], seconds: float = SECONDS_MAX) -> Event:
        """Waits for an event; the ones before it are kept, too."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                event = self.session.receive(timeout_seconds=0.2)
            except TimedOut:
                continue
            self.events.append(event)
            if accepts(event):
                return event
        raise AssertionError(f"waited in vain; the last events: {self.events[-5:]}")

    def has(self, data: bytes) -> bool:
        """Whether this message has come."""
        return any(isinstance(one, Message) and one.data == data for one in self.events)

    def view(self, *names: str) -> View:
        """Waits for a view of just these."""
        event = self.until(lambda one: isinstance(one, View) and called(one.members) == sorted(names))
        assert isinstance(event, View)
        return event


def called(members: tuple[Member, ...]) -> list[str]:
    return sorted([one.name for one in members])


@pytest.fixture
def judged(hop_peers: Callable[..., sync.Peers]) -> Iterator[Callable[..., sync.Peers]]:
    """Makes peers whose traces keep all promises in the end."""
    made: list[sync.Peers] = []

    def make(*arguments: object, **options: object) -> sync.Peers:
        made.append(hop_peers(*arguments, **options))
        return made[-1]

    yield make
    for peers in made:
        history = peers.histories()["g"]
        assert len(history) > 10
        wrong: list[Verdict] = [one for one in check_peers(history, False) if not one]
        wrong += [one for one in check_rings(history, False) if not one]
        assert not wrong


def test_the_others_go_on_within_moments_of_a_kill_and_know_who_stays_together(
    judged: Callable[..., sync.Peers],
) -> None:
    peers = judged(3)
    one, two, three = [Watched(peers, name) for name in peers.names]
    for each in (one, two):
        each.view("p1", "p2", "p3")
    began = time.monotonic()
    peers.crash("p3")
    for each in (one, two):
        signal = each.until(lambda event: isinstance(event, Transition), VIEW_SECONDS)
        assert isinstance(signal, Transition)
        assert called(signal.members) == ["p1", "p2"]
        view = each.view("p1", "p2")
        assert (view.cause, called(view.together), view.primary) == ("network", ["p1", "p2"], False)
    assert time.monotonic() - began < VIEW_SECONDS
    assert one.group.multicast_wait(b"on", timeout_seconds=SECONDS_MAX).members == 2
    two.until(lambda event: isinstance(event, Message))
    with pytest.raises(SessionClosed):
        three.until(lambda _: False)
    back = Watched(peers, "p3")
    for each in (one, two, back):
        assert each.view("p1", "p2", "p3").cause == "join"
    for each in (one, two, back):
        each.session.close()


def test_of_five_split_three_to_two_the_three_go_on_and_the_two_come_back_as_new_members(
    judged: Callable[..., sync.Peers],
) -> None:
    peers = judged(5, minimum=MAJORITY)
    members = {name: Watched(peers, name) for name in peers.names}
    for one in members.values():
        assert one.view(*peers.names).primary
    peers.partition({"p1", "p2", "p3"}, {"p4", "p5"})
    for name in ("p1", "p2", "p3"):
        view = members[name].view("p1", "p2", "p3")
        assert (view.cause, view.primary, view.minimum) == ("network", True, MAJORITY)
    for name in ("p4", "p5"):
        members[name].until(lambda event: isinstance(event, Suspended))
    receipt = members["p1"].group.multicast_wait(b"on", resilience=MAJORITY, timeout_seconds=SECONDS_MAX)
    assert receipt.members == 3
    with pytest.raises(NotPrimary):
        members["p4"].group.multicast_wait(b"x", resilience=MAJORITY, timeout_seconds=SECONDS_MAX)
    members["p4"].group.multicast(b"waits")
    peers.heal()
    back = {name: members[name].view(*peers.names) for name in peers.names}
    assert all(view.primary for view in back.values())
    # Both come back one after the other; the first view of each has it together with nobody of the three.
    for name in ("p4", "p5"):
        views = [one for one in members[name].events if isinstance(one, View)]
        again = next(view for view in views if view.cause == "network")
        assert called(again.together) == [name]
        members[name].group.multicast(name.encode())
    if not members["p1"].has(b"waits"):
        members["p1"].until(lambda _: members["p1"].has(b"waits"))
    for one in members.values():
        one.session.close()


def test_with_less_than_its_minimum_a_ring_is_suspended_and_messages_wait_or_fail(
    judged: Callable[..., sync.Peers],
) -> None:
    peers = judged(2, minimum=2)
    one = Watched(peers, "p1", when_suspended="fail")
    two = Watched(peers, "p2")  # Kept: a session ends when nobody has it any more.
    for each in (one, two):
        each.view("p1", "p2")
    peers.crash("p2")
    suspended = one.until(lambda event: isinstance(event, Suspended))
    assert isinstance(suspended, Suspended)
    assert (called(suspended.members), suspended.minimum) == (["p1"], 2)
    with pytest.raises(GroupSuspended):
        one.group.multicast_wait(b"x", timeout_seconds=SECONDS_MAX)
    assert one.session.members("g").suspended
    one.session.abort()


def test_the_lock_of_a_killed_holder_goes_on_with_a_higher_fence(judged: Callable[..., sync.Peers]) -> None:
    peers = judged(3, minimum=MAJORITY)
    members = [Watched(peers, name) for name in peers.names]
    members[0].view(*peers.names)
    old = members[2].group.lock("row", timeout_seconds=SECONDS_MAX).acquire()
    began = time.monotonic()
    peers.crash("p3")
    fence = members[0].group.lock("row", timeout_seconds=SECONDS_MAX).acquire()
    assert time.monotonic() - began < VIEW_SECONDS
    assert fence > old
    members[0].group.unlock("row", fence)
    for one in members[:2]:
        one.session.close()


def test_a_peer_that_was_stopped_learns_that_it_was_removed_and_comes_back(
    judged: Callable[..., sync.Peers],
) -> None:
    peers = judged(3)
    members = [Watched(peers, name) for name in peers.names]
    for one in members:
        one.view("p1", "p2", "p3")
    stopped = peers.status("p3")["pid"]
    os.kill(stopped, signal.SIGSTOP)
    try:
        for one in members[:2]:
            one.view("p1", "p2")
        members[2].group.multicast(b"late")
        assert members[0].group.multicast_wait(b"on", timeout_seconds=SECONDS_MAX).members == 2
    finally:
        os.kill(stopped, signal.SIGCONT)
    for one in members:
        one.view("p1", "p2", "p3")
    back = [one for one in members[2].events if isinstance(one, View) and one.cause == "network"]
    assert ["p3"] in [called(one.together) for one in back]
    assert members[2].group.multicast_wait(b"again", timeout_seconds=SECONDS_MAX).members == 3
    for one in members:
        one.session.close()


def test_a_ring_that_meets_a_greater_one_of_its_name_joins_it(judged: Callable[..., sync.Peers]) -> None:
    peers = judged(3)
    members = {}
    for name in peers.names:
        if name == "p3":
            peers.partition({"p1", "p2"}, {"p3"})
        members[name] = Watched(peers, name)
    members["p1"].view("p1", "p2")
    if not [one for one in members["p3"].events if isinstance(one, View)]:
        members["p3"].until(lambda event: isinstance(event, View))
    peers.heal()
    for one in members.values():
        one.view("p1", "p2", "p3")
    assert members["p2"].group.multicast_wait(b"x", timeout_seconds=SECONDS_MAX).members == 3
    for one in members.values():
        one.session.close()


def test_peers_tell_their_status_and_refuse_requests_that_are_none(
    hop_peers: Callable[..., sync.Peers],
) -> None:
    peers = hop_peers(1)
    one = Watched(peers, "p1")
    one.view("p1")
    status = peers.status("p1")
    (ring,) = status["groups"]
    assert (status["session"], ring["group"], ring["phase"], ring["token"]) == ("p1", "g", "in", True)
    assert ring["members"] == [f"p1@{status['process']}"]
    assert ring["hears_multicast"]
    assert status["pid"] != os.getpid()
    assert min(status["buffers_bytes"]) > 0
    one.session.close()
