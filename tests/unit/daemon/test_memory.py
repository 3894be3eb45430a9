"""What a daemon tells its memory."""

import subprocess
import sys

import pytest

_CODE = """
import sys
from hopring.daemon import memory
print(memory.keep_memory() if "keep" in sys.argv else True)
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
    assert faults() > 10 * 1_000  # Without: all pages of all packets come from the kernel again and again.
