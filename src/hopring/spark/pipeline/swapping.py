"""Replaces a directory by another one, so that a process that is killed meanwhile loses neither. No pyspark.

Invariant   where the file system can swap two names, the directory exists at every moment. Elsewhere it is
            absent for a moment; the old one then has a name that says where it belongs, and `recover` puts it
            back.
"""

import ctypes
import os
import shutil
from pathlib import Path
from typing import Final
from urllib.parse import quote, unquote

_OLD: Final = "-old"
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2


def replace(new: Path, out: Path, place: str, workshop: Path) -> None:
    """Puts a directory into its place below `out`, and removes the one that was there."""
    target = out / place
    old = workshop / f"{quote(place, safe='')}{_OLD}"
    target.parent.mkdir(parents=True, exist_ok=True)
    if old.exists() and not target.exists():
        old.rename(target)  # An earlier attempt failed in between.
    shutil.rmtree(old, ignore_errors=True)
    if target.exists() and exchanged(new, target):
        new.rename(old)
    else:
        if target.exists():
            target.rename(old)
        new.rename(target)
    shutil.rmtree(old, ignore_errors=True)


def recover(out: Path, workshop: Path) -> None:
    """Puts back what a killed process had taken from its place and not yet replaced."""
    for old in workshop.glob(f"*{_OLD}") if workshop.is_dir() else ():
        target = out / unquote(old.name.removesuffix(_OLD))
        if not target.exists():
            old.rename(target)


def exchanged(one: Path, other: Path) -> bool:
    """Swaps the names of two directories, so that both exist at every moment; false where that is impossible.

    Linux has a system call for it, but not for all file systems, and Python has none.
    """
    swap = getattr(ctypes.CDLL(None), "renameat2", None)
    if swap is None:
        return False
    return bool(swap(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)
