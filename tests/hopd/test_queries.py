"""Queries to real daemons: the verbs groups, members and view, and a flood of queries."""

import asyncio
import json
import time
from pathlib import Path

import pytest
from tests.hopd.served_cluster import SECONDS_MAX, ServedCluster, hop, run
from tests.support.free_ports import free_base_port

from hopring import connect, sync
from hopring.session.protocol import QueryRequest, encode_control

pytestmark = pytest.mark.slow

MANY = 5_000


def test_any_daemon_lists_groups_members_and_its_view_for_a_client_in_no_group(served: ServedCluster) -> None:
    with sync.connect(served.url("eu1"), name="anna") as anna, sync.connect(served.url("us1")) as bert:
        anna.join("trades")
        bert.join("trades")
        anna.join("news")
        for url, here in ((served.url("eu1"), [1, 1]), (served.url("us1"), [0, 1])):
            end = time.monotonic() + SECONDS_MAX
            while len(bert.groups()) < 2 or len(anna.members("trades").members) < 2:
                assert time.monotonic() < end, "the joins are not ordered yet"
            code, out, _ = run("groups", "--at", url, "--json")
            assert code == 0
            assert json.loads(out) == [
                {"group": "news", "members": 1, "here": here[0], "suspended": False},
                {"group": "trades", "members": 2, "here": here[1], "suspended": False},
            ]
        code, out, _ = run("members", "trades", "--at", served.url("us1"), "--json")
        facts = json.loads(out)
        assert [one["private_group"] for one in facts["members"]] == ["#anna#eu1", bert.private_group]
        assert facts["view"].endswith("/2")
        code, out, err = run("members", "trades", "--at", served.url("us1"))
        assert out.splitlines()[0].split() == ["DAEMON", "MEMBER"]
        assert out.splitlines()[1].split() == ["eu1", "anna"]
        assert "2 members" in err
        code, out, err = run("members", "none", "--at", served.url("us1"))
        assert (code, out) == (0, "")
        code, out, _ = run("view", "--at", served.url("us1"), "--json")
        assert json.loads(out)["members"] == ["eu1", "us1"]
        facts_of = bert.daemon_facts()
        assert (facts_of.daemon, facts_of.phase, facts_of.groups) == ("us1", "op", 2)
        assert [one.daemon for one in facts_of.links] == ["eu1"]
        assert facts_of.links[0].received > 0
        assert [(one.name, one.site, one.votes) for one in facts_of.configured] == [
            ("eu1", "eu", 1),
            ("us1", "us", 1),
        ]
        assert facts_of.tie_site is None


def test_watching_shows_each_view_as_it_comes(served: ServedCluster) -> None:
    watching = hop("view", "--at", served.url("eu1"), "--json", "--watch", "--count", "3")
    try:
        assert watching.stdout is not None
        assert json.loads(watching.stdout.readline())["members"] == ["eu1", "us1"]
        served.daemons.kill("us1")
        alone = json.loads(watching.stdout.readline())
        assert alone["members"] == ["eu1"]
        assert alone["age_s"] < 5
        served.daemons.start("us1")
        assert json.loads(watching.stdout.readline())["members"] == ["eu1", "us1"]
        assert watching.wait(SECONDS_MAX) == 0
    finally:
        watching.kill()
        watching.communicate()


def test_five_thousand_groups_are_listed_in_pages(served: ServedCluster) -> None:
    async def story() -> None:
        async with asyncio.timeout(3 * SECONDS_MAX), connect(served.url("eu1"), name="anna") as anna:
            names = [f"g{number:05}" for number in range(MANY // 2)]
            async with connect(served.url("eu1"), name="bert") as bert:
                for one, some in ((anna, names), (bert, [f"h{name}" for name in names])):
                    for at in range(0, len(some), 250):
                        await asyncio.gather(*[one.join(name) for name in some[at : at + 250]])
                        while one._core.stream.waits():
                            await one.receive()
                found = await bert.groups()
                assert len(found) == MANY
                assert [one.name for one in found][: len(names)] == names

    asyncio.run(story())
    code, out, _ = run("groups", "--at", served.url("eu1"))
    assert code == 0
    assert len(out.splitlines()) == 1, "groups of a session that has ended are left"


def test_a_flood_of_queries_does_not_delay_other_clients(served: ServedCluster) -> None:
    async def story() -> None:
        async with (
            asyncio.timeout(2 * SECONDS_MAX),
            connect(served.url("eu1"), name="anna") as anna,
            connect(served.url("eu1"), name="rude") as rude,
        ):
            group = await anna.join("g")
            await group.receive()
            await asyncio.gather(*[anna.join(f"g{number}") for number in range(1000)])

            async def slowest_seconds() -> float:
                took = []
                for _ in range(20):
                    begin = time.monotonic()
                    await group.multicast(b"now")
                    await group.receive()
                    took.append(time.monotonic() - begin)
                return max(took)

            on_this_machine = await slowest_seconds()
            rude._core.outgoing.out.append(
                b"".join([encode_control(QueryRequest(one, "groups")) for one in range(4000)])
            )
            rude._flush_soon()
            assert await slowest_seconds() < 1.0 + 20 * on_this_machine

    asyncio.run(story())


def test_an_unreachable_or_unresponsive_daemon_is_exit_code_3(served: ServedCluster) -> None:
    code, _, err = run("view", "--at", f"hop://127.0.0.1:{free_base_port(1)}")
    assert code == 3
    assert "start hopd there" in err
    sleeper = served.daemons.processes["us1"]
    with sync.connect(served.url("us1"), name="anna") as anna:
        sleeper.send_signal(19)
        try:
            with pytest.raises(TimeoutError):
                anna.view(timeout_seconds=0.3)
            code, _, err = run("groups", "--at", served.url("us1"), "--timeout", "0.5")
            assert code == 3
            assert "no answer" in err
        finally:
            sleeper.send_signal(18)


def test_the_doctor_finds_nothing_wrong_between_daemons_and_then_the_one_that_was_killed(
    served: ServedCluster, tmp_path: Path
) -> None:
    arguments = ["doctor", str(tmp_path / "hop.toml"), "--state", str(tmp_path), "--json"]

    def found() -> dict[str, str]:
        checks = json.loads(run(*arguments)[1])["checks"]
        return {one["subject"]: one["text"] for one in checks if one["verdict"] == "finding"}

    assert found().keys() <= {"host"}, "findings other than limits of this machine"
    served.daemons.kill("us1")
    served.daemons.wait(lambda: served.daemons.together("eu1"))
    assert found()["eu1 <-> us1"] == "us1 is not in eu1's view"
    assert run(*arguments)[0] == 1
