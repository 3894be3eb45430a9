"""Cuts and delays by the admin channel: of datagrams, of connections, and their effect on members."""

import json
from pathlib import Path
from random import Random

import pytest
from tests.support.free_ports import free_base_port
from tests.unit.daemon.membership_hosts import members_of, two_sites
from tests.unit.daemon.shaped_outbox import HERE, THERE, Outbox
from tests.unit.daemon.stream_ends import HIGH, LOW, End, greeting
from tests.unit.daemon.waiting import run_until

from hopring.config import AdminVerb, LinkProtocol, local_config
from hopring.daemon.admin.controls import DaemonControls, DeliveryCounters
from hopring.daemon.admin.description import DaemonDescription
from hopring.daemon.admin.protocol import answer
from hopring.daemon.log import DaemonLog
from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.net.datagrams import Datagrams
from hopring.daemon.net.shaper import DatagramShaper, Shape
from hopring.ids import DaemonId, Incarnation, Process
from hopring.links.events import StreamClosed
from hopring.services import Service
from hopring.wire.train import MembershipFrame, Packet, Train

TRAIN = Train(b"abc", 3)


def test_a_cut_loses_everything_there_and_healing_brings_the_shape_back(loop: Loop) -> None:
    outbox = Outbox(loop)
    shaper = DatagramShaper(loop, outbox.send, Random(1))
    shaper.shape(THERE, Shape(delay_us=1_000))
    shaper.cut([THERE])
    shaper.send(TRAIN, THERE)
    shaper.send(TRAIN, HERE)
    shaper.cut([])
    start_us = loop.now_us()
    shaper.send(TRAIN, THERE)
    run_until(loop, lambda: len(outbox.trains) == 2)

    assert shaper.lost == 1
    assert [address for _, _, address in outbox.trains] == [HERE, THERE]
    assert outbox.trains[1][0] >= start_us + 1_000


def test_an_empty_shape_removes_the_shape(loop: Loop) -> None:
    outbox = Outbox(loop)
    shaper = DatagramShaper(loop, outbox.send, Random(1))
    shaper.shape(THERE, Shape(delay_us=1_000))
    shaper.shape(THERE, Shape())
    shaper.send(Train(b"aaabbbc", 3), THERE)

    assert [train.buffer for _, train, _ in outbox.trains] == [b"aaabbbc"]


def some_turns(loop: Loop) -> None:
    for _ in range(50):
        loop.call_soon(lambda: None)
        loop.turn()


def test_a_connection_that_is_cut_stands_still_and_goes_on_when_healed(loop: Loop) -> None:
    port = free_base_port(3)
    low, high = End(loop, LOW, port), End(loop, HIGH, port)
    high.begin(7, LOW)
    low.begin(7, HIGH)
    run_until(loop, lambda: bool(low.told))
    low.streams.write(HIGH, greeting(LOW, 7))
    run_until(loop, lambda: bool(high.told))
    low.streams.cut([HIGH])
    low.streams.write(HIGH, b"held back here")
    high.streams.write(LOW, b"held back there")
    some_turns(loop)

    assert high.heard(7) == greeting(LOW, 7)
    assert low.heard(7) == b""

    low.streams.cut([])
    run_until(loop, lambda: high.heard(7).endswith(b"here") and low.heard(7).endswith(b"there"))
    low.streams.close()
    high.streams.close()


def test_the_other_ends_end_is_not_noticed_through_a_cut(loop: Loop) -> None:
    port = free_base_port(3)
    low, high = End(loop, LOW, port), End(loop, HIGH, port)
    high.begin(7, LOW)
    low.begin(7, HIGH)
    run_until(loop, lambda: bool(low.told))
    low.streams.write(HIGH, greeting(LOW, 7))
    run_until(loop, lambda: bool(high.told))
    high.streams.cut([LOW])
    low.begin(8)
    some_turns(loop)

    assert StreamClosed not in high.kinds(7)

    low.begin(9, HIGH)
    run_until(loop, lambda: len(low.kinds(9)) == 1)
    low.streams.write(HIGH, greeting(LOW, 9))
    high.begin(9, LOW)
    run_until(loop, lambda: StreamClosed in low.kinds(9))
    low.streams.close()
    high.streams.close()


def test_a_connection_is_delayed_in_this_network_and_in_the_next(loop: Loop) -> None:
    port = free_base_port(3)
    low, high = End(loop, LOW, port), End(loop, HIGH, port)
    low.streams.shape(HIGH, Shape(delay_us=20_000, loss=0.5))
    for generation in (7, 8):
        high.begin(generation, LOW)
        low.begin(generation, HIGH)
        run_until(loop, lambda at=generation: bool(low.kinds(at)))  # type: ignore[misc]
        start_us = loop.now_us()
        low.streams.write(HIGH, greeting(LOW, generation) + b"late")
        run_until(loop, lambda at=generation: high.heard(at).endswith(b"late"))  # type: ignore[misc]

        assert loop.now_us() >= start_us + 20_000
    low.streams.close()
    high.streams.close()


