"""The applications of examples/ through the crash of a daemon, a split and a merge: what their users see."""

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.examples.running_programs import SECONDS_MAX, example, lines_until, program
from tests.support.waiting import until

from hopring import MissingReplies, QueueCounts, sync

pytestmark = pytest.mark.slow

LINES_MAX = 30
Running = subprocess.Popen[str]


@pytest.fixture(scope="module")
def shared() -> Iterator[sync.Cluster]:
    with sync.local_cluster({"eu": 3, "us": 2}, trace=False) as cluster:
        yield cluster


@pytest.fixture
def cluster(shared: sync.Cluster) -> Iterator[sync.Cluster]:
    """Three daemons in eu, which are the majority, and two in us; all are together again after the test."""
    yield shared
    shared.heal()
    for daemon in set(shared.daemons) - set(shared.living):
        shared.restart(daemon)
    shared.settled()


def split(cluster: sync.Cluster) -> None:
    cluster.partition({"eu"}, {"us"})
    cluster.settled()


def merge(cluster: sync.Cluster) -> None:
    cluster.heal()
    cluster.settled()


def crash(cluster: sync.Cluster, daemon: str) -> None:
    cluster.crash(daemon)
    cluster.settled()


def restart(cluster: sync.Cluster, daemon: str) -> None:
    cluster.restart(daemon)
    cluster.settled()


@pytest.mark.parametrize("name", ["leader.py", "map.py", "quotes.py", "work_queue.py"])
def test_an_application_has_thirty_lines_at_most(name: str) -> None:
    assert len(Path(example(name)).read_text().splitlines()) <= LINES_MAX


# The map: members of the primary side decide, and all are equal in the end.


def entries(**values: str) -> str:
    return json.dumps(values, sort_keys=True)


def put(cluster: sync.Cluster, daemon: str, key: str, value: str) -> None:
    """A program that puts one entry, sees it, and is ended."""
    with program(example("map.py"), cluster.url(daemon), f"{key}={value}") as one:
        lines_until(one, f'"{key}": "{value}"')


def test_a_map_is_the_same_for_all_after_a_crash_and_after_a_merge(cluster: sync.Cluster) -> None:
    script = example("map.py")
    with (
        program(script, cluster.url("eu1"), "a=1") as anna,
        program(script, cluster.url("us1")) as bert,
        program(script, cluster.url("eu3")) as carl,
    ):
        for one in (anna, bert, carl):
            lines_until(one, entries(a="1"))
        crash(cluster, "eu3")
        put(cluster, "eu2", "b", "2")
        for one in (anna, bert):
            lines_until(one, entries(a="1", b="2"))
        restart(cluster, "eu3")
        # Its daemon has forgotten everything; the others have what it missed.
        lines_until(carl, entries(a="1", b="2"))

        split(cluster)
        put(cluster, "us2", "lost", "x")
        put(cluster, "eu2", "c", "3")
        lines_until(bert, entries(a="1", b="2", lost="x"))
        seen = lines_until(anna, entries(a="1", b="2", c="3"))
        assert not any("lost" in line for line in seen)
        merge(cluster)
        lines_until(bert, entries(a="1", b="2", c="3"))
        put(cluster, "us2", "d", "4")
        for one in (anna, bert, carl):
            assert not any("lost" in line for line in lines_until(one, entries(a="1", b="2", c="3", d="4")))


# The leader: one at a time, on the side of the majority, with rising fences.


def fence_of(line: str) -> int:
    return int(line.rpartition(" ")[2])


def test_a_leader_is_followed_by_another_with_a_higher_fence(cluster: sync.Cluster) -> None:
    script = example("leader.py")
    fences: list[int] = []

    def wait_to_lead(one: Running, name: str) -> list[str]:
        lines = lines_until(one, f"{name} leads with fence ")
        fences.append(fence_of(lines[-1]))
        return lines[:-1]

    with program(script, cluster.url("us1"), "anna") as anna:
        wait_to_lead(anna, "anna")
        with program(script, cluster.url("eu1"), "bob") as bob:
            split(cluster)
            lines_until(anna, "anna does not lead: ")
            wait_to_lead(bob, "bob")
            with program(script, cluster.url("eu2"), "carl") as carl:
                crash(cluster, "eu1")
                lines_until(bob, "bob does not lead: ")
                wait_to_lead(carl, "carl")
                merge(cluster)
                carl.kill()
                # Until now she has not led for a moment.
                assert all("anna does not lead: " in line for line in wait_to_lead(anna, "anna"))
                restart(cluster, "eu1")
                anna.kill()
                wait_to_lead(bob, "bob")
    assert fences == sorted(set(fences))


