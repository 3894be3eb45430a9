"""Consumers: programs that have a spool keep its records until they say that they are done with them."""

import contextlib
import os
from pathlib import Path

from hopring.spool.layout import CONSUMERS, NEW, safe_name


def permit(directory: Path, consumer: str, offset: int) -> None:
    """This consumer is done with all records before the offset. Its first word makes it one, 0 for all."""
    if offset < 0:
        raise ValueError(f"{offset} is no offset")
    place = directory / CONSUMERS
    place.mkdir(exist_ok=True)
    path = place / safe_name(consumer)
    fresh = path.with_name(f"{path.name}.{os.getpid()}{NEW}")
    with fresh.open("w") as file:
        file.write(f"{offset}\n")
        file.flush()
        os.fsync(file.fileno())
    fresh.rename(path)


def forget(directory: Path, consumer: str) -> None:
    """The consumer is one no longer."""
    with contextlib.suppress(FileNotFoundError):
        (directory / CONSUMERS / safe_name(consumer)).unlink()


def consumers(directory: Path) -> dict[str, int]:
    """How far each consumer is, by the name of its file."""
    place = directory / CONSUMERS
    if not place.exists():
        return {}
    found = sorted([path for path in place.iterdir() if path.suffix != NEW])
    return {path.name: _offset(path) for path in found}


def permitted(directory: Path) -> int | None:
    """All consumers are done with what is before this offset; None if there are none."""
    return min(consumers(directory).values(), default=None)


def _offset(path: Path) -> int:
    """Nothing is let go of by a file that is spoiled."""
    text = path.read_text().strip()
    return int(text) if text.isdecimal() else 0