@pytest.mark.slow
@pytest.mark.parametrize("protocol", list(LinkProtocol))
def test_members_that_are_cut_off_part_and_meet_again(loop: Loop, protocol: LinkProtocol) -> None:
    config = two_sites(protocol)
    with members_of(loop, config) as members:
        controls = {
            name: DaemonControls(
                loop,
                DaemonDescription(config, one.member, None, loop.now_us()),
                DeliveryCounters(),
                DaemonLog(name),
                reload=dict,
                terminate=loop.stop,
            )
            for name, one in members.items()
        }

        def say(name: str, **words: object) -> dict[str, object]:
            return dict(json.loads(answer(json.dumps(words).encode(), controls[name], list(AdminVerb))))

        run_until(loop, lambda: all(one.size() == 4 for one in members.values()))
        for name, other in (("eu1", "us"), ("eu2", "us"), ("us1", "eu"), ("us2", "eu")):
            assert say(name, verb="cut", daemons=[f"{other}1", f"{other}2"]) == {"ok": True}
        run_until(loop, lambda: all(one.size() == 2 for one in members.values()), 30_000_000)
        status = say("us1", verb="status")["status"]
        for name in members:
            say(name, verb="heal")
        run_until(loop, lambda: all(one.size() == 4 for one in members.values()), 30_000_000)
        members["eu1"].member.submit(Service.SAFE, b"together again")
        run_until(loop, lambda: all(one.payloads() == [b"together again"] for one in members.values()))

    assert isinstance(status, dict)
    assert (status["members"], status["cut"]) == (["us1", "us2"], ["eu1", "eu2"])
    assert status["counters"]["unicast"]["datagrams_sent"] > 0
    assert sorted(status["counters"]["dropped_by_layer"]) == ["engine", "groups", "sockets"]
    assert say("eu1", verb="cut", daemons=["us3"])["remedy"] == "did you mean us2?"
    assert say("eu1", verb="cut", daemons=["eu1"])["error"] == "eu1 is this daemon"


def test_a_cut_with_a_time_heals_by_itself_and_a_later_one_without_stays(loop: Loop, tmp_path: Path) -> None:
    config = local_config({"eu": 2}, base_port=free_base_port(4))
    with members_of(loop, config) as members, (tmp_path / "log").open("wb") as log:
        facts = DaemonDescription(config, members["eu1"].member, None, loop.now_us())
        controls = DaemonControls(
            loop, facts, DeliveryCounters(), DaemonLog("eu1", log.fileno()), reload=dict, terminate=loop.stop
        )

        def told(key: str) -> object:
            return controls.status()[key]

        controls.cut(["eu2"], for_us=50_000)
        left_us = told("cut_left_us")
        assert told("cut") == ["eu2"]
        assert isinstance(left_us, int)
        assert 0 < left_us <= 50_000
        run_until(loop, lambda: told("cut") == [])
        assert told("cut_left_us") is None
        assert 'admin healed=eu2 why="the time of the cut is over"' in (tmp_path / "log").read_text()

        controls.cut(["eu2"], for_us=20_000)
        controls.cut(["eu2"])
        rung: list[bool] = []
        loop.alarm(lambda: rung.append(True)).set(loop.now_us() + 60_000)
        run_until(loop, lambda: bool(rung))
        assert (told("cut"), told("cut_left_us")) == (["eu2"], None)


def test_the_time_of_a_cut_goes_on_while_another_configuration_is_taken(loop: Loop) -> None:
    config = local_config({"eu": 2}, base_port=free_base_port(4))
    with members_of(loop, config) as members:
        facts = DaemonDescription(config, members["eu1"].member, None, loop.now_us())
        controls = DaemonControls(
            loop, facts, DeliveryCounters(), DaemonLog("eu1"), reload=dict, terminate=loop.stop
        )
        controls.cut(["eu2"], for_us=20_000)
        controls.suspend()
        run_until(loop, lambda: controls.status()["cut"] == [])
        controls.resume()
        run_until(loop, lambda: all(one.size() == 2 for one in members.values()), 30_000_000)


def test_packets_of_a_cut_off_daemon_are_ignored(loop: Loop) -> None:
    config = local_config({"eu": 2}, base_port=free_base_port(4))
    heard: list[object] = []
    ends = [
        Datagrams(loop, config, Process(DaemonId(at), Incarnation(1)), 1_400, heard.append) for at in range(2)
    ]
    here, there = ends
    here.cut([DaemonId(1)])
    there.send_message([DaemonId(0)], b"unheard")
    run_until(loop, lambda: here.endpoint.traffic.datagrams_received == 1)
    here.send_message([DaemonId(1)], b"unsaid")
    here.cut([])
    there.send_message([DaemonId(0)], b"hello")
    here.send_message([DaemonId(1)], b"hello")
    run_until(loop, lambda: len(heard) == 2)

    assert [packet.frames for packet in heard if isinstance(packet, Packet)] == [
        (MembershipFrame(b"hello"),)
    ] * 2
    assert there.endpoint.traffic.datagrams_received == 1
    for end in ends:
        end.close()
