"""Clients that die, join, leave and read slowly, and a daemon with little processor time; checked by EVS-C."""

import asyncio
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.netns.judged_cluster import ALL, BLUE, RED, JudgedCluster, messages, play, seconds
from tests.netns.recording_clients import RecordingClient, bodies
from tests.netns.three_sites import ThreeSites, steady_config
from tests.support.waiting import comes

from hopring import Message, Service, SlowConsumer, View
from hopring.check.trace import MessageId
from hopring.local.recorder import message_body, message_name, now_us, process_of
from hopring.session.frames import FrameKind, encode_frame
from hopring.wire.bundle import BundleKey, encode_bundle

pytestmark = [pytest.mark.netns, pytest.mark.slow]


def test_a_client_dies_with_half_a_frame_sent(world: ThreeSites, tmp_path: Path) -> None:
    async def story(scene: JudgedCluster) -> None:
        scene.start_sending()
        victim = await scene.connect_client("ap2", "victim", ALL, RED)
        await scene.until(scene.met)
        whole = await victim.send(ALL, b"whole")
        await victim.cut_off(half=_half_a_frame(victim))
        rest = scene.living
        await scene.until(lambda: all(one.saw_end_of(victim.process) for one in rest))
        await scene.good_end()
        for player in rest:
            own = [one for one in bodies(player, ALL) if message_name(one.data).sender == victim.process]
            assert [message_name(one.data) for one in own] == [whole]
            causes = [one.cause for one in player.changes(ALL) if isinstance(one, View) and _is(one, victim)]
            assert causes == ["join", "disconnect"]

    play(world, tmp_path, story, steady_config())


def _half_a_frame(player: RecordingClient) -> bytes:
    """The first part of a frame that would be valid if it were complete."""
    data = player.recorder.note_send((ALL,), Service.AGREED, bytes(1_000))
    welcome = player.session._core.welcomed
    key = BundleKey(welcome.daemon_number, welcome.session, Service.AGREED, (ALL,), False)  # type: ignore[arg-type]
    return encode_frame(FrameKind.SEND, encode_bundle(key, [data, data], [0, 0], [0, 0]))[:-500]


def _is(view: View, player: RecordingClient) -> bool:
    return view.who is not None and process_of(view.who) == player.process


def test_joins_and_leaves_while_apart_are_not_undone_by_the_merge(world: ThreeSites, tmp_path: Path) -> None:
    async def story(scene: JudgedCluster) -> None:
        scene.start_sending()
        far, near = ["us1", "us2"], ["ap1", "ap2", "eu1", "eu2"]
        since_us = now_us()
        world.part(*far)
        await scene.until(lambda: scene.met(far) and scene.met(near))
        leaver, left = scene.client_of("us1", "a"), scene.client_of("eu1", "b")
        await asyncio.gather(leaver.leave(ALL), left.leave(BLUE))
        await asyncio.gather(left.join(RED), scene.connect_client("us2", "late", ALL, BLUE))
        await scene.until(lambda: scene.met(far) and scene.met(near))
        world.heal()
        await scene.until(scene.met)
        await scene.until_more(scene.living, 30)
        await scene.good_end()
        assert leaver.process not in scene.client_of("ap1", "a").members(ALL)
        assert left.process not in scene.client_of("us1", "b").members(BLUE)
        assert left.process in scene.client_of("us1", "a").members(RED)
        merged = [one.network_views(ALL, since_us)[-1] for one in scene.living if one is not leaver]
        for view in merged:
            assert leaver.process not in {process_of(one) for one in view.members}

    play(world, tmp_path, story)


@pytest.mark.long
def test_a_leave_followed_by_a_join_is_two_events_for_every_member(world: ThreeSites, tmp_path: Path) -> None:
    async def story(scene: JudgedCluster) -> None:
        scene.start_sending()
        restless = [scene.client_of("eu1", "a"), scene.client_of("us2", "a")]
        since_us = now_us()
        witness = next(one for one in scene.living if RED in one.views and one not in restless)

        def moves() -> int:
            views = [one for one in witness.changes(RED, since_us) if isinstance(one, View)]
            return sum(_is(view, one) for view in views for one in restless)

        for at in range(10):
            await asyncio.gather(*[ask for one in restless for ask in (one.leave(RED), one.join(RED))])
            await scene.until(lambda at=at: moves() == 4 * (at + 1))  # type: ignore[misc]
        await scene.until(scene.met)
        await scene.good_end()
        stories = []
        for player in scene.living:
            if RED in player.views and player not in restless:
                views = [one for one in player.changes(RED, since_us) if isinstance(one, View)]
                assert all(one.cause in ("leave", "join") for one in views)
                stories.append([one.id for one in views])
                for one in restless:
                    assert [view.cause for view in views if _is(view, one)] == ["leave", "join"] * 10
        assert len(stories) == 4
        assert all(one == stories[0] for one in stories)

    play(world, tmp_path, story, steady_config())


