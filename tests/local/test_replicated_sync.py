"""Replicated blocks without an event loop, at real daemons: map, log, queue, also after a restart of all."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest
from tests.support.waiting import until

from hopring import ClaimLost, NoQuorum, RequestRefused, SessionClosed, TimedOut, sync

pytestmark = pytest.mark.slow

MEMBERS = ["anna", "bert", "carl"]


@pytest.fixture(scope="module")
def cluster() -> Iterator[sync.Cluster]:
    with sync.local_cluster({"eu": 2, "us": 1}, trace=False) as cluster:
        yield cluster


class Sum:
    """Adds the operations, which are numbers."""

    def __init__(self) -> None:
        self.total = 0

    def apply(self, data: bytes) -> object:
        self.total += int(data)
        return self.total

    def snapshot(self) -> bytes:
        return str(self.total).encode()

    def restore(self, state: bytes) -> None:
        self.total = int(state)


def test_a_map_is_read_and_changed_from_two_programs(cluster: sync.Cluster) -> None:
    with (
        sync.ReplicatedDict(cluster.url("eu1"), "prices", name="anna") as here,
        sync.ReplicatedDict(cluster.url("us1"), "prices", name="bert") as there,
    ):
        changes: list[tuple[str, object]] = []

        def follow() -> None:
            for change in there.watch():
                changes.append((change.key, change.value))
                if change.deleted:
                    return

        watching = Thread(target=follow)
        watching.start()
        while not changes:  # It watches from its first step on.
            here.put("ready", True)
        here.put("EURUSD", 1.0842)
        assert here["EURUSD"] == 1.0842
        until(lambda: there.get("EURUSD") == 1.0842, lambda: "it did not arrive")
        assert there.compare_and_set("EURUSD", 1.0842, 1.0843)
        assert not here.compare_and_set("EURUSD", 1.0842, 2)
        assert not here.put_if_missing("EURUSD", 3)
        until(lambda: sorted(here) == sorted(there) == ["EURUSD", "ready"])
        here.delete("EURUSD")
        watching.join(60)
        assert [one for one in changes if one[0] == "EURUSD"] == [
            ("EURUSD", 1.0842),
            ("EURUSD", 1.0843),
            ("EURUSD", None),
        ]
        until(lambda: len(there) == len(here) == 1)
    with pytest.raises(SessionClosed):
        here.put("EURUSD", 1)
    with pytest.raises(RequestRefused, match="illegal group"):
        sync.ReplicatedDict(cluster.url("eu1"), "#private").__enter__()


def test_a_log_survives_a_restart_of_all_its_programs(cluster: sync.Cluster, tmp_path: Path) -> None:
    places = dict(zip(MEMBERS, ("eu1", "eu2", "us1"), strict=True))

    def part(name: str, quorum_seconds: float = 2.0) -> sync.ReplicatedLog:
        return sync.ReplicatedLog(
            cluster.url(places.get(name, "us1")),
            "sums",
            members=MEMBERS,
            directory=tmp_path / name if name in MEMBERS else None,
            machine=Sum(),
            quorum_seconds=quorum_seconds,
            name=name,
        )

    def all_parts(stack: ExitStack, names: list[str]) -> list[sync.ReplicatedLog]:
        """The first start needs all members at the same time."""
        made = [part(name) for name in names]
        entering = [Thread(target=stack.enter_context, args=[one]) for one in made]
        for one in entering:
            one.start()
        for one in entering:
            one.join(60)
        return made

    with ExitStack() as stack:
        anna, bert, _carl = all_parts(stack, MEMBERS)
        dora = stack.enter_context(part("dora"))
        assert anna.append(b"17").result == 17
        entry = dora.append(b"2")
        assert (entry.index, entry.result) == (1, 19)
        assert bert.append_at(1, b"5") is None
        until(lambda: len(bert) == 2, lambda: f"bert has {len(bert)}")
        assert bert.append_at(2, b"5") is not None
        assert [one.data for _, one in zip(range(3), anna.watch(since=0), strict=False)] == [b"17", b"2", b"5"]
        until(lambda: list(dora) == [b"17", b"2", b"5"], lambda: list(dora))
        assert (dora[-1], dora.first, dora.serving) == (b"5", 0, True)
    with ExitStack() as stack:
        # Two of three are enough from now on.
        bert, carl = all_parts(stack, ["bert", "carl"])
        until(lambda: list(bert) == [b"17", b"2", b"5"], lambda: list(bert))
        assert carl.append(b"1").result == 25
    with ExitStack() as stack:
        anna, bert = all_parts(stack, ["anna", "bert"])
        until(lambda: list(anna) == [b"17", b"2", b"5", b"1"], lambda: list(anna))
        follower = stack.enter_context(part("emil", quorum_seconds=0.5))
        bert.__exit__(None, None, None)
        # What is appended before the follower knows of that waits for another majority.
        until(lambda: not follower.serving)
        with pytest.raises(NoQuorum):
            follower.append(b"9")
        bert.__enter__()
        assert follower.append(b"9").result == 34


def test_jobs_are_claimed_once_at_a_time_and_become_dead_letters(cluster: sync.Cluster, tmp_path: Path) -> None:
    def part(name: str, directory: Path | None) -> sync.WorkQueue:
        members = ["solo"]
        return sync.WorkQueue(cluster.url("eu1"), "jobs", members=members, directory=directory, name=name)

    with part("solo", tmp_path / "solo") as producer, part("worker", None) as worker:
        assert producer.put(b"only") == 1
        job = worker.claim(visibility_seconds=600.0)
        with pytest.raises(TimedOut):
            worker.claim(timeout_seconds=0.0)
        job.done()
        assert producer.put(b"first", deliveries_max=2) == 2
        job = worker.claim(visibility_seconds=0.3)
        assert (job.id, job.data, job.deliveries) == (2, b"first", 1)
        again = next(worker.jobs(visibility_seconds=600.0))  # When its time is over.
        assert (again.id, again.deliveries) == (2, 2)
        with pytest.raises(ClaimLost):
            job.done()
        again.extend()
        again.give_back()
        until(lambda: producer.counts.dead == 1, lambda: f"{producer.counts}")
        assert [one.data for one in producer.dead_letters()] == [b"first"]
        assert producer.revive(2)
        worker.claim().done()
        until(lambda: producer.counts.finished == 2, lambda: f"{producer.counts}")
        assert not producer.discard(2)
    with part("solo", tmp_path / "solo") as producer:
        assert producer.counts.waiting == producer.counts.dead == 0
        assert producer.serving
