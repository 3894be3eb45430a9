"""A writer that is killed at any time: all acknowledged records are there once, in order."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.spool.spool_samples import FailingDisk, bodies_in, messages

from hopring.spool.encode import AppendMark
from hopring.spool.files import bases, directory_of
from hopring.spool.reading import bounds, read
from hopring.spool.verify import verify
from hopring.spool.writer import SpoolOptions, SpoolWriter

CHILD = """
import sys
from hopring.spool.encode import AppendMark
from hopring.spool.record import RecordHeader, RecordKind, run_of
from hopring.spool.writer import SpoolOptions, SpoolWriter

root, sync_seconds = sys.argv[1], float(sys.argv[2])
writer = SpoolWriter(root, "trades", SpoolOptions(sync_seconds=sync_seconds, segment_bytes=3_000))
batch = -1 if writer.last_batch("app") is None else writer.last_batch("app")
said = writer.synced_end
print(said, flush=True)
while True:
    batch += 1
    bodies = [b"%d " % (writer.end + at) + bytes(batch % 7 * 100) for at in range(1 + batch % 5)]
    writer.append([run_of(RecordHeader(RecordKind.MESSAGE, 0), bodies)], AppendMark("app", batch))
    if writer.synced_end > said:
        said = writer.synced_end
        print(said, flush=True)
"""


def killed_after(root: Path, sync_seconds: float, lines: int) -> int:
    """Runs a writer, kills it after this many acknowledgements; returns the last acknowledged offset.

    It continues while its output is read, and is killed wherever it is then.
    """
    command = [sys.executable, "-c", CHILD, str(root), str(sync_seconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "HOPRING_PURE": "1"}) as child:
        assert child.stdout is not None, "stdout is a pipe"
        said = [child.stdout.readline() for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        said += child.stdout.read().splitlines(keepends=True)
    whole = [int(line) for line in said if line.endswith(b"\n")]
    assert whole, "it was killed before it had opened the spool"
    return whole[-1]


@pytest.mark.slow
@pytest.mark.parametrize("sync_seconds", [0.0, 0.003])
def test_no_acknowledged_record_is_lost_when_a_writer_is_killed_at_many_times(
    tmp_path: Path, sync_seconds: float
) -> None:
    dice = random.Random(4711)
    directory = directory_of(tmp_path, "trades")
    for _ in range(12):
        acknowledged = killed_after(tmp_path, sync_seconds, dice.randint(1, 25))

        assert bounds(directory).end >= acknowledged
        with SpoolWriter(tmp_path, "trades") as writer:
            end = writer.end
        assert end >= acknowledged
        records = list(read(directory, 0, end))
        assert [record.offset for record in records] == list(range(end))
        assert [int(record.data.split()[0]) for record in records] == list(range(end))
        assert verify(directory).findings == ()
    assert len(bases(directory)) > 1, "no segment was completed"


class KillingDisk(FailingDisk):
    """Ends the process at the chosen call; a write is half done then."""

    def _fail(self) -> OSError:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("not reached")


def killed_at(root: Path, call: str, nth: int) -> int:
    """A process that appends twice, each time to a new segment, and is killed at a call of the second."""
    child = os.fork()
    if not child:
        disk = KillingDisk()
        writer = SpoolWriter(root, "trades", SpoolOptions(segment_bytes=1), disk=disk)
        writer.append(messages(b"one"), AppendMark("app", 0))
        disk.failing = {call: nth}
        writer.append(messages(b"two"), AppendMark("app", 1))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


CALLS = ["sync", "open", "write", "open", "write", "sync", "rename", "write", "sync", "write"]


@pytest.mark.parametrize("at", range(len(CALLS)), ids=[f"{at}-{call}" for at, call in enumerate(CALLS)])
def test_no_acknowledged_record_is_lost_when_a_writer_is_killed_at_each_call(tmp_path: Path, at: int) -> None:
    assert killed_at(tmp_path, CALLS[at], CALLS[:at].count(CALLS[at])) == -signal.SIGKILL

    with SpoolWriter(tmp_path, "trades") as writer:
        there = writer.end
        assert (there, writer.last_batch("app")) in {(1, 0), (2, 1)}
        assert writer.append(messages(b"two"), AppendMark("app", 1)).replayed == (there == 2)

    assert bodies_in(writer.directory) == [b"one", b"two"]
    assert verify(writer.directory).findings == ()


@pytest.mark.slow
def test_a_killed_writer_releases_its_lock(tmp_path: Path) -> None:
    killed_after(tmp_path, 0.0, 1)

    with SpoolWriter(tmp_path, "trades") as writer:
        assert (writer.directory / "lock").read_text() == f"process {os.getpid()}\n"
