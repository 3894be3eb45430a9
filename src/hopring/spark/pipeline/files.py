"""The files of the directory that a run writes to: on this machine, or in another file system. No pyspark.

Below       this machine's file system (here), Hadoop's where there is a JVM (`hadoop_files.py`), and those of
            pyarrow behind Spark Connect (`arrow_files.py`).
Above       `store.py` and `swapping.py`.
Names       are relative to the directory, with slashes; "" is the directory itself. Spark gets the URI.
Limit       only this machine's can swap two names: elsewhere a table is absent while it is replaced.
"""

import os
import re
import shutil
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hopring.spark.errors import ForeignInput, readable
from hopring.spark.pipeline import swapping
from hopring.spark.session import is_served

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME: Final = re.compile(r"([a-z][a-z0-9+.-]*):/")  # Path() turns `s3://` into `s3:/`.


class OutputFiles(ABC):
    """File operations below one directory."""

    def __init__(self, shown: str) -> None:
        self.shown = shown  # The directory, as it was given.

    @abstractmethod
    def uri(self, name: str) -> str:
        """The URI of a file or directory, for Spark."""

    @abstractmethod
    def is_there(self, name: str) -> bool:
        """Whether there is a file or a directory of this name."""

    @abstractmethod
    def is_directory(self, name: str) -> bool:
        """Whether it is a directory."""

    @abstractmethod
    def names_in(self, name: str) -> list[str]:
        """The last parts of the names of what is in a directory; empty if there is none."""

    @abstractmethod
    def make_directory(self, name: str) -> None:
        """Makes a directory, with those above it; nothing happens if it is there."""

    @abstractmethod
    def read(self, name: str) -> bytes:
        """The content of a file; FileNotFoundError if it is not there."""

    @abstractmethod
    def write(self, name: str, data: bytes) -> None:
        """Writes a file into a directory that is there, as durably as the file system does that."""

    @abstractmethod
    def rename(self, name: str, to: str) -> None:
        """Renames a file, which replaces another one, or a directory, whose new name must be free."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Removes a file, or a directory with everything in it; nothing happens if it is not there."""

    def exchange(self, _one: str, _other: str) -> bool:
        """Swaps the names of two directories, so that both exist at every moment; false if it cannot."""
        return False

    def send(self, source: Path, name: str) -> None:
        """Copies a local directory into one that does not exist yet."""
        self.make_directory(name)
        for path in sorted(source.iterdir()):
            inner = f"{name}/{path.name}"
            if path.is_dir():
                self.send(path, inner)
            else:
                self.write(inner, path.read_bytes())

    @contextmanager
    def fetched(self, names: Iterable[str]) -> Iterator[Path]:
        """A local directory with copies of these files and directories, as far as they are there."""
        with tempfile.TemporaryDirectory(prefix="hopring-out-") as place:
            for name in names:
                self._fetch(name, Path(place) / name)
            yield Path(place)

    def _fetch(self, name: str, target: Path) -> None:
        if self.is_directory(name):
            target.mkdir(parents=True, exist_ok=True)
            for inner in self.names_in(name):
                self._fetch(f"{name}/{inner}", target / inner)
        elif self.is_there(name):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(self.read(name))


class LocalFiles(OutputFiles):
    """The files of a directory on this machine, or on storage that it sees as such."""

    def __init__(self, root: Path) -> None:
        super().__init__(str(root))
        self.root = root.absolute()

    def uri(self, name: str) -> str:
        return f"file://{self.root / name}"  # Spark's default file system may be another one.

    def is_there(self, name: str) -> bool:
        return (self.root / name).exists()

    def is_directory(self, name: str) -> bool:
        return (self.root / name).is_dir()

    def names_in(self, name: str) -> list[str]:
        place = self.root / name
        return sorted([path.name for path in place.iterdir()]) if place.is_dir() else []

    def make_directory(self, name: str) -> None:
        (self.root / name).mkdir(parents=True, exist_ok=True)

    def read(self, name: str) -> bytes:
        return (self.root / name).read_bytes()

    def write(self, name: str, data: bytes) -> None:
        with (self.root / name).open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())

    def rename(self, name: str, to: str) -> None:
        (self.root / name).rename(self.root / to)

    def remove(self, name: str) -> None:
        path = self.root / name
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)

    def exchange(self, one: str, other: str) -> bool:
        return swapping.exchanged(self.root / one, self.root / other)

    @contextmanager
    def fetched(self, names: Iterable[str]) -> Iterator[Path]:
        """The directory itself: nothing has to be copied."""
        del names
        yield self.root


def is_elsewhere(out: str) -> bool:
    """Whether this names a directory in another file system than this machine's."""
    scheme = _SCHEME.match(out)
    return scheme is not None and scheme[1] != "file"


def output_files(out: str, spark: "SparkSession | None" = None) -> OutputFiles:
    """The files of a directory: a path, or the URI of a file system that the session knows.

    Raises SparkError if there is no access to that file system.
    """
    if not is_elsewhere(out):
        return LocalFiles(Path(out.removeprefix("file://") if out.startswith("file:/") else out))
    if spark is None:
        raise ForeignInput(f"{out}: not a local directory", "give one that all workers can reach as well")
    with readable(out):
        if is_served(spark):
            from hopring.spark.pipeline.arrow_files import ArrowFiles  # noqa: PLC0415  Only where it is used.

            return ArrowFiles(out)
        from hopring.spark.pipeline.hadoop_files import HadoopFiles  # noqa: PLC0415

        return HadoopFiles(out, spark)
