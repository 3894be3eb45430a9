"""One writer per spool: a lock that the kernel lets go of when its holder ends, however it ends."""

import fcntl
import os
from pathlib import Path

from hopring.spool.errors import SpoolOwned
from hopring.spool.layout import LOCK


def take_lock(directory: Path) -> int:
    """The open file that holds the lock; SpoolOwned if another writer has it."""
    file = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(file, 64, 0).decode(errors="replace").strip()
        os.close(file)
        raise SpoolOwned(directory, owner or "it has not said which") from None
    except BaseException:
        os.close(file)
        raise
    os.ftruncate(file, 0)
    os.pwrite(file, f"process {os.getpid()}\n".encode(), 0)
    return file
