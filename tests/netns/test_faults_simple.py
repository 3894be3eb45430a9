"""Daemons that die, leave and come back, a split, and loss, as clients in several groups see them.

All runs are checked by EVS-C; each test states what must hold in addition.
"""

import asyncio
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.netns.judged_cluster import ALL, BLUE, LONE, RED, JudgedCluster, messages, play
from tests.netns.recording_clients import RecordingClient
from tests.netns.three_sites import HOSTS, ThreeSites, make_config, steady_config

from hopring import Service, Transition, View
from hopring.check import trace
from hopring.config import LinkTuning, RingTuning
from hopring.local.recorder import now_us, process_of

pytestmark = [pytest.mark.netns, pytest.mark.slow]

# The silence limit is so long that anything that happens sooner was not caused by a timeout.
PATIENT = make_config(ring=RingTuning(token_loss_us=20_000_000), link=LinkTuning(silence_us=20_000_000))
SOONER_SECONDS = 12.0

# A daemon is restarted sooner than this.
ABSENT = make_config(ring=RingTuning(token_loss_us=6_000_000), link=LinkTuning(silence_us=6_000_000))


def others(*hosts: str) -> list[str]:
    return [host for host in HOSTS if host not in hosts]


def got_of(player: RecordingClient, senders: set[trace.ProcessName]) -> set[trace.MessageId]:
    """The reliable messages to the group of all that a client received from these senders."""
    return {
        one.message
        for one in player.messages()
        if one.message.sender in senders and one.groups == (ALL,) and one.service is not Service.UNRELIABLE
    }


def test_a_member_is_killed_while_all_are_idle(world: ThreeSites, tmp_path: Path) -> None:
    async def story(scene: JudgedCluster) -> None:
        since_us = now_us()
        dead = {one.process for one in scene.at("us2")}
        scene.kill("us2")
        await scene.until(lambda: scene.met(others("us2")))
        await scene.good_end()
        for player in scene.living:
            for group in {ALL, RED, BLUE} & player.views.keys():
                signal, view, *_ = player.changes(group, since_us)
                assert isinstance(signal, Transition)
                assert isinstance(view, View)
                assert view.cause == "network"
                assert view.members == view.together == signal.members
                assert not dead & {process_of(one) for one in view.members}
            # A group that the change does not affect sees no event.
            assert player.changes(LONE, since_us) == []

    play(world, tmp_path, story)


@pytest.mark.long
def test_a_token_holder_is_killed_under_load(world: ThreeSites, tmp_path: Path) -> None:
    async def story(scene: JudgedCluster) -> None:
        scene.start_sending()
        await scene.until_more(scene.living, 60)
        dead = {one.process for one in scene.at("us2")}
        # The token reaches it and is not passed on; it dies with the token.
        scene.signal(signal.SIGSTOP, "us2")
        await asyncio.sleep(0.3)
        scene.kill("us2")
        await scene.until(lambda: scene.met(others("us2")))
        await scene.until_more(scene.living, 30)
        await scene.good_end()
        got = [got_of(player, dead) for player in scene.living]
        assert got[0]
        assert all(one == got[0] for one in got)

    play(world, tmp_path, story)


def test_a_daemon_leaves_and_nobody_waits_for_a_timeout(world: ThreeSites, tmp_path: Path) -> None:
    async def story(scene: JudgedCluster) -> None:
        scene.start_sending()
        await scene.until_more(scene.living, 30)
        start_us = now_us()
        leaving = asyncio.ensure_future(scene.stop("eu2"))
        await scene.until(lambda: scene.met(others("eu2")), SOONER_SECONDS)
        print(f"a daemon's leave took {(now_us() - start_us) / 1e3:.0f} ms")
        await leaving
        start_us = now_us()
        gone = scene.client_of("us1", "b")
        await gone.close()
        await scene.until(scene.met, SOONER_SECONDS)
        print(f"a client's leave took {(now_us() - start_us) / 1e3:.0f} ms")
        await scene.good_end()
        assert all(one.saw_end_of(gone.process) for one in scene.living)

    play(world, tmp_path, story, PATIENT)


