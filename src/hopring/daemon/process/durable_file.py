"""Small files: replaced so that a crash at any moment leaves the old content or the new one, and read.

The new content is written beside the old file, synced, and put in its place by a rename; then the directory is
synced. It waits for the disk: call it in a thread.
"""

import os
from pathlib import Path

from hopring.system.kernel import kernel


def replace_file(path: Path, content: bytes) -> None:
    """Returns when the new content is on disk; OSError if the disk or the directory refuses."""
    files = kernel().files
    # Always the same name, so that a file left by a crash is overwritten.
    beside = path.with_name(f"{path.name}.new")
    file = files.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    try:
        rest = content
        while rest:
            rest = rest[files.write(file, rest) :]
        files.fsync(file)
    finally:
        files.close(file)
    files.replace(beside, path)
    _sync_directory(path.parent)


def read_file(path: Path, bytes_max: int) -> bytes:
    """The first bytes of a file; nothing if it is a pipe without bytes, for example."""
    files = kernel().files
    file = files.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    content = b""
    try:
        while len(content) < bytes_max and (piece := files.read(file, bytes_max - len(content))):
            content += piece
    except BlockingIOError:
        pass
    finally:
        files.close(file)
    return content


def _sync_directory(directory: Path) -> None:
    files = kernel().files
    handle = files.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        files.fsync(handle)
    finally:
        files.close(handle)