# Quotes: all servers that can be reached answer, and a call that loses one says so.


def ask(cluster: sync.Cluster, daemon: str) -> list[str]:
    """The replies of all servers on this side."""
    words = [example("quotes.py"), cluster.url(daemon), "ask", "EURUSD"]
    with program(*words) as caller:
        out, _ = caller.communicate(timeout=SECONDS_MAX)
    assert caller.returncode == 0, out
    return sorted([line.split()[1] for line in out.splitlines()])


def test_quotes_are_those_of_the_servers_on_ones_side(cluster: sync.Cluster) -> None:
    script = example("quotes.py")
    with (
        program(script, cluster.url("eu1"), "serve", "EURUSD=1.1") as one,
        program(script, cluster.url("us1"), "serve", "EURUSD=1.2") as other,
    ):
        lines_until(one, "ready")
        lines_until(other, "ready")
        assert ask(cluster, "eu2") == ["1.1", "1.2"]
        with cluster.connect("eu2") as session:
            # A server that does not answer, and is out of reach later: the call ends, and names it.
            other.send_signal(signal.SIGSTOP)
            replies = session.replies_to("quotes", b"EURUSD")
            assert next(replies).data == b"1.1"
            split(cluster)
            with pytest.raises(MissingReplies, match="#us1"):
                next(replies)
            other.send_signal(signal.SIGCONT)
        assert ask(cluster, "eu2") == ["1.1"]
        assert ask(cluster, "us2") == ["1.2"]
        merge(cluster)
        assert ask(cluster, "us2") == ["1.1", "1.2"]
        crash(cluster, "eu1")
        assert ask(cluster, "us2") == ["1.2"]
        restart(cluster, "eu1")
        # The server's session reconnects by itself and serves again.
        with cluster.connect("us2") as session:
            while len(session.members("quotes?servers").members) < 2:
                session.poll()
        assert ask(cluster, "us2") == ["1.1", "1.2"]


# The queue: the majority of its members goes on, and each job is done, those of the other side after the merge.


def start_of_queue(stack: ExitStack, cluster: sync.Cluster, daemon: str, *words: str) -> Running:
    """A program of the queue: its name, its directory and its jobs."""
    return stack.enter_context(program(example("work_queue.py"), cluster.url(daemon), *words))


def test_jobs_are_done_through_a_crash_a_split_and_a_merge(cluster: sync.Cluster, tmp_path: Path) -> None:
    """The queue counts the jobs: who does one may be killed, or lose the daemon, before saying so."""

    def put(daemon: str, *jobs: str) -> None:
        """A program without a directory, which puts jobs and is ended."""
        with ExitStack() as stack:
            dora = start_of_queue(stack, cluster, daemon, "dora", "-", *jobs)
            for _ in jobs:
                lines_until(dora, "put ")

    with ExitStack() as stack:
        places = {"anna": "eu1", "bert": "eu2", "carl": "us1"}
        workers = [
            start_of_queue(stack, cluster, daemon, name, str(tmp_path / name))
            for name, daemon in places.items()
        ]
        for one in workers:
            lines_until(one, "ready")
        put("eu3", "first")
        crash(cluster, "eu3")  # Nobody is there who keeps the queue.
        put("us2", "second")
        restart(cluster, "eu3")
        split(cluster)
        put("eu1", "third")  # Two of three members are on this side.
        far = start_of_queue(stack, cluster, "us2", "emil", "-", "fourth")
        merge(cluster)
        lines_until(far, "put ")
        crash(cluster, "eu1")  # The daemon of a member: the other two go on.
        put("us2", "fifth")
        with sync.WorkQueue(cluster.url("us1"), "jobs", members=[*places], name="watcher") as queue:
            until(lambda: queue.counts == QueueCounts(0, 0, 0, 5), lambda: queue.counts, SECONDS_MAX)