@pytest.mark.long
def test_a_daemon_is_back_before_its_death_was_noticed(world: ThreeSites, tmp_path: Path) -> None:
    async def story(scene: JudgedCluster) -> None:
        scene.start_sending()
        await scene.until_more(scene.living, 30)
        before = {one.process for one in scene.at("eu2")}
        scene.kill("eu2")
        scene.daemons.start("eu2")
        new = [
            await scene.connect_client("eu2", "a", ALL, RED),
            await scene.connect_client("eu2", "b", ALL, BLUE),
        ]
        await scene.until(scene.met)
        scene.start_sending(hosts=["eu2"])
        await scene.until_more(scene.living, 30)
        await scene.good_end()
        after = {one.process for one in new}
        assert not before & after
        for player in scene.players:
            for group in (ALL, RED, BLUE):
                for change in player.changes(group):
                    members = {process_of(one) for one in change.members}
                    assert not (members & before and members & after), "two incarnations in one view"

    play(world, tmp_path, story, ABSENT)


@pytest.mark.parametrize(
    "side",
    [("us1", "us2"), pytest.param(("ap1", "ap2", "eu1"), marks=pytest.mark.long)],
    ids=["between sites", "through a site"],
)
def test_a_split_under_load_and_the_merge(world: ThreeSites, tmp_path: Path, side: tuple[str, ...]) -> None:
    async def story(scene: JudgedCluster) -> None:
        scene.start_sending()
        await scene.until_more(scene.living, 60)
        since_us = now_us()
        world.part(*side)
        await scene.until(lambda: scene.met(side) and scene.met(others(*side)))
        await scene.until_more(scene.living, 30)
        apart = [len(one.network_views(ALL, since_us)) for one in scene.living]
        healed_us = now_us()
        world.heal()
        await scene.until(scene.met)
        await scene.until_more(scene.living, 30)
        await scene.good_end()
        merge = [len(one.network_views(ALL, healed_us)) for one in scene.living]
        # One each, unless a daemon was kept from running so long that it looked dead.
        print(f"views of each client: apart {apart}, after that {merge}")
        assert max(apart) <= 3
        assert max(merge) <= 3
        for one_side, other_side in ((side, others(*side)), (others(*side), side)):
            views = set().union(*[_views_apart(one, since_us, one_side) for one in scene.at(*one_side)])
            assert all(_got_in(one, views) for one in scene.at(*one_side))
            assert not any(_got_in(one, views) for one in scene.at(*other_side)), "replayed to the other side"

    play(world, tmp_path, story)


def _views_apart(player: RecordingClient, since_us: int, side: Sequence[str]) -> set[trace.ViewName]:
    """The daemons' views that contain only the own side of a client."""
    return {
        one.view.view
        for one in player.recorder.events
        if isinstance(one, trace.GroupInstalled)
        and one.at_us > since_us
        and one.group == ALL
        and {member.daemon for member in one.members} <= set(side)
    }


def _got_in(player: RecordingClient, views: set[trace.ViewName]) -> set[trace.MessageId]:
    """The messages that belong to these views of daemons, whenever the client received them.

    Reliable and FIFO messages of a merged view may come before the clients see that view, so their position
    counts.
    """
    return {one.message for one in player.messages() if one.ord.view in views}


@pytest.mark.parametrize(
    "percent",
    [
        pytest.param(1, marks=pytest.mark.long),
        pytest.param(10, marks=pytest.mark.long),
        pytest.param(30, marks=pytest.mark.long),
    ],
)
def test_packets_are_lost_between_sites(world: ThreeSites, tmp_path: Path, percent: int) -> None:
    async def story(scene: JudgedCluster) -> None:
        since_us = now_us()
        world.shape(loss=percent / 100)
        scene.start_sending()
        await scene.until_more(scene.living, messages(300, 2400))
        world.shape()
        await scene.good_end()
        views = {one: len(one.network_views(ALL, since_us)) for one in scene.living}
        print(f"{percent} % lost: {sum(views.values())} views of {len(views)} clients")
        if percent <= 10:
            assert set(views.values()) == {0}

    play(world, tmp_path, story, steady_config())
