"""The programs in examples/, run as a user runs them, at real daemons."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.examples.running_programs import SECONDS_MAX, example, lines_until, program
from tests.support.waiting import until

from hopring import sync
from hopring.spool.reading import bounds

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster() -> Iterator[sync.Cluster]:
    with sync.local_cluster({"eu": 1, "us": 1}, trace=False) as cluster:
        yield cluster


def test_all_members_of_a_chat_see_the_same_lines(cluster: sync.Cluster) -> None:
    at = cluster.url("eu1"), cluster.url("us1")
    with (
        program(example("chat.py"), "lobby", "--name", "anna", "--at", at[0]) as anna,
        program(example("chat.py"), "lobby", "--name", "bob", "--at", at[1]) as bob,
    ):
        assert anna.stdin is not None
        assert bob.stdin is not None
        lines_until(anna, "in the room: anna bob")
        lines_until(bob, "in the room: anna bob")
        anna.stdin.write("hello\n")
        anna.stdin.flush()
        assert lines_until(anna, "hello") == lines_until(bob, "hello") == ["#anna#eu1: hello"]
        bob.stdin.close()
        assert lines_until(anna, "in the room: anna (")[-1] == "* in the room: anna (leave)"
        assert bob.wait(SECONDS_MAX) == 0


def test_a_watcher_reports_a_split_and_a_merge(cluster: sync.Cluster) -> None:
    with (
        program(example("watcher.py"), "trades", "--at", cluster.url("eu1")) as watcher,
        cluster.connect("us1", name="pricer") as session,
    ):
        lines_until(watcher, "view: #watcher#eu1 ")
        session.join("trades")
        lines_until(watcher, "view: #watcher#eu1 #pricer#us1")
        session.multicast_wait("trades", b"EURUSD 100")
        cluster.partition({"eu"}, {"us"})
        closing, split = lines_until(watcher, "split")
        cluster.heal()
        merged = lines_until(watcher, "merged")[-1]

    assert closing == "closing: #watcher#eu1 are certain to receive what follows"
    assert split == "view: #watcher#eu1 after 1 messages (network); split from #pricer#us1"
    assert "merged with #pricer#us1" in merged


def test_totals_of_a_spool_go_on_where_the_last_run_ended(cluster: sync.Cluster, tmp_path: Path) -> None:
    spools, result = tmp_path / "spools", tmp_path / "totals.json"
    spooler = ["-m", "hopring.cli.main", "spool", "run", "--group", "orders", "--sync", "0s", "--spool"]

    def totals() -> dict[str, object]:
        command = [sys.executable, example("spool_totals.py"), str(spools), "orders", str(result)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=SECONDS_MAX)
        told: dict[str, object] = json.loads(done.stdout)
        return told["totals"] if isinstance(told["totals"], dict) else {}

    with (
        program(*spooler, str(spools), "--at", cluster.url("eu1")),
        cluster.connect("us1", name="pricer", membership=False) as session,
    ):
        until(lambda: len(session.members("orders").members) == 1)
        for sent, expected in (([b"EURUSD 100", b"USDJPY 7"], 2), ([b"EURUSD 11"], 3)):
            for body in sent:
                session.multicast_wait("orders", body)
            until(lambda: bounds(spools / "orders")[1] > expected)  # noqa: B023  Asked at once.
            seen = totals()

    assert seen == {"EURUSD": 111, "USDJPY": 7}


def test_another_leads_when_the_leader_is_gone(cluster: sync.Cluster) -> None:
    script = example("leader.py")
    with program(script, cluster.url("eu1"), "anna") as anna:
        first = lines_until(anna, "anna leads with fence ")[-1]
        with program(script, cluster.url("us1"), "bob") as bob:
            anna.kill()
            second = lines_until(bob, "bob leads with fence ")[-1]
    assert int(second.split()[-1]) > int(first.split()[-1])


def test_all_servers_of_quotes_answer(cluster: sync.Cluster) -> None:
    at = cluster.url("eu1"), cluster.url("us1")
    script = example("quotes.py")
    with (
        program(script, at[0], "serve", "EURUSD=1.0842") as one,
        program(script, at[1], "serve", "EURUSD=1.0843") as other,
    ):
        lines_until(one, "ready")
        lines_until(other, "ready")
        with program(script, at[0], "ask", "EURUSD") as caller:
            found = lines_until(caller, "1.084") + lines_until(caller, "1.084")
        assert sorted(line.split()[1] for line in found) == ["1.0842", "1.0843"]
        with program(script, at[0], "ask", "EURCHF") as caller:
            lines_until(caller, "RequestFailed: a request to quotes failed at")
    assert len(Path(script).read_text().splitlines()) <= 30


def test_rounds_end_with_the_same_readings_through_a_crash_a_split_and_a_merge(cluster: sync.Cluster) -> None:
    script = example("rounds.py")

    def round_of(*members: subprocess.Popen[str], count: int) -> list[str]:
        """The end of the last round and the names of the next one; all its readings have arrived then."""
        shown = []
        for one in members:
            lines = lines_until(one, "round of")
            shown.append([line for line in lines if not line.startswith("reading")])
            for _ in range(count):
                lines_until(one, "reading")
        assert shown == [shown[0]] * len(shown)
        return shown[0]

    with program(script, cluster.url("eu1"), "anna", "17") as anna, ExitStack() as stack:
        assert round_of(anna, count=1) == ["round of anna"]
        bob = stack.enter_context(program(script, cluster.url("us1"), "bob", "19"))
        assert round_of(bob, count=2) == ["round of anna bob"]
        assert round_of(anna, count=2) == ["ended with 17", "round of anna bob"]
        with program(script, cluster.url("eu1"), "carl", "23") as carl:
            assert round_of(carl, count=3) == ["round of anna carl bob"]
            assert round_of(anna, bob, count=3) == ["ended with 17 19", "round of anna carl bob"]
            carl.kill()
            assert round_of(anna, bob, count=2) == ["ended with 17 19 23", "round of anna bob"]
        cluster.partition({"eu"}, {"us"})
        assert round_of(anna, count=1) == ["ended with 17 19", "round of anna"]
        assert round_of(bob, count=1) == ["ended with 17 19", "round of bob"]
        cluster.heal()
        assert round_of(anna, count=2) == ["ended with 17", "round of anna bob"]
        assert round_of(bob, count=2) == ["ended with 19", "round of anna bob"]
    assert len(Path(script).read_text().splitlines()) <= 30


def test_a_joiner_of_the_map_has_what_was_put_before(cluster: sync.Cluster) -> None:
    script = example("map.py")
    before = '{"EURUSD": "1.0842", "USDJPY": "151.2"}'
    with program(script, cluster.url("eu1"), "EURUSD=1.0842", "USDJPY=151.2") as one:
        lines_until(one, before)
        with program(script, cluster.url("us1")) as other:
            assert lines_until(other, "EURUSD") == [before]
            with program(script, cluster.url("us1"), "EURUSD=1.0843") as third:
                assert lines_until(third, "EURUSD") == [before]
                after = '{"EURUSD": "1.0843", "USDJPY": "151.2"}'
                assert [lines_until(each, "1.0843")[-1] for each in (one, other, third)] == [after] * 3
    assert len(Path(script).read_text().splitlines()) <= 30


def test_jobs_of_the_queue_are_done_through_a_kill_of_one_and_of_all(
    cluster: sync.Cluster, tmp_path: Path
) -> None:
    script = example("work_queue.py")
    at = {"anna": cluster.url("eu1"), "bert": cluster.url("us1"), "carl": cluster.url("us1")}

    def start(stack: ExitStack, name: str, *jobs: str) -> subprocess.Popen[str]:
        return stack.enter_context(program(script, at[name], name, str(tmp_path / name), *jobs))

    with ExitStack() as stack:
        anna, bert, carl = [start(stack, name) for name in at]
        for one in (anna, bert, carl):
            lines_until(one, "ready")
        with program(script, at["anna"], "dora", "-", "first", "second") as dora:
            lines_until(dora, "put 2")
        carl.kill()
        with program(script, at["anna"], "dora", "-", "third") as dora:
            assert lines_until(dora, "put 3")[-1] == "put 3"
    # All were killed; the queue is on their disks.
    with ExitStack() as stack:
        both = [start(stack, name) for name in ("bert", "carl")]
        for one in both:
            lines_until(one, "ready")
        with program(script, at["anna"], "dora", "-", "fourth") as dora:
            assert lines_until(dora, "put")[-1] == "put 4"
    assert len(Path(script).read_text().splitlines()) <= 30
