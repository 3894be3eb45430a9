"""Replaces a small file so that a crash at any moment leaves the old content or the new one.

The new content is written beside the old file, synced, and put in its place by a rename; then the directory is
synced. It waits for the disk: call it in a thread.
"""

import os
from pathlib import Path


def replace_file(path: Path, content: bytes) -> None:
    """Returns when the new content is on disk; OSError if the disk or the directory refuses."""
    # Always the same name, so that a file left by a crash is overwritten.
    beside = path.with_name(f"{path.name}.new")
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    _sync_directory(path.parent)


def _sync_directory(directory: Path) -> None:
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