async def _round_trips_ms(player: RecordingClient, count: int) -> list[float]:
    """Repeatedly measures how long an Agreed message to the group of all takes back to its sender."""
    times_ms = []
    for _ in range(count):
        start_us = now_us()
        name = await player.send(ALL, b"latency")

        def is_back(name: MessageId = name) -> bool:
            last = [one for _, one in player.seen[-50:] if isinstance(one, Message)]
            return any(message_name(one.data) == name for one in last)

        await comes(is_back, look_seconds=0.001)
        times_ms.append((now_us() - start_us) / 1e3)
    return times_ms


def test_a_slow_client_is_disconnected_and_the_others_do_not_wait(world: ThreeSites, tmp_path: Path) -> None:
    async def story(scene: JudgedCluster) -> None:
        slow = await scene.connect_client("eu1", "slow", ALL, "bulk")
        bulky = await scene.connect_client("eu1", "bulky", "bulk")
        await scene.until(scene.met)
        watcher = scene.client_of("us1", "a")

        async def flood() -> None:
            while not bulky.saw_end_of(slow.process):
                await bulky.send("bulk", bytes(20_000), Service.FIFO)
                await asyncio.sleep(0.005)

        # The same traffic before and during: an idle ring would be slower, because its token rests.
        flooding = asyncio.ensure_future(flood())
        before_ms = await _round_trips_ms(watcher, 30)
        await slow.stop_reading()
        while_ms = await _round_trips_ms(watcher, 30)
        still_there = not bulky.saw_end_of(slow.process)
        await flooding
        moved = statistics.median(while_ms) / statistics.median(before_ms) - 1
        figures = (
            f"median {statistics.median(before_ms):.0f} ms before, {statistics.median(while_ms):.0f} ms while"
        )
        print(f"a slow client: {figures}, {100 * moved:+.0f} %, all of it: {still_there}")
        slow.read_on()
        await scene.until(lambda: slow.ended is not None)
        assert isinstance(slow.ended, SlowConsumer)
        slow.recorder.note_end()
        slow.died = True
        await scene.good_end()
        bulk = [one for one in bodies(bulky, "bulk") if len(message_body(one.data)) == 20_000]
        assert len(bulk) > 200, "the slow client was disconnected at once"

    play(world, tmp_path, story, steady_config())


@contextmanager
def little_processor_time(pid: int, percent: int) -> Iterator[None]:
    """Limits a process to this share of one core."""
    root = Path("/sys/fs/cgroup")
    second = (root / "cgroup.controllers").exists()
    parent = root if second else root / "cpu"
    group = parent / f"hopring-{pid}"
    try:
        if second:
            (root / "cgroup.subtree_control").write_text("+cpu")
        group.mkdir()
        quota = (
            {"cpu.max": f"{percent * 1_000} 100000"} if second else {"cpu.cfs_quota_us": f"{percent * 1_000}"}
        )
        for name, value in quota.items():
            (group / name).write_text(value)
        (group / "cgroup.procs").write_text(str(pid))
    except OSError as error:
        pytest.skip(f"this machine does not let us limit processor time ({error})")
    try:
        yield
    finally:
        (parent / "cgroup.procs").write_text(str(pid))
        group.rmdir()


@pytest.mark.long
def test_a_daemon_has_a_tenth_of_a_core(world: ThreeSites, tmp_path: Path) -> None:
    async def story(scene: JudgedCluster) -> None:
        since_us = now_us()
        with little_processor_time(scene.daemons.processes["eu2"].pid, percent=10):
            scene.start_sending(0.5)
            await scene.until_more(scene.living, messages(150, 900))
            got = {one: len(one.messages()) for one in scene.living}
            await scene.until(lambda: all(len(one.messages()) > got[one] for one in got))
        await scene.good_end()
        views = max(len(one.network_views(ALL, since_us)) for one in scene.living)
        print(f"a daemon at 10 %: {views} views")
        assert views <= seconds(10, 40), "the view rate is bounded"

    play(world, tmp_path, story)
