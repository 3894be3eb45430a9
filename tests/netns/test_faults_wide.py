"""Links that carry in one direction or not at all, silent sites, stopped daemons; checked by EVS-C."""

import asyncio
import signal
import statistics
import time
from dataclasses import replace
from pathlib import Path

import pytest
from tests.netns.judged_cluster import ALL, WAIT_SECONDS, JudgedCluster, messages, play, seconds
from tests.netns.recording_clients import RecordingClient
from tests.netns.three_sites import HOSTS, STEADY_LINK, STEADY_RING, ThreeSites, make_config

from hopring import Message, Service, Transition
from hopring.check import trace
from hopring.local.recorder import message_name, now_us

pytestmark = [pytest.mark.netns, pytest.mark.slow]


# The output of each site carries two links. With congestion control instead of a fixed rate, 5 % loss at this
# distance leaves less than a tenth of the line.
THIN = replace(STEADY_LINK, rate_bytes_per_second=80_000)


def others(*hosts: str) -> list[str]:
    return [host for host in HOSTS if host not in hosts]


async def all_hear_all(scene: JudgedCluster) -> None:
    """Each client sends and must be received by every other; repeated until the views allow it."""
    names: set[trace.MessageId] = set()

    def heard() -> bool:
        return all(names <= {one.message for one in each.messages()} for each in scene.living)

    end = time.monotonic() + WAIT_SECONDS
    while not names or not heard():
        assert time.monotonic() < end, "clients do not receive each other"
        names = {await one.send(ALL, b"here") for one in scene.living}
        for _ in range(50):
            await asyncio.sleep(0.1)
            if heard():
                break


def test_two_sites_do_not_reach_each_other_but_both_reach_the_third(world: ThreeSites, tmp_path: Path) -> None:
    async def story(scene: JudgedCluster) -> None:
        scene.start_sending()
        await scene.until_more(scene.living, 30)
        since_us, before = now_us(), _views(scene)
        world.cut("ap", "us")
        # First the silence has to be noticed; then traffic goes by way of the third site.
        await scene.until(lambda: noticed(scene, before))
        await scene.until_more(scene.living, messages(200, 2400))
        await all_hear_all(scene)
        _look_at_rate(scene, before, (now_us() - since_us) / 1e6, "a cut link")
        world.heal()
        await all_hear_all(scene)
        await scene.good_end()

    play(world, tmp_path, story)


def noticed(scene: JudgedCluster, before: dict[str, int]) -> bool:
    """Whether every daemon has installed another view since."""
    return all(count > before[name] for name, count in _views(scene).items())


def _views(scene: JudgedCluster) -> dict[str, int]:
    """The number of views that each daemon has installed; clients see only those that change their groups."""
    return {name: sum(row.kind == "view" for row in scene.daemons.rows(name)) for name in HOSTS}


def _look_at_rate(scene: JudgedCluster, before: dict[str, int], long_seconds: float, what: str) -> None:
    views = {name: count - before[name] for name, count in _views(scene).items()}
    print(f"{what}: views of daemons in {long_seconds:.0f} s: {views}")
    assert min(views.values()) >= 1, "the fault was not noticed"
    assert max(views.values()) <= 4 + long_seconds / 2, "too many views"


@pytest.mark.long
@pytest.mark.parametrize("deaf", ["a site", "a host"])
def test_a_link_carries_one_way_only(world: ThreeSites, tmp_path: Path, deaf: str) -> None:
    async def story(scene: JudgedCluster) -> None:
        scene.start_sending()
        await scene.until_more(scene.living, 30)
        since_us, before = now_us(), _views(scene)
        if deaf == "a site":
            world.block(("ap", "us"))
        else:
            world.lab.ip("ap1", "rule", "add", "to", "10.81.1.2/32", "blackhole", "pref", "1")
        try:
            await scene.until(lambda: noticed(scene, before))
            await scene.until_more(scene.living, messages(200, 2400))
            # Whatever the view, nobody's messages wait for ever.
            said = {one: await one.send(ALL, b"mine") for one in scene.living}
            await scene.until(lambda: all(_has(one, said[one]) for one in said))
            _look_at_rate(scene, before, (now_us() - since_us) / 1e6, f"one way to {deaf}")
        finally:
            if deaf != "a site":
                world.lab.ip("ap1", "rule", "del", "pref", "1")
        world.heal()
        await scene.until(scene.met)
        await scene.good_end()

    play(world, tmp_path, story)


def _heard_us(player: RecordingClient, name: trace.MessageId) -> int:
    """The time at which a client got a message; 0 if it has not."""
    events = reversed(player.recorder.events)
    times_us = (one.at_us for one in events if isinstance(one, trace.ClientDelivered) and one.message == name)
    return next(times_us, 0)


def _has(player: RecordingClient, name: trace.MessageId) -> bool:
    return bool(_heard_us(player, name))


