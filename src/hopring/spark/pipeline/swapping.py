"""Replaces a directory by another one, so that a process that is killed meanwhile loses neither. No pyspark.

Invariant   where the file system can swap two names, the directory exists at every moment. Elsewhere it is
            absent for a moment; the old one then has a name that says where it belongs, and `recover` puts it
            back.
"""

import ctypes
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote

if TYPE_CHECKING:
    from hopring.spark.pipeline.files import OutputFiles

_OLD: Final = "-old"
_AT_FDCWD: Final = -100
_RENAME_EXCHANGE: Final = 2


def replace(files: "OutputFiles", new: str, place: str, workshop: str) -> None:
    """Puts a directory into its place, and removes the one that was there; all are names below the output."""
    old = f"{workshop}/{quote(place, safe='')}{_OLD}"
    files.make_directory(place.rpartition("/")[0])
    if files.is_there(old) and not files.is_there(place):
        files.rename(old, place)  # An earlier attempt failed in between.
    files.remove(old)
    if files.is_there(place) and files.exchange(new, place):
        files.rename(new, old)
    else:
        if files.is_there(place):
            files.rename(place, old)
        files.rename(new, place)
    files.remove(old)


def recover(files: "OutputFiles", workshop: str) -> None:
    """Puts back what a killed process had taken from its place and not yet replaced."""
    for name in files.names_in(workshop):
        if name.endswith(_OLD):
            place = unquote(name.removesuffix(_OLD))
            if not files.is_there(place):
                files.rename(f"{workshop}/{name}", place)


def exchanged(one: Path, other: Path) -> bool:
    """Swaps the names of two directories, so that both exist at every moment; false where that is impossible.

    Linux has a system call for it, but not for all file systems, and Python has none.
    """
    swap = getattr(ctypes.CDLL(None), "renameat2", None)
    if swap is None:
        return False
    return bool(swap(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE) == 0)
