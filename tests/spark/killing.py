"""Runs a query as a process and kills it, repeatedly."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.spark.piping import APP, SOURCE, TARGET, live, pipe
from tests.support.waiting import until as wait_until
from tests.unit.spark.spooling import fill

from hopring.spool.errors import SpoolOwned
from hopring.spool.reading import bounds
from hopring.spool.writer import SpoolWriter

PER_BATCH = 50
BATCH_SECONDS_MAX = 180.0
REPOSITORY = Path(__file__).parents[2]


class Killed:
    """Runs of one query, each of which is killed after a while."""

    def __init__(self, root: Path, records: int) -> None:
        """Fills the source spool with this number of records."""
        self.root = root
        self.records = records
        self.made_again = 0  # Batches that were published before the kill and were made again.
        fill(root, SOURCE, records, segment_bytes=20_000)

    def start(self, until: str) -> subprocess.Popen[str]:
        """Starts a run and waits for this line: the query runs, or its first batch is done."""
        command = [
            sys.executable,
            "-P",
            "-m",
            "tests.spark.piping",
            str(self.root),
            str(self.checkpoint),
            *self.arguments(),
        ]
        # Java that is killed leaves its temporary files behind.
        code = f"{REPOSITORY / 'src'}:{REPOSITORY}"
        places = {"SPARK_LOCAL_DIRS": str(self.root / "java"), "PYTHONPATH": code}
        environment = {**os.environ, **places}
        run = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        assert run.stdout is not None
        while (said := run.stdout.readline()) != f"{until}\n":
            assert said, "the query ended early"
        return run

    def arguments(self) -> tuple[str, ...]:
        """The size of a batch, and the daemon if the target is a live group."""
        return (str(PER_BATCH),)

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    def kill(self, until: str, seconds: float) -> bool:
        """Kills the process group.

        Returns whether the query was still running. Spark's workers end by themselves.
        """
        run = self.start("moving" if until == "appended" else until)
        if until == "appended":
            self.wait_for_append()
        else:
            time.sleep(seconds)
        at_work = run.poll() is None
        os.killpg(run.pid, signal.SIGKILL)
        run.communicate()
        self.made_again += self.is_published_and_not_committed()
        return at_work

    def wait_for_append(self) -> None:
        """Waits until a batch is in the spool that Spark has most likely not committed yet."""
        target = self.root / TARGET
        before = bounds(target).end
        wait_until(lambda: bounds(target).end != before, seconds=BATCH_SECONDS_MAX, look_seconds=0.001)

    def finish(self, spark: Any) -> None:
        """Runs the query to its end, in this session."""
        root, checkpoint, (per_batch, *daemon) = str(self.root), str(self.checkpoint), self.arguments()
        query = (live if daemon else pipe)(spark, root, checkpoint, int(per_batch), *daemon)
        query.awaitTermination()

    def is_published_and_not_committed(self) -> bool:
        """Whether the next run makes a batch again that is already in the spool."""
        noted = [int(path.name) for path in (self.checkpoint / "commits").glob("[0-9]*")]
        published: list[int | None] = []

        def is_let_go() -> bool:
            """Whether the spool is unlocked; the process that publishes may outlive Java by a moment."""
            with contextlib.suppress(SpoolOwned), SpoolWriter(self.root, TARGET) as writer:
                published.append(writer.last_batch(APP))
            return bool(published)

        wait_until(is_let_go, lambda: "the spool is held by a process that was killed", look_seconds=0.05)
        last = published[0]
        return last is not None and last > max(noted, default=-1)


def kill_all(killed: Killed, kills: int, seconds_max: float, seed: int) -> int:
    """Kills runs in turn right after an append, before their first batch, and at other times."""
    chance = random.Random(seed)
    at_work = 0
    for number in range(kills):
        until = ("appended", "running", "moving", "moving")[number % 4]
        at_work += killed.kill(until, chance.uniform(0.0, seconds_max))
    return at_work
