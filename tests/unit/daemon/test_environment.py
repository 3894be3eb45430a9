"""A daemon ends with its parent, and keeps freed memory for the next packet."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.daemon.waiting import run_until

from hopring.daemon.loop.event_loop import Loop
from hopring.daemon.process.environment import (
    DESCRIPTORS_RESERVED,
    end_with_descriptor,
    for_clients,
    state_path,
)


def test_no_two_daemons_share_a_file_of_the_state_directory(tmp_path: Path) -> None:
    daemons = [("a", "b.c"), ("a.b", "c"), ("a", "b-c"), ("a", "b"), ("a.b", "b.c"), ("a", "b.b.c")]

    paths = [state_path(tmp_path, cluster, daemon, "views") for cluster, daemon in daemons]

    assert len(set(paths)) == len(daemons)
    assert state_path(tmp_path, "local", "eu1", "sock") == tmp_path / "local.eu1.sock"


def test_the_end_of_a_pipe_is_reported_once_and_its_data_is_ignored(loop: Loop) -> None:
    left: list[None] = []
    reading, writing = os.pipe()
    end_with_descriptor(loop, reading, lambda: left.append(None))
    os.write(writing, b"anything")
    loop.turn()

    assert left == []
    os.close(writing)
    run_until(loop, lambda: bool(left))
    loop.call_soon(lambda: None)
    loop.turn()
    assert len(left) == 1
    os.close(reading)


def test_a_file_has_already_ended(loop: Loop, tmp_path: Path) -> None:
    left: list[None] = []
    with (tmp_path / "file").open("w+") as file:
        end_with_descriptor(loop, file.fileno(), lambda: left.append(None))

    assert len(left) == 1


_CODE = """
import sys
from hopring.daemon.process import environment
print(environment.keep_memory() if "keep" in sys.argv else True)
def faults():
    return int(open("/proc/self/stat").read().rsplit(")", 1)[1].split()[7])
def turn():
    held = [bytes(60_000) for _ in range(100)]
for _ in range(10):
    turn()
before = faults()
for _ in range(100):
    turn()
print(faults() - before)
"""


def faults(*arguments: str) -> int:
    done = subprocess.run([sys.executable, "-c", _CODE, *arguments], capture_output=True, text=True, check=True)
    known, count = done.stdout.split()
    if known != "True":
        pytest.skip("this C library cannot be told")
    return int(count)


@pytest.mark.slow
def test_free_memory_is_kept_for_the_next_packets() -> None:
    assert faults("keep") < 1_000
    assert faults() > 10 * 1_000  # Without it, all pages of all packets come from the kernel again and again.


@pytest.mark.parametrize(
    ("descriptors", "clients"),
    [(4096 + DESCRIPTORS_RESERVED, 4096), (1024, 1024 - DESCRIPTORS_RESERVED), (64, 32)],
)
def test_some_descriptors_are_not_for_clients(descriptors: int, clients: int) -> None:
    assert for_clients(descriptors) == clients