@pytest.mark.long
def test_a_stopped_daemon_continues_with_all_its_input_queued(world: ThreeSites, tmp_path: Path) -> None:
    async def story(scene: JudgedCluster) -> None:
        scene.start_sending()
        await scene.until_more(scene.living, 30)
        sleepers = scene.at("us1")
        scene.signal(signal.SIGSTOP, "us1")
        await scene.until(lambda: scene.met(others("us1")))
        await scene.until_more(scene.at(*others("us1")), messages(80, 800))
        asleep = {await one.send(ALL, b"asleep") for one in sleepers}
        scene.signal(signal.SIGCONT, "us1")
        await scene.until(scene.met)
        await all_hear_all(scene)
        await scene.good_end()
        for player in sleepers:
            assert asleep <= {one.message for one in player.messages()}

    play(world, tmp_path, story)


def test_a_representative_dies_under_load(world: ThreeSites, tmp_path: Path) -> None:
    async def story(scene: JudgedCluster) -> None:
        scene.start_sending()
        await scene.until_more(scene.living, 60)
        scene.kill("eu1")
        await scene.until(lambda: scene.met(others("eu1")))
        await scene.until_more(scene.living, 30)
        await scene.good_end()
        # No hole: every message of a survivor to all reached all survivors, before, during and after the crash.
        for sender in scene.living:
            sent = _sent_to_all(sender)
            assert sent
            for player in scene.living:
                missing = sent - {one.message for one in player.messages()}
                own = {one for one in missing if player is sender and one in _discarded(sender)}
                assert missing == own

    play(world, tmp_path, story)


def _sent_to_all(player: RecordingClient) -> set[trace.MessageId]:
    sends = [one for one in player.recorder.events if isinstance(one, trace.ClientSent)]
    return {one.message for one in sends if ALL in one.groups and one.service is not Service.UNRELIABLE}


def _discarded(player: RecordingClient) -> set[trace.MessageId]:
    sends = [one for one in player.recorder.events if isinstance(one, trace.ClientSent)]
    return {one.message for one in sends if one.self_discard}


@pytest.mark.long
def test_slow_thin_lossy_links(world: ThreeSites, tmp_path: Path) -> None:
    async def story(scene: JudgedCluster) -> None:
        world.shape(delay_us=285_000, loss=0.05, rate_bits_per_second=1_500_000, queue_bytes_max=64_000)
        at_first = {name: _resident_bytes(scene, name) for name in HOSTS}
        for player in scene.living:
            player.start_sending([(ALL,), ("eu",)], 0.5)
        near = [
            await scene.connect_client("eu1", "near", "eu"),
            await scene.connect_client("eu2", "near", "eu"),
        ]
        times_ms = []
        end_us = now_us() + int(seconds(10, 600) * 1e6)
        while now_us() < end_us:
            start_us = now_us()
            name = await near[0].send("eu", b"near", Service.FIFO)
            await scene.until(lambda name=name: _has(near[1], name))  # type: ignore[misc]
            times_ms.append((_heard_us(near[1], name) - start_us) / 1e3)
            await asyncio.sleep(0.1)
        grown = {name: _resident_bytes(scene, name) - at_first[name] for name in HOSTS}
        print(f"FIFO inside a site: median {statistics.median(times_ms):.0f} ms, worst {max(times_ms):.0f} ms")
        print(f"memory grew by {max(grown.values()) >> 10} KiB at most")
        assert max(grown.values()) < 64 << 20
        for player in scene.living:
            await player.stop_sending()
        world.shape()
        await scene.good_end(seconds=120)

    play(world, tmp_path, story, make_config(ring=STEADY_RING, link=THIN))


def _resident_bytes(scene: JudgedCluster, name: str) -> int:
    status = Path(f"/proc/{scene.daemons.processes[name].pid}/statm").read_text()
    return int(status.split()[1]) * 4096


@pytest.mark.long
def test_a_site_falls_silent_while_messages_wait_for_its_stamp(world: ThreeSites, tmp_path: Path) -> None:
    async def story(scene: JudgedCluster) -> None:
        silent = ["us1", "us2"]
        scene.signal(signal.SIGSTOP, *silent)
        await asyncio.sleep(0.5)
        said = {one: await one.send(ALL, b"waits") for one in scene.at(*others(*silent))}
        await scene.until(lambda: all(_has(one, said[one]) for one in said))
        await scene.until(lambda: scene.met(others(*silent)))
        for player, name in said.items():
            kinds = [
                type(one)
                for _, one in player.seen
                if isinstance(one, Transition) or (isinstance(one, Message) and message_name(one.data) == name)
            ]
            assert kinds.index(Transition) < kinds.index(Message), "the message did not wait"
        scene.signal(signal.SIGCONT, *silent)
        await scene.until(scene.met)
        await all_hear_all(scene)
        await scene.good_end()

    play(world, tmp_path, story)
